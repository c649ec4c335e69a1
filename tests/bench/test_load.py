"""Shows that bench/load counts what it should and never passes a bad run off as a good one."""
import http.server
import json
import os
import pathlib
import re
import socketserver
import subprocess
import sys
import threading
import time

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LOAD = ROOT / "build" / "bench" / "load"
sys.path.insert(0, str(ROOT / "bench"))

import durability  # noqa: E402
import scenarios  # noqa: E402


class Stub(http.server.ThreadingHTTPServer):
    """Answers every request with `status` and `text`; keeps the bodies it was sent."""
    daemon_threads = True

    def __init__(self, status=200, text='{"ok":1}', close_after=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.text, self.close_after, self.bodies, self.headers = status, text, close_after, [], []
        self.delay_s = 0
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.headers.append(dict(self.headers))
        time.sleep(self.server.delay_s)
        if self.server.close_after is not None and len(self.server.bodies) > self.server.close_after:
            self.close_connection = True
            return
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.text)))
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *args):
        pass


class RedisStub(socketserver.ThreadingTCPServer):
    """Answers every command with `text`; keeps the commands it was sent, each a list of words."""
    daemon_threads = True

    def __init__(self, text=":1\r\n"):
        super().__init__(("127.0.0.1", 0), RedisHandler)
        self.text, self.commands = text, []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, *_):
        pass  # the generator leaves as soon as an answer is wrong


