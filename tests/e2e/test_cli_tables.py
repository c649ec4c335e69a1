"""`gatehouse tables plan|create|check`: against dynoxide, which is independent; our own server; dynalite, which has no time to live to turn on; and a
control plane with what none of them has (control_plane.py)."""

import contextlib
import json
import subprocess
import tempfile
import time

import boto3
import pytest

from conftest import ROOT, line_with_endpoint, program, stop
from control_plane import ControlPlane, served
from test_engine_dynamodb import PATIENCE_S, attempt, dynoxide, environment, free_port, gatehouse  # noqa: F401

TABLES = ["auth-state", "rate-limits", "gatehouse-policies", "gatehouse-idempotency", "gatehouse-events", "users", "gatehouse-revocations",
          "gatehouse-jobs", "gatehouse-sync", "device-tokens", "gatehouse-push-tokens", "gatehouse-push", "outbox"]
KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ALL = ["--table-billing", "provisioned", "--table-units", "3/4,users=50/60", "--table-recovery", "--table-kms-key", KEY,
       "--table-protection", "--table-tags", "team=identity,cost=42", "--device-index"]


def tables(url, word, *options, status=0, **more):
    ended = subprocess.run([program(), "tables", word, *options], env=environment(url, **more), capture_output=True, text=True,
                           timeout=PATIENCE_S)
    assert ended.returncode == status, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def told(url, word, *options, status=0):
    answer = json.loads(tables(url, word, "--json", *options, status=status))
    return answer, {table["table"]: table for table in answer["tables"]}


def what(table):
    return [difference["what"] for difference in table["differences"]]


def client(url):
    return boto3.client("dynamodb", endpoint_url=url, region_name="eu-west-1")


# ---- an independent endpoint ----


def test_plan_says_what_would_be_made_and_makes_nothing(dynoxide):
    said = tables(dynoxide, "plan", "--table-prefix", "plan-")
    assert "plan-auth-state (counts, locks and states): will be created" in said
    assert "keys: PK (text) and SK (text)" in said
    assert "expired rows are removed, by the attribute ttl" in said
    assert "13 to create, 0 to change, 0 as wanted." in said
    assert "Nothing was done yet. `gatehouse tables create`, with the same settings, does it." in said
    assert not [name for name in client(dynoxide).list_tables()["TableNames"] if name.startswith("plan-")]


def test_create_makes_all_tables_a_server_uses_them_and_check_is_content(dynoxide):
    said = tables(dynoxide, "create", "--table-prefix", "make-")
    assert "All 13 tables are there, as wanted." in said
    assert "this endpoint has no point-in-time recovery: not checked" in said
    assert sorted(n for n in client(dynoxide).list_tables()["TableNames"] if n.startswith("make-")) == sorted("make-" + n for n in TABLES)
    with gatehouse(dynoxide, "--table-prefix", "make-", "--create-tables", "never") as base:
        for _ in range(3):
            counted = attempt(base, "ann")["counts"]["PASSWORD_ENTRY"]["count"]
    assert counted == 3
    again = tables(dynoxide, "create", "--table-prefix", "make-")  # nothing is left to do, and rows stay
    assert "asking for it" not in again and "All 13 tables are there" in again
    assert client(dynoxide).scan(TableName="make-auth-state", Select="COUNT")["Count"] > 0
    answer, named = told(dynoxide, "check", "--table-prefix", "make-")
    assert answer["good"] == 13 and named["users"]["there"]["indexes"][0]["name"] == "GSI1"


@pytest.mark.parametrize("words, said", [
    (("create", "--offline"), "--offline: only for `gatehouse tables plan`"),
    (("create", "--json"), "--json: only for `gatehouse tables plan` and `check`"),
    (("policy", "--json", "--account", "123456789012"), "--json: only for"),
])
def test_an_option_of_another_command_is_refused_and_nothing_is_made(dynoxide, words, said):
    assert said in tables(dynoxide, *words, "--table-prefix", "option-", status=2)
    assert not [name for name in client(dynoxide).list_tables()["TableNames"] if name.startswith("option-")]


def test_tables_that_a_server_made_by_itself_are_as_wanted(dynoxide):
    """One list: what services make on demand is what `tables` wants."""
    with gatehouse(dynoxide, "--table-prefix", "self-") as base:
        attempt(base, "ann")
    answer, named = told(dynoxide, "check", "--table-prefix", "self-", status=1)
    assert answer["different"] == 0 and named["auth-state"]["state"] == "good"
    assert named["outbox"]["state"] == "missing"


