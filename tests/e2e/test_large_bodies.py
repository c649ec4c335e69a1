"""Large bodies: nobody unknown may send one, and what a body costs in memory and time is bounded before it is decoded."""

import http.client
import json
import os
import shutil
import socket
import time
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from conftest import stop
from test_access import EVERYTHING, Guarded

pytestmark = pytest.mark.gatehouse_only

REGION = "local"
TABLE = "bodies"
MB = 1 << 20
NOTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}
CPU_S_MAX = 0.5         # of the whole server: it was 2 s
GROWTH_MB_MAX = 100     # the body itself, whose buffer doubles, and the kernel's share; it was 759 MB


@pytest.fixture(scope="module")
def server():
    running = Guarded()
    running.admin_key = running.key("show", "administrator")
    running.admin = running.client(running.admin_key, REGION)
    running.admin.create_table(TableName=TABLE, BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                               AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
    yield running
    stop(running.process)
    shutil.rmtree(running.data, ignore_errors=True)
    assert running.process.returncode == 0


def signed(server, key, operation, body):
    request = AWSRequest("POST", server.endpoint + "/", data=body, headers={
        "X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0"})
    SigV4Auth(Credentials(*key), "dynamodb", REGION).add_auth(request)
    return dict(request.headers)


def post(server, path, body, headers):
    line = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=60)
    line.request("POST", path, body, headers)
    answer = line.getresponse()
    text = answer.read().decode()
    line.close()
    return answer.status, text


# ---- from strangers ----


def begin(server, path, headers, length=16 * MB):
    """The head of a request with a large body, and none of the body."""
    parts = urlsplit(server.endpoint)
    line = socket.create_connection((parts.hostname, parts.port), timeout=30)
    text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    line.sendall(f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{text}Content-Length: {length}\r\n\r\n".encode())
    return line


def whole(line):
    """All that the server says until it ends the connection."""
    seen = b""
    while more := line.recv(65536):
        seen += more
    line.close()
    return seen.decode()


def test_a_large_body_of_a_stranger_is_refused_by_its_head(server):
    unknown = signed(server, ("AKGHUNKNOWNUNKNOWN22", "x" * 40), "PutItem", b"")
    for path, headers, status, word in [
            ("/", {"X-Amz-Target": "DynamoDB_20120810.PutItem"}, 400, "MissingAuthenticationToken"),
            ("/", {**unknown, "Content-Length": 16 * MB}, 400, "UnrecognizedClientException"),
            ("/v1/attempts", {}, 401, "Bearer"),
            ("/v1/attempts", {"Authorization": "Bearer AKGHUNKNOWNUNKNOWN22." + "x" * 40}, 401, "bearer key"),
            ("/v1/attempts", {"Authorization": f"Bearer {server.admin_key[0]}." + "x" * 40}, 401, "bearer key"),
            ("/nothing-here", {}, 404, "unknown path")]:
        headers.pop("Content-Length", None)
        text = whole(begin(server, path, headers))
        assert text.startswith(f"HTTP/1.1 {status} ") and word in text, text
        assert "\r\nconnection: close\r\n" in text.lower()


def test_strangers_cannot_keep_others_from_sending_large_bodies(server):
    strangers = [begin(server, "/", {"X-Amz-Target": "DynamoDB_20120810.PutItem"}) for _ in range(24)]
    for line in strangers:
        try:
            line.sendall(b"x" * (12 * MB))  # a fast start
        except OSError:
            pass
    server.admin.put_item(TableName=TABLE, Item={"pk": {"S": "large"}, "v": {"S": "x" * 390_000}})
    for line in strangers:
        line.close()


# ---- what a body costs ----


class Cost:
    """What the server takes in a block: CPU seconds, and memory at most beyond what it had."""

    def __init__(self, server):
        self.pid = server.process.pid

    def status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

    def cpu(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as text:
            fields = text.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as peak:
            peak.write("5")
        self.before_mb, self.before_s = self.status("VmRSS"), self.cpu()
        return self

    def __exit__(self, *_):
        self.growth_mb, self.cpu_s = self.status("VmHWM") - self.before_mb, self.cpu() - self.before_s
        print(f"{self.growth_mb:.0f} MB, {self.cpu_s:.2f} s of CPU")


ZEROS = b'{"TableName":"bodies","Key":[' + b"0," * (8 * MB - 20) + b"0]}"


@pytest.mark.parametrize("policy, word", [(NOTHING, "AccessDeniedException"), (EVERYTHING, "more than 1048576 values")])
def test_a_body_of_eight_million_values_costs_little_more_than_its_length(server, policy, word):
    key = server.make("zeros-" + word.split()[0].lower(), policy)
    headers = signed(server, key, "GetItem", ZEROS)
    with Cost(server) as cost:
        status, text = post(server, "/", ZEROS, headers)
    assert status == 400 and word in text, text
    assert cost.growth_mb < GROWTH_MB_MAX and cost.cpu_s < CPU_S_MAX


def test_a_key_that_may_do_nothing_is_refused_before_its_transaction_is_decoded(server):
    key = server.make("denied", NOTHING)
    body = b'{"TransactItems":[' + b" " * 20_000 + b"not JSON"
    status, text = post(server, "/", body, signed(server, key, "TransactWriteItems", body))
    assert status == 400 and "AccessDeniedException" in text and "on any resource" in text
    body = b'{"policy":' + b" " * 20_000 + b"not JSON"
    status, text = post(server, "/v1/attempts", body, {"Authorization": f"Bearer {key[0]}.{key[1]}"})
    assert status == 403 and "on any resource" in text


def test_a_large_batch_that_may_be_written_is(server):
    items = [{"PutRequest": {"Item": {"pk": {"S": f"batch-{i}"}, "l": {"L": [{"N": f"{j}"} for j in range(15_000)]}}}} for i in range(25)]
    body = json.dumps({"RequestItems": {TABLE: items}}).encode()
    assert len(body) > 5 * MB
    began = time.monotonic()
    status, text = post(server, "/", body, signed(server, server.admin_key, "BatchWriteItem", body))
    print(f"{len(body)} bytes in {time.monotonic() - began:.2f} s")
    assert status == 200, text
