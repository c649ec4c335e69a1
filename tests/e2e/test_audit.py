"""The audit log: every administrative act in it once, with who did it, and nothing that should not be there."""
import json
import os
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from certificates import Certificates
from conftest import line_with_endpoint, program, stop
from test_access import CONFIG, EVERYTHING, REGION

pytestmark = pytest.mark.gatehouse_only
WAIT_S = 30
TABLE = {"TableName": "audited", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
         "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}


def start(data, *words):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, *map(str, words)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, line_with_endpoint(process)


def acts(data, name="audit.log"):
    path = Path(data) / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def wait_acts(data, *wanted):
    """Waits until the log's acts are these: they are written a moment after they are done."""
    deadline = time.monotonic() + WAIT_S
    while [line["act"] for line in acts(data)] != list(wanted):
        assert time.monotonic() < deadline, acts(data)
        time.sleep(0.01)
    return acts(data)


def client_of(endpoint, key=("a", "b"), **more):
    return boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION, config=CONFIG, aws_access_key_id=key[0],
                        aws_secret_access_key=key[1], **more)


def key_command(data, *words, text=None):
    done = subprocess.run([program(), "key", *words, "--data", data], input=text, text=True, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    return [line.split("=", 1)[1] for line in done.stdout.splitlines() if "=" in line]


def test_acts_of_the_command_line_name_the_key_and_the_user_and_hold_no_secret(tmp_path):
    policy = json.dumps(EVERYTHING)
    key_id, secret = key_command(tmp_path, "create", "orders", "--policy", "-", text=policy)
    new_secret = key_command(tmp_path, "rotate", "orders")[1]
    key_command(tmp_path, "limit", "orders", "--max-connections", "7")
    key_command(tmp_path, "list")
    key_command(tmp_path, "show", "orders")
    key_command(tmp_path, "revoke", "orders")
    lines = wait_acts(tmp_path, "key.create", "key.rotate", "key.limit", "key.revoke")
    for line in lines:
        assert line["key_id"] == key_id and line["key_name"] == "orders" and line["os_uid"] == os.geteuid()
    assert [line["max_connections"] for line in lines] == [0, 0, 7, 7]
    text = (tmp_path / "audit.log").read_text()
    assert secret not in text and new_secret not in text
    assert os.stat(tmp_path / "audit.log").st_mode & 0o777 == 0o600


def test_a_command_that_changes_nothing_is_not_in_it(tmp_path):
    for words in (["create", "orders", "--policy", "/nonexistent"], ["revoke", "nobody"], ["limit", "nobody", "--max-connections", "1"]):
        assert subprocess.run([program(), "key", *words, "--data", tmp_path], capture_output=True, timeout=30).returncode != 0
    assert acts(tmp_path) == []


def test_what_is_done_to_tables_names_key_and_request_and_reading_or_failing_is_not_in_it(tmp_path):
    process, endpoint = start(tmp_path)
    try:
        key = key_command(tmp_path, "show", "administrator")
        client = client_of(endpoint, key)
        answers = [client.create_table(**TABLE)]
        arn = answers[0]["TableDescription"]["TableArn"]
        client.put_item(TableName="audited", Item={"p": {"S": "someone@example.org"}})
        client.describe_table(TableName="audited")
        with pytest.raises(ClientError):
            client.create_table(**TABLE)
        with pytest.raises(ClientError):
            client.delete_table(TableName="nosuch")
        ttl = {"Enabled": True, "AttributeName": "ttl"}
        answers += [client.update_time_to_live(TableName="audited", TimeToLiveSpecification=ttl),
                    client.tag_resource(ResourceArn=arn, Tags=[{"Key": "k", "Value": "someone@example.org"}]),
                    client.delete_table(TableName=arn)]
    finally:
        stop(process)
    lines = wait_acts(tmp_path, "key.create", "server.start", "table.create", "table.update", "table.update", "table.delete",
                      "server.stop")
    assert lines[0]["key_id"] == key[0] and lines[1]["version"] and lines[-1]["why"] == "a signal asked for it"
    assert [line["operation"] for line in lines[2:6]] == ["CreateTable", "UpdateTimeToLive", "TagResource", "DeleteTable"]
    for line, answer in zip(lines[2:6], answers):
        assert line["request_id"] == answer["ResponseMetadata"]["RequestId"]
        assert line["table"] == "audited" and line["key_id"] == key[0] and line["outcome"] == "ok"
    text = (tmp_path / "audit.log").read_text()
    assert "@" not in text and "127.0.0.1" not in text and key[1] not in text


def test_after_the_log_is_moved_away_the_next_act_begins_a_new_one(tmp_path):
    process, endpoint = start(tmp_path, "--no-auth")
    try:
        client = client_of(endpoint)
        client.create_table(**TABLE)
        wait_acts(tmp_path, "server.start", "table.create")
        (tmp_path / "audit.log").rename(tmp_path / "audit.log.1")
        client.delete_table(TableName="audited")
        wait_acts(tmp_path, "table.delete")
        assert len(acts(tmp_path, "audit.log.1")) == 2
    finally:
        stop(process)


def test_a_log_that_cannot_be_written_stops_nothing_and_is_counted(tmp_path):
    import urllib.request
    process, endpoint = start(tmp_path, "--no-auth")
    try:
        wait_acts(tmp_path, "server.start")
        (tmp_path / "audit.log").unlink()
        (tmp_path / "audit.log").mkdir()
        client = client_of(endpoint)
        client.create_table(**TABLE)
        client.put_item(TableName="audited", Item={"p": {"S": "x"}})
        deadline = time.monotonic() + WAIT_S
        while b"\ngatehouse_audit_lines_lost_total 1\n" not in urllib.request.urlopen(endpoint + "/metrics").read():
            assert time.monotonic() < deadline
    finally:
        stop(process)
    assert process.returncode == 0


def test_a_restart_after_a_failed_flush_is_in_it(tmp_path):
    process, endpoint = start(tmp_path, "--no-auth", "--fault", "commit:2")
    try:
        client = client_of(endpoint)
        for number in range(5):
            try:
                client.create_table(**{**TABLE, "TableName": f"table-{number}"})
            except ClientError:
                break
        line_with_endpoint(process)
    finally:
        stop(process)
    lines = acts(tmp_path)
    names = [line["act"] for line in lines]
    assert names[0] == "server.start" and "server.restart" in names and names[-1] == "server.stop"
    stopped = lines[names.index("server.stop")]
    assert stopped["why"] == "a flush failed"
    unknown = [line for line in lines if line.get("outcome") == "InternalServerError"]
    assert len(unknown) == 1 and unknown[0]["act"] == "table.create"  # it may have been made


def test_a_certificate_that_is_read_again_is_in_it(tmp_path):
    certificates = Certificates()
    certificates.make("live", by="ca")
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", tmp_path, "--no-auth", "--tls-cert",
                                certificates.crt("live"), "--tls-key", certificates.key("live")],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while b"listening on https" not in process.stdout.readline():
            assert process.poll() is None
        wait_acts(tmp_path, "server.start")
        process.send_signal(signal.SIGHUP)
        wait_acts(tmp_path, "server.start", "certificate.reload")
        certificates.crt("live").write_text("nonsense")
        process.send_signal(signal.SIGHUP)
        lines = wait_acts(tmp_path, "server.start", "certificate.reload", "certificate.reload")
        assert [line["outcome"] for line in lines[1:]] == ["ok", "failed"]
    finally:
        stop(process)
        certificates.release()