def test_check_names_every_difference_and_what_to_do(dynoxide):
    ddb = client(dynoxide)
    both = [{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}]
    texts = [{"AttributeName": "PK", "AttributeType": "S"}, {"AttributeName": "SK", "AttributeType": "S"}]
    index = {"IndexName": "GSI1", "KeySchema": [{"AttributeName": "SK", "KeyType": "HASH"}], "Projection": {"ProjectionType": "KEYS_ONLY"}}
    ddb.create_table(TableName="odd-auth-state", KeySchema=both[:1], AttributeDefinitions=texts[:1], BillingMode="PAY_PER_REQUEST")
    ddb.create_table(TableName="odd-gatehouse-jobs", KeySchema=both, BillingMode="PAY_PER_REQUEST",
                     AttributeDefinitions=[texts[0], {"AttributeName": "SK", "AttributeType": "N"}])
    ddb.create_table(TableName="odd-users", KeySchema=both, AttributeDefinitions=texts, BillingMode="PROVISIONED",
                     ProvisionedThroughput={"ReadCapacityUnits": 2, "WriteCapacityUnits": 2},
                     GlobalSecondaryIndexes=[{**index, "ProvisionedThroughput": {"ReadCapacityUnits": 2, "WriteCapacityUnits": 2}}])
    for name, attribute in (("odd-users", "expires"), ("odd-auth-state", "ttl"), ("odd-gatehouse-jobs", "ttl")):
        ddb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": attribute})
    answer, named = told(dynoxide, "check", "--table-prefix", "odd-", status=1)
    assert (answer["missing"], answer["different"]) == (10, 3)
    assert what(named["auth-state"]) == ["keys"] and what(named["gatehouse-jobs"]) == ["keys"]
    assert named["gatehouse-jobs"]["differences"][0]["there"] == "PK (text) and SK (number)"
    assert what(named["users"]) == ["time to live", "index GSI1"]  # nobody said how to bill
    said = tables(dynoxide, "check", "--table-prefix", "odd-", "--table-billing", "on-demand", status=1)
    assert "keys: PK (text); wanted: PK (text) and SK (text)\n        keys cannot be changed, and this table may be somebody else's" in said
    assert "time to live: on, by the attribute expires; wanted: on, by the attribute ttl\n        turn it off" in said
    assert "index GSI1: by SK (text), keys only; wanted: by GSI1PK (text) and GSI1SK (text), whole rows\n        an index cannot be" in said
    assert "billing: provisioned, 2 read and 2 write units per second; wanted: on demand\n        `gatehouse tables create` does" in said
    assert "odd-outbox (events that a poller passes on): missing\n    create it with `gatehouse tables create`" in said
    refused = tables(dynoxide, "create", "--table-prefix", "odd-", status=1)  # not even those that are missing
    assert "is there with other keys" in refused and "Nothing was done" in refused
    assert len([name for name in ddb.list_tables()["TableNames"] if name.startswith("odd-")]) == 3


def test_create_turns_on_what_a_table_lacks(dynoxide):
    ddb = client(dynoxide)
    ddb.create_table(TableName="lack-device-tokens", BillingMode="PAY_PER_REQUEST",
                     KeySchema=[{"AttributeName": "userId", "KeyType": "HASH"}, {"AttributeName": "deviceId", "KeyType": "RANGE"}],
                     AttributeDefinitions=[{"AttributeName": "userId", "AttributeType": "S"}, {"AttributeName": "deviceId", "AttributeType": "S"}])
    ddb.put_item(TableName="lack-device-tokens", Item={"userId": {"S": "ann"}, "deviceId": {"S": "phone"}})
    options = ["--table-prefix", "lack-", "--device-index", "--table-tags", "team=identity", "--table-protection"]
    assert what(told(dynoxide, "plan", *options)[1]["device-tokens"]) == [
        "time to live", "index PlatformIsActiveIndex", "deletion protection", "tags"]
    tables(dynoxide, "create", *options)
    answer, named = told(dynoxide, "check", *options)
    there = named["device-tokens"]["there"]
    assert there["timeToLive"] == "expiresAt" and there["tags"] == {"team": "identity"} and there["deletionProtection"]
    assert there["indexes"][0]["include"] == ["expoPushToken", "expiresAt"]
    assert ddb.scan(TableName="lack-device-tokens", Select="COUNT")["Count"] == 1


