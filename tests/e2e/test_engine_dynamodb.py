"""gatehouse serve --engine dynamodb: the identity API over an independent DynamoDB endpoint (dynoxide), in one process and in several
that share it. test_endpoint_start.py has what is refused at the start."""

import contextlib
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import boto3
import pytest

from aws_like import AwsLike
from conftest import ROOT, line_with_endpoint, program, stop

DYNOXIDE = ROOT / "bench/node_modules/@dynoxide/linux-x64/dynoxide"
PATIENCE_S = 60
KEY = os.urandom(32)  # the identifiers.key of all servers here: those that share tables must have one


def free_port():
    """One below those that the kernel hands out to clients."""
    while True:
        port = random.randrange(10000, 30000)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


@pytest.fixture(scope="module")
def dynoxide():
    """Its URL, or with GATEHOUSE_AWS_LIKE=1 that of a proxy before it that refuses as AWS does (aws_like.py)."""
    port = free_port()
    process = subprocess.Popen([DYNOXIDE, "serve", "--host", "127.0.0.1", "--port", str(port)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    if os.environ.get("GATEHOUSE_AWS_LIKE") == "1":
        with AwsLike(f"http://127.0.0.1:{port}") as proxy:
            yield proxy.url
    else:
        yield f"http://127.0.0.1:{port}"
    stop(process)


def environment(url, **more):
    """Of a server: how often boto3 tries (conftest.py) is not for it."""
    own = {name: value for name, value in os.environ.items() if name != "AWS_MAX_ATTEMPTS"}
    return {**own, "AWS_ENDPOINT_URL_DYNAMODB": url, "AWS_REGION": "eu-west-1", **more}


def command(data, *options):
    return [program(), "serve", "--engine", "dynamodb", "--listen", "127.0.0.1:0", "--data", str(data), "--no-auth", *options]


def give_key(data):
    """As an operator does, before the first start."""
    path = os.path.join(data, "identifiers.key")
    if not os.path.exists(path):
        os.makedirs(data, mode=0o700, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(KEY)


@contextlib.contextmanager
def gatehouse(url, *options, data=None):
    own = data or tempfile.mkdtemp(prefix="gatehouse-e2e-")
    give_key(own)
    process = subprocess.Popen(command(own, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(url))
    try:
        yield line_with_endpoint(process)
    finally:
        stop(process)
        if data is None:
            shutil.rmtree(own, ignore_errors=True)
    assert process.returncode == 0


def call(base, path, body=None, method=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def attempt(base, subject, outcome="failure"):
    status, answer = call(base, "/v1/attempts", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": outcome})
    assert status == 200, answer
    return answer


def test_the_sixth_failure_locks_and_tables_have_the_prefix_and_a_time_to_live(dynoxide):
    with gatehouse(dynoxide, "--table-prefix", "one-") as base:
        verdicts = [attempt(base, "ann")["verdict"] for _ in range(7)]
        assert verdicts == ["allow"] * 5 + ["locked"] * 2
        assert attempt(base, "ann", "success")["verdict"] == "locked"
        status, user = call(base, "/v1/users", {"id": "zoe"})
        assert status == 201 and user["status"] == "active"
        assert call(base, "/v1/users/zoe")[1]["id"] == "zoe"
    ddb = boto3.client("dynamodb", endpoint_url=dynoxide, region_name="eu-west-1")
    names = [name for name in ddb.list_tables()["TableNames"] if name.startswith("one-")]
    assert "one-auth-state" in names and "one-users" in names
    ttl = ddb.describe_time_to_live(TableName="one-auth-state")["TimeToLiveDescription"]
    assert ttl == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


def test_what_was_written_is_there_for_the_next_process(dynoxide):
    data = tempfile.mkdtemp(prefix="gatehouse-e2e-")
    try:
        with gatehouse(dynoxide, "--table-prefix", "two-", data=data) as base:
            for _ in range(4):
                attempt(base, "ann")
        with gatehouse(dynoxide, "--table-prefix", "two-", data=data) as base:
            assert attempt(base, "ann")["counts"]["PASSWORD_ENTRY"]["count"] == 5
    finally:
        shutil.rmtree(data, ignore_errors=True)


def test_processes_that_share_tables_count_every_failure_once(dynoxide):
    """Two processes, four clients each: of parallel guesses against a limit of six, six are counted, and all see the lock."""
    with gatehouse(dynoxide, "--table-prefix", "three-") as first, gatehouse(dynoxide, "--table-prefix", "three-") as second:
        attempt(first, "someone-else")  # makes the table
        answers, failures = [], []

        def guess(base):
            try:
                for _ in range(3):
                    answers.append(attempt(base, "eve"))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=guess, args=(base,)) for base in (first, second) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sum(answer["counted"] for answer in answers) == 6
        assert sorted(answer["counts"]["PASSWORD_ENTRY"]["count"] for answer in answers if answer["counted"]) == [1, 2, 3, 4, 5, 6]
        assert attempt(first, "eve", "success")["verdict"] == attempt(second, "eve", "success")["verdict"] == "locked"


def test_a_call_that_needs_no_table_is_answered(dynoxide):
    """A key that a limit refused a moment ago is refused from memory, and a limit in memory never asks."""
    with gatehouse(dynoxide, "--table-prefix", "four-") as base:
        allowed = [call(base, "/v1/allow", {"policy": "sms-number", "key": "number-1"})[1]["allowed"] for _ in range(13)]
        assert allowed == [True] * 10 + [False] * 3
        assert call(base, "/v1/allow", {"policy": "login-ip", "key": {"ip": "192.0.2.1"}})[1]["allowed"]
        assert call(base, "/v1/policies/limits")[0] == 200


def test_hot_keys_are_listed_and_the_log_names_only_their_hash(dynoxide, tmp_path):
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(command(tmp_path / "data", "--table-prefix", "hot-", "--hot-key-units", "4"), stdout=subprocess.PIPE, stderr=log,
                                   env=environment(dynoxide))
        base = line_with_endpoint(process)
        for _ in range(4):
            attempt(base, "mallory")
        _, hot = call(base, "/v1/hot-keys?max=100")
        _, few = call(base, "/v1/hot-keys?max=3")
        with urllib.request.urlopen(base + "/metrics", timeout=PATIENCE_S) as answer:
            metrics = answer.read().decode()
        assert call(base, "/v1/hot-keys?max=0")[0] == 422
        stop(process)
    assert hot["warn_at"] == 4 and len(few["keys"]) <= 3
    key, = [key for key in hot["keys"] if key["key"] == "mallory"]
    assert key["table"] == "auth-state" and key["units"] >= 8
    said = (tmp_path / "log").read_text()
    warned = set(re.findall(r"key hash ([\w-]+)", said))  # one warning in 10 s, so that of another key may have come first
    assert warned and warned <= {key["hash"] for key in hot["keys"]} and "mallory" not in said
    assert "mallory" not in metrics and key["hash"] not in metrics
    seconds = [line for line in metrics.splitlines() if line.startswith("gatehouse_hot_key_seconds_total")]
    assert float(seconds[0].split()[-1]) >= 1


def test_dynamodbs_own_protocol_is_refused_with_a_hint(dynoxide):
    with gatehouse(dynoxide) as base:
        status, answer = call(base, "/", {}, headers={"X-Amz-Target": "DynamoDB_20120810.ListTables"})
        assert status == 400
        assert answer["__type"].endswith("UnknownOperationException")
        assert "DynamoDB endpoint" in answer["message"]