def test_what_administers_subjects_and_policies_is_in_it_and_attempts_are_not(tmp_path):
    process, endpoint = start(tmp_path, "--no-auth")

    def call(method, path, body):
        request = urllib.request.Request(endpoint + path, json.dumps(body).encode(), method=method)
        return urllib.request.urlopen(request, timeout=10).status

    try:
        call("POST", "/v1/attempts", {"subject": "alice", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"})
        call("PUT", "/v1/subjects/alice/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"})
        call("POST", "/v1/subjects/alice.of.example.org/reset", {"reset": "PASSWORD"})
        urllib.request.urlopen(urllib.request.Request(endpoint + "/v1/subjects/alice/known-devices", method="DELETE"), timeout=10)
        lines = wait_acts(tmp_path, "server.start", "identity.change", "identity.change", "identity.change")
    finally:
        stop(process)
    assert [(line["operation"], line.get("subject")) for line in lines[1:]] == [
        ("SetLock", "alice"), ("ResetSubject", None), ("ForgetKnownDevices", "alice")]
    assert "example.org" not in (tmp_path / "audit.log").read_text()


def test_a_bulk_unlock_has_a_line_for_each_lock_and_a_dry_run_none(tmp_path):
    process, endpoint = start(tmp_path, "--no-auth")

    def call(method, path, body):
        request = urllib.request.Request(endpoint + path, json.dumps(body).encode(), method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return {"id": answer.headers["X-Request-Id"], **json.load(answer)}

    subjects = ["alice", {"email": "bob@example.org"}, "carol.of.example.org"]
    what = {"subjects": subjects, "where": {"kind": "STANDARD"}}
    try:
        bob = call("POST", "/v1/subjects/lookup", {"subject": subjects[1]})["subject"]
        for subject, journey in [("alice", "SIGN_IN"), ("alice", "ACCOUNT_MANAGEMENT"), (bob, "SIGN_IN"),
                                 ("carol.of.example.org", "SIGN_IN")]:
            call("PUT", f"/v1/subjects/{subject}/locks/{journey}/PASSWORD_ENTRY", {"kind": "STANDARD"})
        call("POST", "/v1/unlock", {**what, "dry_run": True})
        ids = [call("POST", "/v1/unlock", what)["id"] for _ in range(2)]
        lines = wait_acts(tmp_path, "server.start", *["identity.change"] * 9)[5:]
    finally:
        stop(process)
    assert {line["operation"] for line in lines} == {"Unlock"}
    assert [(line["request_id"], line["locks"]) for line in lines] == [(ids[0], 4)] * 4 + [(ids[1], 0)]
    assert sorted((line["resource"], line["lock"], line.get("subject", "")) for line in lines[:4]) == sorted([
        ("journey/ACCOUNT_MANAGEMENT", "PASSWORD_ENTRY", "alice"), ("journey/SIGN_IN", "PASSWORD_ENTRY", ""),
        ("journey/SIGN_IN", "PASSWORD_ENTRY", "alice"), ("journey/SIGN_IN", "PASSWORD_ENTRY", bob)])
    assert "example.org" not in (tmp_path / "audit.log").read_text()


def test_a_command_whose_line_is_lost_says_so_and_its_status_is_not_0(tmp_path):
    """The key is made, and shown: whoever made it must be able to revoke it."""
    (tmp_path / "audit.log").mkdir()
    words = [["create", "orders", "--policy", "-"], ["rotate", "orders"], ["limit", "orders", "--max-connections", "7"], ["revoke", "orders"], ["seal"]]
    for each in words:
        done = subprocess.run([program(), "key", *each, "--data", tmp_path], input=json.dumps(EVERYTHING), text=True, capture_output=True, timeout=30)
        assert done.returncode == 1 and f"gatehouse: key.{each[0]} was done, but {tmp_path}/audit.log has no line of it\n" in done.stderr, done
        assert done.stdout != ""
    done = subprocess.run([program(), "device-key", "rotate", "--data", tmp_path], text=True, capture_output=True, timeout=30)
    assert done.returncode == 1 and "device_key.rotate was done" in done.stderr, done


def test_a_fifo_in_place_of_the_log_holds_up_nothing(tmp_path):
    os.mkfifo(tmp_path / "audit.log", 0o600)
    done = subprocess.run([program(), "key", "create", "orders", "--policy", "-", "--data", tmp_path], input=json.dumps(EVERYTHING), text=True,
                          capture_output=True, timeout=30)
    assert done.returncode == 1 and "audit.log: is not a file" in done.stderr
