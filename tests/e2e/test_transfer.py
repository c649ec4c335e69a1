"""gatehouse export and gatehouse import: a server with attempts, locks, users, devices, events and limits moves from its own disk to an independent
DynamoDB endpoint (dynoxide) and back; every row and several answers stay the same. An export that is damaged, cut off or unfinished is refused with
the line, and nothing is written."""

import gzip
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import boto3
import pytest

from conftest import CREDENTIALS, program
from control_plane import ControlPlane, served
from helpers import all_items
from test_engine_dynamodb import attempt, call, dynoxide, gatehouse  # noqa: F401
from v1 import Server

pytestmark = pytest.mark.gatehouse_only
ATTEMPT = {"journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}


def run(*words, endpoint, status=0):
    """What it printed, and what it said on standard error."""
    ended = subprocess.run([program(), *words, "--endpoint", endpoint], env={**os.environ, **CREDENTIALS, "AWS_REGION": "local", "AWS_DEFAULT_REGION": "local"},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert ended.returncode == status, (ended.stdout, ended.stderr)
    return ended.stdout, ended.stderr


def client(endpoint):
    return boto3.client("dynamodb", endpoint_url=endpoint, region_name="local")


def rows_of(endpoint, prefix=""):
    """Every row that moves of every table with that prefix, as text."""
    ddb = client(endpoint)
    return {name[len(prefix):]: sorted(json.dumps(item, sort_keys=True, default=repr) for item in all_items(ddb.scan, TableName=name, ConsistentRead=True)
                                       if "gatehouseKeyCheck" not in item)
            for name in ddb.list_tables()["TableNames"] if name.startswith(prefix)}


def fill(base):
    """Attempts, a lock, a known device, users with emails, devices, limits, policies, events, a kept answer."""
    for _ in range(6):
        locked = attempt(base, "eve")
    assert locked["verdict"] == "locked"
    for _ in range(3):
        attempt(base, "ann")
        attempt(base, {"email": "bob@example.org"})  # stored as a hash, made with identifiers.key
    for who in ("zoe", "max"):
        assert call(base, "/v1/users", {"id": who, "firstName": who.title()})[0] == 201
    assert call(base, "/v1/users/zoe/emails", {"email": "zoe@example.org"})[0] == 201
    assert call(base, "/v1/users/max/suspend", method="POST")[0] == 200
    assert call(base, "/v1/users/zoe/devices/phone", {"expoPushToken": "ExponentPushToken[zoe-phone-0000001]", "platform": "ios"}, "PUT")[0] in (200, 201)
    for _ in range(2):
        assert call(base, "/v1/allow", {"policy": "sms-number", "key": "number-1"})[0] == 200
    for n in range(200):  # more than a batch
        call(base, "/v1/attempts", {"subject": f"many-{n}", **ATTEMPT, "outcome": "failure"})
    assert call(base, "/v1/attempts", {"subject": "idem", **ATTEMPT, "outcome": "failure"}, headers={"Idempotency-Key": "once-1"})[0] == 200
    policies = call(base, "/v1/policies/attempts")[1]
    assert call(base, "/v1/policies/attempts", policies["document"], "PUT", {"If-Match": f'"{policies["version"]}"'})[0] == 200


def answers(base):
    """What must be the same wherever the tables are."""
    checked = call(base, "/v1/check", {"subject": "eve", "journey": "SIGN_IN"})[1]
    checked.pop("retry_after", None)
    checked.get("lock", {}).pop("retry_after", None)
    events = call(base, "/v1/events?limit=200")[1]
    return {
        "lock": json.dumps({k: v for k, v in checked.items() if k in ("verdict", "reason", "until")}),
        "users": [call(base, f"/v1/users/{who}") for who in ("zoe", "max")],
        "lookup": call(base, "/v1/users/lookup", {"email": "zoe@example.org"}),
        "devices": call(base, "/v1/users/zoe/devices"),
        "policies": call(base, "/v1/policies/attempts"),
        "replay": call(base, "/v1/attempts", {"subject": "idem", **ATTEMPT, "outcome": "failure"}, headers={"Idempotency-Key": "once-1"}),
        "events": [(e["type"], e.get("position"), e.get("seq"), e["id"]) for e in events["events"]],
    }


@pytest.fixture(scope="module")
def source():
    server = Server("--region", "local")
    fill(server.endpoint)
    yield server
    server.close()


@pytest.fixture(scope="module")
def exported(source, tmp_path_factory):
    place = tmp_path_factory.mktemp("export") / "one"
    out, said = run("export", "--to", str(place), "--data", source.data, endpoint=source.endpoint)
    assert "exported" in out and "auth-state: " in said
    return place


def test_a_server_moves_to_an_endpoint_and_back_with_every_row(source, exported, dynoxide, tmp_path):  # noqa: F811
    before, told = rows_of(source.endpoint), answers(source.endpoint)
    run("import", "--check", "--from", str(exported), endpoint=source.endpoint)  # nothing changed since
    out, _ = run("import", "--from", str(exported), "--table-prefix", "moved-", "--data", str(tmp_path / "data"), endpoint=dynoxide)
    assert "read them back" in out
    moved = rows_of(dynoxide, "moved-")
    assert moved == before
    assert len(before["auth-state"]) > 200
    assert {"auth-state", "device-tokens", "gatehouse-events", "gatehouse-idempotency", "gatehouse-policies", "gatehouse-push-tokens", "rate-limits", "users"} <= {name for name, rows in before.items() if rows}, {name: len(rows) for name, rows in before.items()}
    ttl = client(dynoxide).describe_time_to_live(TableName="moved-auth-state")["TimeToLiveDescription"]
    assert (ttl["TimeToLiveStatus"], ttl["AttributeName"]) == ("ENABLED", "ttl")
    with gatehouse(dynoxide, "--table-prefix", "moved-", "--region", "local", data=str(tmp_path / "data")) as base:
        assert answers(base) == told
        assert attempt(base, "ann")["counts"]["PASSWORD_ENTRY"]["count"] == 4
        assert attempt(base, {"email": "bob@example.org"})["counts"]["PASSWORD_ENTRY"]["count"] == 4
    back = tmp_path / "back"
    run("export", "--to", str(back), "--table-prefix", "moved-", "--gzip", "--data", str(tmp_path / "data"), endpoint=dynoxide)
    said, _ = run("import", "--from", str(back), "--data", str(tmp_path / "home"), "--keys-only", endpoint="http://127.0.0.1:1")  # nobody is asked
    assert "home: has identifiers.key and devices.key of the export" in said
    home = Server("--region", "local", data=str(tmp_path / "home"))
    try:
        run("import", "--from", str(back), endpoint=home.endpoint)
        assert {name: rows for name, rows in rows_of(home.endpoint).items() if rows} == {name: rows for name, rows in rows_of(dynoxide, "moved-").items() if rows}
        home.kill()
        home.start()
        assert answers(home.endpoint)["users"] == told["users"] and answers(home.endpoint)["policies"] == told["policies"]
        assert answers(home.endpoint)["events"][:len(told["events"])] == told["events"]
        assert attempt(home.endpoint, {"email": "bob@example.org"})["counts"]["PASSWORD_ENTRY"]["count"] == 5
    finally:
        home.close()


def test_tables_that_hold_rows_are_refused_unless_told(source, exported, dynoxide):  # noqa: F811
    run("import", "--from", str(exported), "--table-prefix", "twice-", endpoint=dynoxide)
    before = rows_of(dynoxide, "twice-")
    _, said = run("import", "--from", str(exported), "--table-prefix", "twice-", endpoint=dynoxide, status=2)
    assert "holds rows already, and nothing was imported" in said and "--into-existing" in said
    run("import", "--from", str(exported), "--table-prefix", "twice-", "--into-existing", endpoint=dynoxide)
    assert rows_of(dynoxide, "twice-") == before


@pytest.mark.parametrize("after_s", [0.05, 0.1, 0.2])
def test_an_import_that_was_killed_is_repeated(source, exported, dynoxide, after_s):  # noqa: F811
    prefix = f"killed-{after_s}-"
    words = [program(), "import", "--from", str(exported), "--table-prefix", prefix, "--endpoint", dynoxide, "--region", "local"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.kill()
    process.wait()
    run("import", "--from", str(exported), "--table-prefix", prefix, "--into-existing", endpoint=dynoxide)
    assert rows_of(dynoxide, prefix) == rows_of(source.endpoint)


def test_a_table_that_was_made_without_its_time_to_live_gets_it(source, exported, dynoxide):  # noqa: F811
    """An import that was killed between the two requests that make a table leaves one like that."""
    ddb = client(dynoxide)
    keys = [("PK", "HASH"), ("SK", "RANGE")]
    ddb.create_table(TableName="half-auth-state", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": n, "KeyType": k} for n, k in keys],
                     AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n, _ in keys])
    _, said = run("import", "--check", "--from", str(exported), "--table-prefix", "half-", endpoint=dynoxide, status=2)
    assert 'table auth-state is there without time to live, which the export has in "ttl"' in said
    run("import", "--from", str(exported), "--table-prefix", "half-", endpoint=dynoxide)
    assert ddb.describe_time_to_live(TableName="half-auth-state")["TimeToLiveDescription"]["AttributeName"] == "ttl"
    assert rows_of(dynoxide, "half-") == rows_of(source.endpoint)


def test_a_check_names_the_row_that_differs(source, exported, dynoxide):  # noqa: F811
    run("import", "--from", str(exported), "--table-prefix", "check-", endpoint=dynoxide)
    ddb = client(dynoxide)
    row = ddb.scan(TableName="check-users")["Items"][0]
    ddb.put_item(TableName="check-users", Item={**row, "more": {"S": "x"}})
    _, said = run("import", "--check", "--from", str(exported), "--table-prefix", "check-", endpoint=dynoxide, status=1)
    assert "table users: the row of line " in said and "is another one there" in said
    ddb.put_item(TableName="check-users", Item=row)
    ddb.put_item(TableName="check-users", Item={"PK": {"S": "one"}, "SK": {"S": "more"}})
    _, said = run("import", "--check", "--from", str(exported), "--table-prefix", "check-", endpoint=dynoxide, status=1)
    assert "table users holds rows that the export does not have" in said


def line_changed(path):
    lines = path.read_text().splitlines(keepends=True)
    lines[2] = lines[2].replace('"S":"', '"S":"x', 1)
    path.write_text("".join(lines))
    return "line 3: is not what was exported"


def line_cut(path):
    text = path.read_bytes()
    path.write_bytes(text[:-7])
    return f"line {text.count(10)}: was cut off"


def line_lost(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    return f"ends after line {len(lines) - 1}, but {len(lines)} rows were exported"


def sum_and_line_changed(path):
    import zlib
    lines = path.read_text().splitlines()
    lines[0] = lines[0].replace('"S":"', '"S":"x', 1)
    path.write_text("\n".join(lines) + "\n")
    path.with_suffix(".sums").write_text("".join(f"{zlib.crc32(line.encode()):08x}\n" for line in lines))
    return "its SHA-256 is another one than in manifest.json"


def file_gone(path):
    path.unlink()
    return "users.json: No such file"


def manifest_gone(path):
    (path.parent / "manifest.json").unlink()
    return "the export was not finished"


def manifest_of_another_version(path):
    manifest = json.loads((path.parent / "manifest.json").read_text())
    (path.parent / "manifest.json").write_text(json.dumps({**manifest, "version": 2}))
    return "version: must be"


def fifo_in_place_of(name):
    def harm(path):
        """Nobody writes to it, so whoever waits for a writer waits for ever."""
        (path.parent / name).unlink()
        os.mkfifo(path.parent / name)
        return "is not a file"
    harm.__name__ = "fifo_in_place_of_" + name
    return harm


@pytest.mark.parametrize("harm", [line_changed, line_cut, line_lost, sum_and_line_changed, file_gone, manifest_gone, manifest_of_another_version,
                                  fifo_in_place_of("manifest.json"), fifo_in_place_of("users.json"), fifo_in_place_of("users.sums")])
def test_what_is_not_as_it_was_exported_is_refused_and_nothing_is_written(exported, dynoxide, tmp_path, harm):  # noqa: F811
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    expected = harm(copy / "users.json")
    _, said = run("import", "--from", str(copy), "--table-prefix", "harmed-", endpoint=dynoxide, status=2)
    assert expected in said, said
    assert not rows_of(dynoxide, "harmed-")


def test_a_compressed_file_that_was_cut_off_is_refused(source, dynoxide, tmp_path):  # noqa: F811
    run("export", "--to", str(tmp_path / "gz"), "--gzip", "--tables", "users", endpoint=source.endpoint)
    path = tmp_path / "gz/users.json.gz"
    assert all(set(json.loads(line)) == {"Item"} for line in gzip.open(path, "rt"))
    path.write_bytes(path.read_bytes()[:-20])
    _, said = run("import", "--from", str(tmp_path / "gz"), "--table-prefix", "harmed-", endpoint=dynoxide, status=2)
    assert "users.json.gz: line " in said and "cut off" in said


def test_rows_that_expired_since_the_export_are_left_out(dynoxide, tmp_path):  # noqa: F811
    server = Server("--region", "local")
    try:
        ddb = client(server.endpoint)
        ddb.create_table(TableName="things", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
                         AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}])
        ddb.update_time_to_live(TableName="things", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
        ddb.put_item(TableName="things", Item={"PK": {"S": "soon"}, "ttl": {"N": str(int(time.time()) + 3)}, "n": {"N": "1.50"}})
        ddb.put_item(TableName="things", Item={"PK": {"S": "later"}, "ttl": {"N": str(int(time.time()) + 3600)}, "b": {"B": b"\x00\xff"}, "s": {"SS": ["b", "a"]}})
        run("export", "--to", str(tmp_path / "x"), "--tables", "things", endpoint=server.endpoint)
    finally:
        server.close()
    assert json.loads((tmp_path / "x/manifest.json").read_text())["tables"][0]["rows"] == 2
    time.sleep(4)
    out, _ = run("import", "--from", str(tmp_path / "x"), endpoint=dynoxide)
    assert "imported 1 rows" in out and "1 rows have expired" in out
    assert [row["PK"]["S"] for row in client(dynoxide).scan(TableName="things")["Items"]] == ["later"]


class OldRows(ControlPlane):
    """A server that has rows from before names of attributes were checked."""
    rows = [{"id": {"S": "a"}, "": {"S": "no name"}}, {"id": {"S": "b"}, "x" * 65536: {"N": "1"}}]

    def Scan(self, body):
        return {"Items": self.rows, "Count": 2, "ScannedCount": 2}


def test_rows_with_names_that_no_table_takes_are_exported_and_refused_by_an_import(dynoxide, tmp_path):  # noqa: F811
    plane = OldRows()
    plane.CreateTable({"TableName": "old", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                       "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]})
    with served(plane) as url:
        run("export", "--to", str(tmp_path / "x"), "--tables", "old", endpoint=url)
    file = tmp_path / "x" / "old.json"
    assert [json.loads(line)["Item"] for line in file.read_text().splitlines()] == OldRows.rows
    _, said = run("import", "--from", str(tmp_path / "x"), endpoint=dynoxide, status=2)
    assert "line 1: Empty attribute name" in said, said
    assert "old" not in client(dynoxide).list_tables()["TableNames"]


def test_an_export_is_for_its_owner_only_and_is_not_written_over(source, exported):
    assert exported.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in exported.iterdir())
    _, said = run("export", "--to", str(exported), endpoint=source.endpoint, status=2)
    assert "holds an export already" in said


def test_an_export_without_its_key_files_is_refused_before_rows_are_read(source, tmp_path):
    """Before, it had its manifest already: it looked finished, and could not be repeated."""
    _, said = run("export", "--to", str(tmp_path / "x"), "--data", str(tmp_path / "none"), endpoint=source.endpoint, status=2)
    assert "none/identifiers.key: there is none; --data must be the server's data directory" in said
    assert not list((tmp_path / "x").iterdir())
    run("export", "--to", str(tmp_path / "x"), endpoint=source.endpoint)


def test_an_endpoint_that_is_not_a_url_is_named(tmp_path):
    _, said = run("export", "--to", str(tmp_path / "x"), endpoint="127.0.0.1:8000", status=2)
    assert "must be a URL like https://host or http://host:port" in said and "--endpoint" in said


@pytest.mark.parametrize("words, said", [
    (("export",), "--to DIR is missing"),
    (("import",), "--from DIR is missing"),
    (("export", "--to", "x", "--tables", "a/b"), 'is not the name of a table'),
    (("export", "--to", "x", "--tables", "nothing-here"), 'there is no table "nothing-here": look at --tables'),
    (("import", "--from", "/nonexistent"), "manifest.json"),
    (("import", "--from", "x", "--data", "x", "--keys-only", "--check"), "--keys-only: not with --check"),
])
def test_mistakes_are_said(source, tmp_path, words, said):
    words = [str(tmp_path / "x") if word == "x" else word for word in words]
    ended = subprocess.run([program(), *words, "--endpoint", source.endpoint], env={**os.environ, "AWS_REGION": "local"}, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ended.returncode in (1, 2) and said in ended.stderr


def test_another_key_of_identifiers_is_not_written_over(exported, dynoxide, tmp_path):  # noqa: F811
    (tmp_path / "d").mkdir()
    (tmp_path / "d/identifiers.key").write_bytes(os.urandom(32))
    _, said = run("import", "--from", str(exported), "--table-prefix", "keys-", "--data", str(tmp_path / "d"), endpoint=dynoxide, status=2)
    assert "is another key than the one in the export" in said
    assert not rows_of(dynoxide, "keys-")