class RedisHandler(socketserver.StreamRequestHandler):
    def handle(self):
        while head := self.rfile.readline():
            words = [self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
            self.server.commands.append([word.decode() for word in words])
            self.wfile.write(self.server.text.encode())


@pytest.fixture
def stub():
    servers = []

    def start(kind=Stub, **kinds):
        servers.append(kind(**kinds))
        return servers[-1]
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def load(server, *more, **environment):
    done = subprocess.run(
        [str(LOAD), "--port", str(server.server_address[1]), "--target", "UpdateItem",
         "--body-template", '{"key":"%d"}', "--connections", "3", "--seconds", "0.2", "--keys", "20", *more],
        stdout=subprocess.PIPE, text=True, timeout=30, check=False, env=environment)
    return done.returncode, json.loads(done.stdout)


def test_every_request_sent_is_answered_and_counted(stub):
    server = stub()
    status, result = load(server, "--warmup", "0.05")
    assert (status, result["valid"]) == (0, True)
    assert result["answered"] == len(server.bodies)
    assert 0 < result["measured"] < result["answered"]
    assert 0 < result["p50_us"] <= result["p99_us"] <= result["max_us"] * 1.005


@pytest.mark.parametrize("more", [[], ["--spin"]])
def test_once_sends_each_key_one_time(stub, more):
    server = stub()
    status, result = load(server, "--once", *more)
    assert (status, result["answered"]) == (0, 20)
    assert sorted(server.bodies) == ['{"key":"%08d"}' % key for key in range(20)]


def test_a_rate_is_kept_and_waiting_for_a_connection_counts(stub):
    server = stub()
    status, result = load(server, "--rate", "50", "--seconds", "1")
    assert (status, result["valid"]) == (0, True)
    assert 20 <= result["answered"] <= 51  # never more, however fast the answers come
    server.delay_s = 0.2  # one connection can do five per second
    result = load(server, "--rate", "50", "--seconds", "1", "--connections", "1")[1]
    assert result["answered"] <= 7 and result["max_us"] > 500000


def test_a_rate_that_is_none_or_with_once_is_refused():
    for wrong in (["--rate", "-1"], ["--rate", "50", "--once"], ["--rate", "1000001"]):
        done = subprocess.run([str(LOAD), "--port", "1", "--target", "UpdateItem", "--body-template", "{}", *wrong], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (2, "") and "usage" in done.stderr


def test_keys_begin_with_the_first(stub):
    server = stub()
    status, result = load(server, "--once", "--first", "500")
    assert (status, result["answered"]) == (0, 20)
    assert sorted(server.bodies) == ['{"key":"%08d"}' % key for key in range(500, 520)]


@pytest.mark.parametrize("more, accepted", [(["--first", "99999999"], True), (["--first", "100000000"], False), (["--first", "1", "--sign"], False)])
def test_the_last_key_has_a_maximum(more, accepted):
    done = subprocess.run([str(LOAD), "--port", "1", "--target", "GetItem", "--body-template", "x", "--keys", "1", *more],
                          capture_output=True, check=False, env={**os.environ, **KEY})
    assert done.returncode == (1 if accepted else 2)


def test_keys_vary_and_stay_in_range(stub):
    server = stub()
    load(server)
    keys = {int(json.loads(body)["key"]) for body in server.bodies}
    assert len(keys) > 5 and max(keys) < 20


def test_an_answer_other_than_200_makes_the_run_invalid(stub):
    status, result = load(stub(status=400, text='{"__type":"ValidationException"}'))
    assert (status, result["valid"]) == (1, False)
    assert result["errors"] == result["answered"]
    assert "400" in result["problem"] and "ValidationException" in result["problem"]


def test_a_200_without_the_expected_text_makes_the_run_invalid(stub):
    assert load(stub(), "--expect", '"ok"')[1]["valid"]
    assert not load(stub(), "--expect", '"Item"')[1]["valid"]


def test_a_lost_connection_makes_the_run_invalid(stub):
    status, result = load(stub(close_after=5))
    assert (status, result["valid"]) == (1, False)
    assert "closed the connection" in result["problem"]


def test_nobody_listening_makes_the_run_invalid(stub):
    server = stub()
    server.shutdown()
    server.server_close()
    status, result = load(server)
    assert (status, result["valid"]) == (1, False)
    assert "connect" in result["problem"]


@pytest.mark.parametrize("connections, accepted", [("0", False), ("10000", True), ("10001", False)])
def test_connections_have_a_maximum(connections, accepted):
    # Port 1 refuses at once, so even the accepted run opens nothing; 2 is the status of wrong arguments.
    done = subprocess.run([str(LOAD), "--port", "1", "--target", "/", "--body-template", "x", "--connections", connections],
                          capture_output=True, check=False)
    assert done.returncode == (1 if accepted else 2)


KEY = {"AWS_ACCESS_KEY_ID": "AKEXAMPLEEXAMPLE1234", "AWS_SECRET_ACCESS_KEY": "secret/of+forty.characters.............."}


def botocore_signature(server, body, sent):
    headers = {name: sent[name] for name in ("Content-Type", "X-Amz-Target")}
    request = AWSRequest("POST", "http://127.0.0.1:%d/" % server.server_address[1], headers, body)
    request.context["timestamp"] = sent["X-Amz-Date"]
    auth = SigV4Auth(Credentials(*KEY.values()), "dynamodb", "local")
    request.headers["X-Amz-Date"] = sent["X-Amz-Date"]
    return auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)


def test_signed_requests_carry_the_signature_that_botocore_makes(stub):
    server = stub()
    status, result = load(server, "--once", "--sign", **KEY)
    assert (status, result["valid"]) == (0, True)
    assert sorted(server.bodies) == ['{"key":"%08d"}' % key for key in range(20)]
    for body, headers in zip(server.bodies, server.headers):
        assert headers["Authorization"].endswith("Signature=" + botocore_signature(server, body, headers))


@pytest.mark.parametrize("more, environment, good", [
    (["--keys", "100000"], KEY, True), (["--keys", "100001"], KEY, False), ([], {}, False), (["--target", "/path"], KEY, False)])
def test_what_cannot_be_signed_is_not_sent(stub, more, environment, good):
    server = stub()
    status, result = load(server, "--sign", *more, **environment)
    assert (status == 0, len(server.bodies) > 0) == (good, good)
    assert good or "signing" in result["problem"]


def load_redis(server, *more):
    return load(server, "--target", "redis", "--body-template", "INCR\nkey %d", *more)


def test_redis_is_sent_each_key_one_time(stub):
    server = stub(RedisStub)
    status, result = load_redis(server, "--once", "--expect", ":1")
    assert (status, result["valid"], result["answered"]) == (0, True, 20)
    assert sorted(server.commands) == [["INCR", f"key {key:08}"] for key in range(20)]


@pytest.mark.parametrize("text, problem", [("-ERR no such thing\r\n", "ERR no such thing"), (":2\r\n", "unexpected body: :2"),
                                           ("*0\r\n", "Protocol error"), (":1\r\n:1\r\n", "Protocol error")])
def test_a_wrong_answer_of_redis_makes_the_run_invalid(stub, text, problem):
    status, result = load_redis(stub(RedisStub, text=text), "--expect", ":1")
    assert (status, result["valid"]) == (1, False)
    assert problem in result["problem"]


def test_flushes_and_bytes_are_counted_from_a_trace():
    trace = ('7 write(5</d/x.log>, ""..., 100) = 100\n'
             '7 fdatasync(5</d/x.log> <unfinished ...>\n'
             '8 sendto(9<socket:[1]>, ""..., 50) = 50\n'
             '7 <... fdatasync resumed>) = 0\n'
             '7 pwritev(5</d/x.log>, [{iov_base=""..., iov_len=30}, {iov_base=""..., iov_len=70}], 2, 0) = 100\n'
             '7 write(1</elsewhere>, ""..., 1000) = 1000\n')
    found = durability.judge("", trace, "/d/x", 2)
    assert (found.flushes, found.bytes) == (0.5, 100)
    assert "NOT durable" in str(found)


def test_a_log_opened_for_synchronous_writes_counts_as_flushed():
    found = durability.judge('7 openat(AT_FDCWD, "/d/x.log", O_WRONLY|O_DSYNC) = 5\n',
                             '7 write(5</d/x.log>, ""..., 100) = 100\n', "/d/x", 1)
    assert found.flushes == 1
    assert str(found).startswith("durable")


# ---- the targets ----


def test_the_readme_has_the_rate_that_each_scenario_is_to_reach():
    rows = [row.split("|") for row in (ROOT / "bench" / "README.md").read_text().splitlines() if row.startswith("| ")]
    said = {}
    for row in rows:
        rate = re.match(r" (\d+(?:\.\d+)?)x requests/s", row[5]) if len(row) == 7 else None
        if rate:
            said.setdefault(row[1].strip(), set()).add(float(rate[1]))
    wanted = {}
    for scenario in scenarios.SCENARIOS:
        for target in scenario.targets.values():
            if target.rate:
                wanted.setdefault(scenario.group, set()).add(float(target.rate))
    assert said == wanted and len(said) == 4