# ---- what some endpoints have not ----


def test_what_was_asked_for_and_is_not_to_be_had_is_a_difference(dynoxide):
    said = tables(dynoxide, "create", "--table-prefix", "ask-", "--table-recovery", status=1)
    assert "point-in-time recovery: this endpoint has no point-in-time recovery; wanted: on\n        leave out --table-recovery" in said


def test_our_own_server_is_an_endpoint_too():
    with tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
        process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"], stdout=subprocess.PIPE)
        try:
            url = line_with_endpoint(process)
            options = ["--region", "local2", "--table-tags", "a=b", "--table-billing", "provisioned", "--table-units", "7/8"]
            assert "All 13 tables are there, as wanted." in tables(url, "create", *options)
            answer, named = told(url, "check", *options)
            assert named["users"]["there"]["readUnits"] == 7
        finally:
            stop(process)


@contextlib.contextmanager
def dynalite():
    port = free_port()
    process = subprocess.Popen(["node", ROOT / "bench/node_modules/dynalite/cli.js", "--host", "127.0.0.1", "--port", str(port),
                                "--createTableMs", "1200"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()  # it says where it listens
    yield f"http://127.0.0.1:{port}"
    stop(process)


def test_an_endpoint_that_cannot_turn_on_time_to_live_is_no_failure_on_the_way():
    """dynalite makes tables in 1.2 s: all are asked for before the first is waited for."""
    with dynalite() as url:
        start = time.monotonic()
        said = tables(url, "create", status=1)
        assert time.monotonic() - start < 13 * 1.2
        assert "auth-state: time to live … this endpoint does not have it: not done" in said
        assert "time to live: off; wanted: on, by the attribute ttl" in said
        assert "CREATING, 1 s" in said
        assert "missing, 10 different, 3 as wanted" in said


# ---- all that AWS has ----


def test_all_settings_are_made_and_checked():
    plane = ControlPlane(creating=2, backups_late=2)
    with served(plane) as url:
        said = tables(url, "create", *ALL)
        assert "All 13 tables are there, as wanted." in said
        for name in TABLES:
            table = plane.tables[name]
            units = (50, 60) if name == "users" else (3, 4)
            assert table["request"]["ProvisionedThroughput"] == {"ReadCapacityUnits": units[0], "WriteCapacityUnits": units[1]}
            assert table["pitr"] and table["request"]["DeletionProtectionEnabled"]
            assert table["sse"] == {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
            assert table["tags"] == {"team": "identity", "cost": "42"}
        index, = plane.tables["device-tokens"]["request"]["GlobalSecondaryIndexes"]
        assert index["ProvisionedThroughput"] == {"ReadCapacityUnits": 3, "WriteCapacityUnits": 4}
        plane.calls.clear()
        tables(url, "create", *ALL)
        tables(url, "check", *ALL)
        assert all(name.startswith(("Describe", "List")) for name, _ in plane.calls)


def test_what_is_there_is_brought_up_to_all_settings_and_nothing_is_taken_away():
    plane = ControlPlane()
    with served(plane) as url:
        tables(url, "create")
        plane.tables["users"]["tags"]["owner"] = "somebody"
        answer, named = told(url, "check", *ALL, status=1)
        assert answer["different"] == 13
        assert what(named["users"]) == ["billing", "point-in-time recovery", "encryption", "deletion protection", "tags"]
        assert what(named["device-tokens"])[:2] == ["billing", "index PlatformIsActiveIndex"]  # an index has the units of its table
        tables(url, "create", *ALL)
        assert told(url, "check", *ALL)[0]["good"] == 13
        assert plane.tables["users"]["tags"] == {"team": "identity", "cost": "42", "owner": "somebody"}
        tables(url, "create")  # with nothing said, all stays as it is
        tables(url, "check")
        assert told(url, "check", *ALL)[0]["good"] == 13
        assert plane.tables["users"]["sse"] and plane.tables["users"]["pitr"]
        assert not {name for name, _ in plane.calls} & {"DeleteTable", "UntagResource"}


def test_who_may_not_ask_about_recovery_and_tags_still_gets_an_answer():
    plane = ControlPlane(denied=["DescribeContinuousBackups", "ListTagsOfResource"])
    with served(plane) as url:
        said = tables(url, "create")
        assert "may not call DescribeContinuousBackups: point-in-time recovery not checked" in said
        said = tables(url, "check", "--table-tags", "a=b", status=1)
        assert "tags: not told: these credentials may not ask; wanted: a=b" in said


def test_a_table_that_is_not_made_in_time_can_be_waited_for_again():
    plane = ControlPlane(creating=1000000)
    with served(plane) as url:
        said = tables(url, "create", "--wait-s", "1", status=1)
        assert 'is still CREATING after 1 s, or fills an index: it goes on by itself; run this again later' in said
        for table in plane.tables.values():
            table["left"] = 0
        assert "All 13 tables are there" in tables(url, "create")


def test_no_right_to_create_says_what_is_needed():
    with served(ControlPlane(denied=["CreateTable"])) as url:
        said = tables(url, "create", status=1)
        assert "auth-state: the DynamoDB endpoint answered 400 AccessDeniedException" in said
        assert "`gatehouse tables policy` prints those that are needed" in said


# ---- settings ----


def test_settings_come_from_the_servers_own_file_and_the_environment(dynoxide):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write("listen: 127.0.0.1:9\nengine: dynamodb\ntable-prefix: file-\ntable-tags: a=b\ntable-users: people\n")
        file.flush()
        answer = json.loads(tables(dynoxide, "plan", "--json", "--offline", "--config", file.name, GATEHOUSE_TABLE_RECOVERY="true"))
        users = next(table for table in answer["tables"] if table["table"] == "users")
        assert users["name"] == "file-people" and users["wanted"]["tags"] == {"a": "b"} and users["wanted"]["pointInTimeRecovery"]
        served_by = subprocess.run([program(), "serve", "--check-config", "--config", file.name], capture_output=True, text=True)
        assert served_by.returncode == 0 and "table-prefix: \"file-\"" in served_by.stdout, served_by.stderr


@pytest.mark.parametrize("options, said", [
    (["--table-billing", "cheap"], "table-billing: must be on-demand or provisioned"),
    (["--table-units", "5/5"], "table-units: only tables with table-billing provisioned have units"),
    (["--table-billing", "provisioned", "--table-units", "5"], 'table-units: "5" must be READ/WRITE or TABLE=READ/WRITE, each 1 to 1000000'),
    (["--table-billing", "provisioned", "--table-units", "0/5"], 'table-units: "0/5" must be'),
    (["--table-billing", "provisioned", "--table-units", "5/1000001"], 'table-units: "5/1000001" must be'),
    (["--table-billing", "provisioned", "--table-units", "user=5/5"], 'table-units: there is no table "user"'),
    (["--table-kms-key", "alias/mine"], "table-kms-key: must be the ARN of a key"),
    (["--table-tags", "aws:x=y"], "keys that begin with aws: are AWS's own"),
    (["--table-billing", "provisioned", "--table-units", "5/5,"], "table-units: nothing follows the last comma"),
    (["--table-tags", "a=b,"], "table-tags: nothing follows the last comma"),
    (["--table-tags", "a=b,a=c"], 'table-tags: the key "a" is there twice'),
    (["--table-tags", "k" * 129 + "=v"], "must be KEY=VALUE, with 1 to 128"),
    (["--table-tags", ",".join(f"k{i}=v" for i in range(51))], "table-tags: at most 50 tags"),
    (["--table-users", "outbox"], 'are both named "outbox"'),
])
def test_settings_that_make_no_sense_are_refused_before_anything_is_asked(options, said):
    assert said in tables("http://127.0.0.1:1", "plan", *options, status=2)


def test_as_many_tags_as_there_may_be():
    tags = ",".join(f"{'k' * 126}{i:02}={'v' * 256}" for i in range(50))
    answer = json.loads(tables("http://127.0.0.1:1", "plan", "--offline", "--json", "--table-tags", tags, "--table-billing", "provisioned",
                               "--table-units", "1000000/1000000"))
    assert len(answer["tables"][0]["wanted"]["tags"]) == 50 and answer["tables"][0]["wanted"]["readUnits"] == 1000000
