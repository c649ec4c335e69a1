"""libgatehouse's consumer against the real server, through build/tests/client/consumer_tool: it misses nothing and hands over nothing
twice, also if its handler refuses, and if the server is killed under it."""
import collections
import json
import subprocess
import threading
import time

import pytest

from conftest import ROOT
from test_client import Server
from v1 import V1

pytestmark = pytest.mark.gatehouse_only
TOOL = ROOT / "build/tests/client/consumer_tool"
PATIENCE_S = 60


class Member:
    """The tool, and the events that it was handed."""

    def __init__(self, server, consumer, name, *words):
        self.process = subprocess.Popen([TOOL, server.url, consumer, name, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        self.events = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            kind, subject, seq = line.split()
            self.events.append((kind, subject, int(seq)))

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        self.reader.join()
        self.process.stdout.close()


@pytest.fixture
def server():
    made = Server("--no-auth")
    yield made
    made.release()


def ok(v1, method, path, body=None):
    reply = v1.send(method, path, b"" if body is None else json.dumps(body).encode(), {})
    assert reply.status in (200, 201), reply.body
    return reply.json()


def write(server, user, rounds):
    v1 = V1(server.url)
    for _ in range(rounds):
        ok(v1, "POST", f"/v1/users/{user}/suspend")
        ok(v1, "POST", f"/v1/users/{user}/reactivate")
    v1.close()


def prepare(server, users):
    v1 = V1(server.url)
    ok(v1, "PUT", "/v1/consumers/c", {"types": ["user.*"]})
    for user in users:
        ok(v1, "POST", "/v1/users", {"id": user})
    v1.close()


def await_count(count, *members):
    deadline = time.monotonic() + PATIENCE_S
    while sum(len(m.events) for m in members) < count:
        assert time.monotonic() < deadline, [len(m.events) for m in members]
        time.sleep(0.02)


def seqs(events):
    found = collections.defaultdict(list)
    for _, subject, seq in events:
        found[subject].append(seq)
    return dict(found)


def test_events_come_once_and_in_order_also_if_their_handler_refuses_some(server):
    users = ["a", "b", "c"]
    prepare(server, users)
    member = Member(server, "c", "m", "3")
    for user in users:
        write(server, user, 10)
    await_count(63, member)
    member.close()
    assert seqs(member.events) == {user: list(range(1, 22)) for user in users}
    v1 = V1(server.url)
    left = ok(v1, "GET", "/v1/consumers/c")
    v1.close()
    assert left["members"] == [] and left["lag"]["events"] == 0


def test_members_share_and_take_over_from_one_that_is_killed(server):
    users = [f"u{i}" for i in range(16)]
    prepare(server, users)
    first, second = Member(server, "c", "m1"), Member(server, "c", "m2")
    for user in users:
        write(server, user, 3)
    await_count(16 * 7, first, second)
    first.process.kill()
    first.process.wait()
    first.reader.join()
    for user in users:
        write(server, user, 3)
    deadline = time.monotonic() + PATIENCE_S
    while {s: max(n) for s, n in seqs(first.events + second.events).items()} != {user: 13 for user in users}:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    second.close()
    first.process.stdin.close()
    first.process.stdout.close()
    for member in (first, second):
        for each in seqs(member.events).values():
            assert each == sorted(set(each)), "out of order, or twice"


def test_a_server_that_is_killed_and_starts_again_loses_nothing_and_repeats_nothing(server):
    users = ["a", "b"]
    prepare(server, users)
    member = Member(server, "c", "m")
    for _ in range(3):
        for user in users:
            write(server, user, 5)
        server.kill()
        server.start()
    await_count(2 * 31, member)
    member.close()
    assert seqs(member.events) == {user: list(range(1, 32)) for user in users}
