"""Servers that send push messages through a stand-in for Expo (expo.py), and what tests of them say: for test_push.py and others."""

import json
import os
import signal
import time
import uuid
from pathlib import Path

import pytest

from expo import Expo
from test_clock import Clock
from test_users import call, ok, rows
from v1 import Server

JS = Path(__file__).parent / "js"
END_S = 60
LONG = os.environ.get("GATEHOUSE_PUSH_LONG") is not None
HELLO = {"title": "Hello", "body": "There is news"}


class Pusher(Server):
    """A server with an identity file that names the stand-in."""

    def __init__(self, expo, *words, **settings):
        self.identity = Path(f"/tmp/gatehouse-push-{uuid.uuid4().hex}.yaml")
        self.write(url=expo.url, allow_private=True, **settings)
        super().__init__("--identity", str(self.identity), "--device-index", *words)

    def write(self, **settings):
        lines = [f"  {name}: {json.dumps(value)}\n" for name, value in settings.items()]
        self.identity.write_text("push:\n" + "".join(lines))

    def close(self):
        super().close()
        self.identity.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def shared():
    """One server for all tests that need none of their own, and its provider."""
    expo = Expo()
    server = Pusher(expo)
    yield server, expo
    server.close()
    expo.close()


@pytest.fixture
def server(shared):
    return shared[0]


@pytest.fixture
def expo(shared):
    """Of `server`, as new. Its queue is empty: a test waits for what it sent."""
    eventually(lambda: queued(shared[0]) == 0)
    shared[1].reset_all()
    return shared[1]


@pytest.fixture
def own():
    """A provider for a server of the test's own."""
    made = Expo()
    yield made
    made.close()


@pytest.fixture
def alone(own):
    """… and that server, with nobody's devices but the test's."""
    made = Pusher(own)
    made.expo = own
    yield made
    made.close()


def eventually(holds, end_s=END_S):
    """Waits; under load things take their time."""
    until = time.monotonic() + end_s
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def queued(server):
    """Messages that wait or are being sent, as the rows have it."""
    return sum(int(json.loads(row)["messages"]["N"]) for row in rows(server).get("gatehouse-push", ()) if '"COUNT"' in row)


def token_of(name):
    return f"ExponentPushToken[{name}]"


def register(server, user, device, platform="ios"):
    token = token_of(f"{user}-{device}")
    ok(server, "PUT", f"/v1/users/{user}/devices/{device}", {"platform": platform, "expoPushToken": token})
    return token


def notify(server, user, body=None, **headers):
    status, answer, _ = call(server, "POST", f"/v1/users/{user}/notify", body or HELLO, **headers)
    assert status == 202, answer
    return answer


def await_counts(server, notification, wanted, end_s=END_S):
    until = time.monotonic() + end_s
    while time.monotonic() < until:
        now = ok(server, "GET", f"/v1/notifications/{notification['id']}")
        assert sum(now["counts"].values()) == now["messages"], now
        if all(now["counts"][name] == number for name, number in wanted.items()):
            return now
        time.sleep(0.02)
    raise AssertionError(f"wanted {wanted}: {now}")


def is_active(server, user, device):
    return ok(server, "GET", f"/v1/users/{user}/devices/{device}")["isActive"]


def held_back(server, expo):
    """Expo asks for an hour's patience: nothing is sent until let_go."""
    expo.plan.append(lambda _tokens: (429, {"errors": [{"code": "TOO_MANY_REQUESTS"}]}, {"Retry-After": "3600"}))
    register(server, "decoy", "d")
    decoy = notify(server, "decoy")
    eventually(lambda: expo.calls == 1 and ok(server, "GET", f"/v1/notifications/{decoy['id']}")["counts"]["queued"] == 1)


def let_go(server, expo, **settings):
    """A section that changes is a new beginning."""
    server.write(url=expo.url, allow_private=True, **{"rate": 601, **settings})
    server.process.send_signal(signal.SIGHUP)


@pytest.fixture
def guarded(tmp_path):
    """A project that demands an access token."""
    expo = Expo(token="secret-1")
    (tmp_path / "expo.token").write_text("secret-1\n")
    made = Pusher(expo, access_token_file=str(tmp_path / "expo.token"))
    made.expo = expo
    yield made
    made.close()
    expo.close()


def stopped(server):
    server.v1.close()
    server.process.terminate()
    assert server.process.wait(END_S) == 0
    server.process.stdout.close()


def metric(server, name):
    text = server.v1.send("GET", "/metrics").body.decode()
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " ") or line.startswith(name + "{"))


@pytest.fixture
def timed(own):
    clock = Clock()
    os.environ["GATEHOUSE_TEST_CLOCK"] = clock.path
    try:
        server = Pusher(own)
    finally:
        del os.environ["GATEHOUSE_TEST_CLOCK"]
    server.clock = clock
    yield server
    server.close()
