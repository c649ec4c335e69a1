"""packaging/examples/consumer-ts, compiled as its README says and run with node: two members keep a copy of every user's status, through kills and
replays, in a table of their own (of the same server)."""
import json
import os
import shutil
import subprocess
import time

import boto3
import pytest

from conftest import CREDENTIALS, ROOT
from test_access import CONFIG
from v1 import Server

pytestmark = pytest.mark.gatehouse_only
EXAMPLE = ROOT / "packaging/examples/consumer-ts"
PACKAGES = ROOT / "tests/e2e/js/node_modules"
PATIENCE_S = 90
COMPILE_S = 300  # the types of the AWS SDK are many


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    where = tmp_path_factory.mktemp("consumer-ts")
    for file in EXAMPLE.iterdir():
        shutil.copy(file, where)
    (where / "node_modules").symlink_to(PACKAGES)
    done = subprocess.run(["node", "node_modules/typescript/bin/tsc"], cwd=where, capture_output=True, text=True, timeout=COMPILE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return where


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def ok(server, method, path, body=None):
    reply = server.v1.send(method, path, b"" if body is None else json.dumps(body).encode(), {})
    assert reply.status in (200, 201), reply.body
    return reply.json()


def start(server, built, member):
    environment = {**os.environ, **CREDENTIALS, "GATEHOUSE_URL": server.endpoint, "GATEHOUSE_CONSUMER": "copies", "MEMBER": member, "LEASE_S": "2",
                   "AWS_ENDPOINT_URL_DYNAMODB": server.endpoint}
    return subprocess.Popen(["node", "dist/main.js"], cwd=built, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def copies(db):
    return {row["userId"]["S"]: (row["status"]["S"], int(row["seq"]["N"])) for row in db.scan(TableName="user-copies")["Items"]}


def await_copies(db, wanted):
    deadline = time.monotonic() + PATIENCE_S
    while copies(db) != wanted:
        assert time.monotonic() < deadline, (copies(db), wanted)
        time.sleep(0.1)


def end(process):
    process.terminate()
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_two_members_keep_a_copy_through_a_kill_and_a_replay(server, built):
    db = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", config=CONFIG, aws_access_key_id="a", aws_secret_access_key="a")
    db.create_table(TableName="user-copies", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "userId", "KeyType": "HASH"}],
                    AttributeDefinitions=[{"AttributeName": "userId", "AttributeType": "S"}])
    ok(server, "PUT", "/v1/consumers/copies", {"types": ["user.*"], "from": "first"})
    users = [f"u{i}" for i in range(10)]
    first, second = start(server, built, "one"), start(server, built, "two")
    for user in users:
        ok(server, "POST", "/v1/users", {"id": user})
        ok(server, "POST", f"/v1/users/{user}/suspend")
    await_copies(db, {user: ("suspended", 2) for user in users})

    first.kill()
    first.communicate(timeout=PATIENCE_S)
    for user in users:
        ok(server, "POST", f"/v1/users/{user}/reactivate")
    await_copies(db, {user: ("active", 3) for user in users})

    ok(server, "POST", "/v1/consumers/copies/seek", {"from": "first"})  # all of it again, older events first
    ok(server, "POST", "/v1/users/u0/suspend")
    await_copies(db, {user: ("suspended", 4) if user == "u0" else ("active", 3) for user in users})
    deadline = time.monotonic() + PATIENCE_S
    while ok(server, "GET", "/v1/consumers/copies")["lag"]["events"] > 0:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    lines = end(second)
    assert len([line for line in lines if line["outcome"] == "stale"]) >= 30, "the replay was not recognised"
    assert copies(db)["u0"] == ("suspended", 4)
