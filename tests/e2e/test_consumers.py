"""Consumers over HTTP: members that poll, acknowledge, wait, share and die."""
import concurrent.futures
import json
import os
import random
import shutil
import socket
import time
import uuid
from urllib.parse import urlsplit

import pytest

from conftest import stop
from test_access import Guarded
from test_clock import Moved
from test_events import PATIENCE_S, end_of, event, make_user, suspend
from test_v1_access import call as call_as
from test_v1_access import policy
from v1 import V1, Server

pytestmark = pytest.mark.gatehouse_only


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


def call(v1, method, path, body=None):
    reply = v1.send(method, path, b"" if body is None else json.dumps(body).encode(), {})
    return reply.status, reply.json()


def ok(v1, method, path, body=None):
    status, answer = call(v1, method, path, body)
    assert status in (200, 201), answer
    return answer


def new_consumer(server, **fields):
    name = "c-" + uuid.uuid4().hex
    made = ok(server.v1, "PUT", f"/v1/consumers/{name}", fields)
    assert made["name"] == name and made["lag"] == {"events": 0, "seconds": 0}
    return name


def poll(v1, name, member="m", **fields):
    return ok(v1, "POST", f"/v1/consumers/{name}/poll", {"member": member, **fields})


def ack(v1, name, answer, member="m", **fields):
    return ok(v1, "POST", f"/v1/consumers/{name}/ack",
              {"member": member, "generation": answer["generation"], "after": answer["after"], **fields})


def test_a_consumer_gets_an_event_until_it_acknowledges_it(server):
    name = new_consumer(server)
    user = make_user(server)
    first = poll(server.v1, name)
    assert [e["subject"] for e in first["events"]] == [user]
    assert poll(server.v1, name)["events"] == first["events"]
    ack(server.v1, name, first)
    assert poll(server.v1, name)["events"] == []
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["after"] == first["after"]


def test_an_acknowledgement_that_goes_back_changes_nothing_and_is_told_what_is_in_force(server):
    name = new_consumer(server)
    for _ in range(3):
        make_user(server)
    answer = poll(server.v1, name)
    assert ack(server.v1, name, answer)["after"] == answer["after"]
    assert ack(server.v1, name, {**answer, "after": "0"})["after"] == answer["after"]
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["after"] == answer["after"] and poll(server.v1, name)["events"] == []
    assert ack(server.v1, name, {**answer, "after": "0"}, leave=True) == {"after": answer["after"]}


class Churn:
    """Members that come, go, fall silent and acknowledge late, by chance. Each event is applied when it comes: never one whose predecessor was not."""

    LEASES, LIMITS, PAUSES_S = (2, 10, 30), (1, 5, 100), (1, 3, 12, 31)

    def __init__(self, server, name, seed):
        self.server, self.name, self.random = server, name, random.Random(seed)
        self.users = [make_user(server) for _ in range(12)]
        self.published = {user: 1 for user in self.users}
        self.applied, self.held, self.refused = {}, {}, 0

    def publish(self):
        user = self.random.choice(self.users)
        what = "reactivate" if self.published[user] % 2 == 0 else "suspend"
        assert self.server.v1.send("POST", f"/v1/users/{user}/{what}", b"", {}).status == 200
        self.published[user] += 1

    def poll(self, member, **fields):
        answer = self.held[member] = poll(self.server.v1, self.name, member, **fields)
        for event in answer["events"]:
            last = self.applied.get(event["subject"], 0)
            assert event["seq"] <= last + 1, event
            self.applied[event["subject"]] = max(last, event["seq"])
        return answer

    def acknowledge(self, member, leave=False):
        answer = self.held.pop(member)
        status, problem = call(self.server.v1, "POST", f"/v1/consumers/{self.name}/ack",
                               {"member": member, "generation": answer["generation"], "after": answer["after"], "leave": leave})
        assert status in (200, 409), problem
        self.refused += status == 409

    def passes(self, seconds):
        self.server.clock.passes(seconds)
        self.server.v1.close()
        self.server.v1 = V1(self.server.endpoint)

    def step(self):
        chance, pick = self.random.random(), self.random.choice
        if chance < 0.2:
            self.publish()
        elif chance < 0.55:
            self.poll(f"m{pick(range(6))}", lease=pick(self.LEASES), limit=pick(self.LIMITS))
        elif chance < 0.9 and self.held:
            self.acknowledge(pick(sorted(self.held)), leave=chance > 0.83)
        else:
            self.passes(pick(self.PAUSES_S))


@pytest.mark.parametrize("partitions", [1, 8, 64])
def test_members_that_come_go_and_fall_silent_lose_no_event_and_no_order(partitions):
    server = Moved()
    try:
        name = new_consumer(server, partitions=partitions)
        churn = Churn(server, name, partitions)
        for _ in range(1000):
            churn.step()
        churn.passes(100)
        while (answer := churn.poll("last", limit=100))["events"] or answer["more"]:
            churn.acknowledge("last")
        assert churn.applied == churn.published and churn.refused > 10
    finally:
        server.close()


def test_an_acknowledgement_without_a_lease_says_so(server):
    name = new_consumer(server)
    make_user(server)
    answer = poll(server.v1, name, "one")
    for member, generation, field in (("two", answer["generation"], "member"), ("one", answer["generation"] + 1, "generation")):
        status, problem = call(server.v1, "POST", f"/v1/consumers/{name}/ack", {"member": member, "generation": generation, "after": answer["after"]})
        assert (status, problem["field"]) == (409, field) and "poll again" in problem["detail"]
    ack(server.v1, name, answer, "one", leave=True)
    status, problem = call(server.v1, "POST", f"/v1/consumers/{name}/ack", {"member": "one", "generation": answer["generation"], "after": answer["after"]})
    assert (status, problem["field"]) == (409, "member")


def test_its_position_survives_a_kill():
    server = Server()
    name = new_consumer(server)
    user = make_user(server)
    suspend(server, user)
    answer = poll(server.v1, name, limit=2)
    assert [e["seq"] for e in answer["events"]] == [1, 2]
    ack(server.v1, name, answer)
    server.kill()
    server.start()
    assert [e["seq"] for e in poll(server.v1, name)["events"]] == [3]
    server.close()


def test_a_poll_waits_for_an_event(server):
    name = new_consumer(server)
    waiting = V1(server.endpoint)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(poll, waiting, name, wait=60)
        user = make_user(server)
        assert [e["subject"] for e in answer.result(PATIENCE_S)["events"]] == [user]
    waiting.close()


def test_a_poll_without_events_ends_in_time_and_says_how_far_it_looked(server):
    name = new_consumer(server, types=["device.*"])
    make_user(server)
    answer = poll(server.v1, name, wait=1)
    assert answer["events"] == [] and answer["after"] == end_of(server)
    ack(server.v1, name, answer)
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["lag"]["events"] == 0


def test_lag_is_told_in_events_and_seconds(server):
    name = new_consumer(server)
    make_user(server)
    make_user(server)
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["lag"]["events"] == 2
    deadline = time.monotonic() + PATIENCE_S
    while ok(server.v1, "GET", f"/v1/consumers/{name}")["lag"]["seconds"] < 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    ack(server.v1, name, poll(server.v1, name))
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["lag"] == {"events": 0, "seconds": 0}


def metric(server, family, name):
    text = server.v1.send("GET", "/metrics", b"", {}).body.decode()
    found = [line.split()[-1] for line in text.splitlines() if line.startswith(f'{family}{{consumer="{name}"}}')]
    return float(found[0]) if found else None


def test_lag_is_on_the_metrics(server):
    name = new_consumer(server)
    make_user(server)
    deadline = time.monotonic() + PATIENCE_S
    while metric(server, "gatehouse_consumer_lag_events", name) != 1 or not metric(server, "gatehouse_consumer_lag_seconds", name):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    ok(server.v1, "DELETE", f"/v1/consumers/{name}")
    while metric(server, "gatehouse_consumer_lag_events", name) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def drain(endpoint, name, member, until, seen):
    """A member that works until all is done, wherever it is."""
    v1 = V1(endpoint)
    deadline = time.monotonic() + PATIENCE_S
    while not until() and time.monotonic() < deadline:
        answer = poll(v1, name, member, wait=1, limit=20)
        for each in answer["events"]:
            seen.append((each["subject"], each["seq"], member))
        status, _ = call(v1, "POST", f"/v1/consumers/{name}/ack", {"member": member, "generation": answer["generation"], "after": answer["after"]})
        assert status in (200, 409)
    v1.close()


def test_members_share_by_subject_and_keep_the_order_of_each(server):
    name = new_consumer(server)
    users, rounds, seen = [make_user(server) for _ in range(12)], 10, []
    total = len(users) * (2 * rounds + 1)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        members = [pool.submit(drain, server.endpoint, name, f"m{i}", lambda: len(set(each[:2] for each in seen)) >= total, seen)
                   for i in range(3)]
        for _ in range(rounds):
            for user in users:
                suspend(server, user)
        for each in members:
            each.result(2 * PATIENCE_S)
    first = {}
    for subject, seq, _ in seen:
        assert seq <= first.get(subject, 0) + 1, "out of order"
        first[subject] = max(seq, first.get(subject, 0))
    assert set(first.values()) == {2 * rounds + 1} and len(first) == len(users)
    assert len({member for _, _, member in seen}) > 1, "one member had it all"


def test_the_share_of_a_member_that_died_goes_to_one_that_waits(server):
    name = new_consumer(server)
    dead = poll(server.v1, name, "dead", lease=2)
    user = make_user(server)
    poll(server.v1, name, "dead", lease=2)  # it gets the event, and says no more
    waiting = V1(server.endpoint)
    answer = poll(waiting, name, "alive", wait=60, lease=10)
    assert [e["subject"] for e in answer["events"]] == [user]
    status, problem = call(waiting, "POST", f"/v1/consumers/{name}/ack",
                           {"member": "dead", "generation": dead["generation"], "after": answer["after"]})
    assert (status, problem["field"]) == (409, "member")
    ack(waiting, name, answer, "alive")
    waiting.close()


def test_a_new_member_gets_its_share_from_one_that_waits(server):
    name = new_consumer(server)
    one, two = V1(server.endpoint), V1(server.endpoint)
    assert poll(server.v1, name, "one")["partitions"] == 8
    with concurrent.futures.ThreadPoolExecutor() as pool:
        first = pool.submit(poll, one, name, "one", wait=60)
        second = pool.submit(poll, two, name, "two", wait=60)
        deadline = time.monotonic() + PATIENCE_S
        while [m["partitions"] for m in ok(server.v1, "GET", f"/v1/consumers/{name}")["members"]] != [4, 4]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        subjects = set()
        while not (first.done() and second.done()):
            subjects.add(make_user(server))
            assert time.monotonic() < deadline
        assert first.result()["partitions"] == second.result()["partitions"] == 4
    one.close()
    two.close()


def cpu_s(server):
    with open(f"/proc/{server.process.pid}/stat") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_a_member_without_a_share_waits_quietly_though_its_consumer_is_far_behind(server):
    """It was woken again and again, because what it has read of the log is long gone from memory."""
    name = new_consumer(server, partitions=1)
    for _ in range(3):
        make_user(server)
    assert poll(server.v1, name, "busy", lease=600)["partitions"] == 1
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        follower = threads.submit(V1(server.endpoint).send, "GET", "/v1/events?from=last&wait=4", b"", {})
        time.sleep(0.5)
        before = cpu_s(server)
        answer = poll(V1(server.endpoint), name, "idle", wait=2)
        spent = cpu_s(server) - before
        assert answer["events"] == [] and answer["partitions"] == 0
        assert spent < 0.5
        follower.result()


def test_a_member_that_leaves_frees_its_share_at_once(server):
    name = new_consumer(server)
    answer = poll(server.v1, name, "one")
    ack(server.v1, name, answer, "one", leave=True)
    assert ok(server.v1, "GET", f"/v1/consumers/{name}")["members"] == []
    assert poll(server.v1, name, "two")["partitions"] == 8


def test_a_replay_by_seek(server):
    name = new_consumer(server)
    user = make_user(server)
    ack(server.v1, name, poll(server.v1, name))
    moved = ok(server.v1, "POST", f"/v1/consumers/{name}/seek", {"from": "first"})
    assert moved["lag"]["events"] > 0
    subjects, more = [], True
    while more:
        answer = poll(server.v1, name, limit=1000)
        subjects += [e["subject"] for e in answer["events"]]
        ack(server.v1, name, answer)
        more = answer["more"] or answer["events"]
    assert user in subjects
    assert ok(server.v1, "POST", f"/v1/consumers/{name}/seek", {"after": "1"})["after"] == "1"


def test_a_seek_says_whether_it_redelivers_or_skips(server):
    name = new_consumer(server)
    for _ in range(3):
        make_user(server)
    ack(server.v1, name, poll(server.v1, name))
    after = int(ok(server.v1, "GET", f"/v1/consumers/{name}")["after"])
    back = ok(server.v1, "POST", f"/v1/consumers/{name}/seek", {"after": str(after - 2)})
    assert (back["redelivers"], back["skips"]) == (2, 0)
    ahead = ok(server.v1, "POST", f"/v1/consumers/{name}/seek", {"from": "last"})
    assert (ahead["redelivers"], ahead["skips"]) == (0, int(ahead["after"]) - after + 2)


def test_from_of_a_consumer_that_exists_is_refused_and_names_the_call_that_moves_it(server):
    name = new_consumer(server)
    status, problem = call(server.v1, "PUT", f"/v1/consumers/{name}", {"from": "first"})
    assert (status, problem["field"]) == (409, "from") and f"/v1/consumers/{name}/seek" in problem["detail"], problem
    assert call(server.v1, "PUT", f"/v1/consumers/{name}", {"types": ["user.*"]})[0] == 200


def test_a_seek_reaches_a_member_that_waits(server):
    """It must not go on from where it waited: it would acknowledge what it never got."""
    name = new_consumer(server)
    user = make_user(server)
    ack(server.v1, name, poll(server.v1, name))
    before = ok(server.v1, "GET", f"/v1/consumers/{name}")["after"]
    waiting = V1(server.endpoint)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(poll, waiting, name, wait=60)
        time.sleep(0.3)
        ok(server.v1, "POST", f"/v1/consumers/{name}/seek", {"after": str(int(before) - 1)})
        assert [e["subject"] for e in answer.result(PATIENCE_S)["events"]] == [user]
    waiting.close()


def test_a_member_whose_connection_ended_while_it_waited_keeps_its_share_no_longer_than_its_lease(server):
    name = new_consumer(server)
    poll(server.v1, name, "gone", lease=2)
    parts = urlsplit(server.endpoint)
    gone = socket.create_connection((parts.hostname, parts.port))
    gone.sendall(b"POST /v1/consumers/" + name.encode() + b"/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 41\r\n\r\n"
                        b'{"member": "gone", "lease": 2, "wait":60}')
    time.sleep(0.3)
    gone.close()
    began = time.monotonic()
    while poll(server.v1, name, "alive", wait=5)["partitions"] != 8:
        assert time.monotonic() < began + PATIENCE_S
    assert time.monotonic() < began + 40  # far less than the wait of the other


def test_consumers_are_listed_changed_and_deleted(server):
    name = new_consumer(server, types=["user.*"], partitions=3)
    found = next(c for c in ok(server.v1, "GET", "/v1/consumers")["consumers"] if c["name"] == name)
    assert found["types"] == ["user.*"] and found["partitions"] == 3
    assert ok(server.v1, "PUT", f"/v1/consumers/{name}", {"types": ["lock.set"]})["types"] == ["lock.set"]
    assert ok(server.v1, "DELETE", f"/v1/consumers/{name}") == {"name": name, "deleted": True}
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/poll", {"member": "m"}),
                               ("POST", "/seek", {"from": "first"}), ("POST", "/ack", {"member": "m", "generation": 1, "after": "1"})):
        assert call(server.v1, method, f"/v1/consumers/{name}{path}", body)[0] == 404


@pytest.mark.parametrize("method, path, body, field", [
    ("PUT", "c%2Fd", {}, "name"), ("PUT", "x" * 65, {}, "name"), ("PUT", "c", {"types": ["user.cretaed"]}, "types"),
    ("PUT", "c", {"types": [1]}, "types"), ("PUT", "c", {"partitions": 65}, "partitions"), ("PUT", "c", {"partitions": 0}, "partitions"),
    ("PUT", "c", {"from": "yesterday"}, "from"), ("PUT", "c", {"form": "first"}, "form"),
    ("POST", "c/poll", {}, "member"), ("POST", "c/poll", {"member": "a b"}, "member"), ("POST", "c/poll", {"member": "m", "limit": 1001}, "limit"),
    ("POST", "c/poll", {"member": "m", "wait": 61}, "wait"), ("POST", "c/poll", {"member": "m", "lease": 1}, "lease"),
    ("POST", "c/ack", {"member": "m", "generation": 1}, "after"), ("POST", "c/ack", {"member": "m", "generation": 1, "after": "x"}, "after"),
    ("POST", "c/ack", {"member": "m", "after": "1"}, "generation"),
    ("POST", "c/seek", {}, "from"), ("POST", "c/seek", {"from": "first", "after": "1"}, "from"), ("POST", "c/seek", {"after": "-1"}, "after"),
])
def test_a_mistake_is_named(server, method, path, body, field):
    ok(server.v1, "PUT", "/v1/consumers/c", {})
    status, problem = call(server.v1, method, "/v1/consumers/" + path, body)
    assert (status, problem["field"]) == (422, field), problem


def test_a_position_past_the_end_is_refused(server):
    name = new_consumer(server)
    answer = poll(server.v1, name)
    status, problem = call(server.v1, "POST", f"/v1/consumers/{name}/ack",
                           {"member": "m", "generation": answer["generation"], "after": str(int(answer["after"]) + 1)})
    assert (status, problem["field"]) == (422, "after")


# ---- what a key may do ----


def test_a_key_needs_the_types_to_make_a_consumer_and_the_consumer_to_poll():
    guarded = Guarded()
    consumer = "arn:aws:gatehouse:*:*:consumer/"
    allow = {"Effect": "Allow", "Action": "gatehouse:*"}
    everything = guarded.make("all", policy({**allow, "Resource": "*"}))
    maker = guarded.make("maker", policy({**allow, "Resource": [consumer + "mine", event("user.*")]}))
    member = guarded.make("member", policy({"Effect": "Allow", "Action": ["gatehouse:PollConsumer", "gatehouse:AckConsumer"],
                                            "Resource": consumer + "mine"}))
    assert call_as(guarded, maker, "PUT", "/v1/consumers/mine", {"types": ["user.*"]})[0] == 201
    status, problem = call_as(guarded, maker, "PUT", "/v1/consumers/mine", {"types": ["user.*", "lock.set"]})
    assert status == 403 and "event/lock.set" in problem["detail"]
    assert call_as(guarded, maker, "PUT", "/v1/consumers/mine", {})[0] == 403
    assert call_as(guarded, maker, "PUT", "/v1/consumers/other", {"types": ["user.*"]})[0] == 403
    assert call_as(guarded, everything, "PUT", "/v1/consumers/other", {})[0] == 201
    assert call_as(guarded, everything, "POST", "/v1/users", {"id": "seen"})[0] == 201
    status, answer = call_as(guarded, member, "POST", "/v1/consumers/mine/poll", {"member": "m"})
    assert status == 200 and [e["subject"] for e in answer["events"]] == ["seen"]
    assert call_as(guarded, member, "POST", "/v1/consumers/other/poll", {"member": "m"})[0] == 403
    assert call_as(guarded, member, "DELETE", "/v1/consumers/mine")[0] == 403
    lister = guarded.make("lister", policy({"Effect": "Allow", "Action": "gatehouse:ListConsumers", "Resource": "*"},
                                           {"Effect": "Deny", "Action": "gatehouse:*", "Resource": consumer + "other"}))
    assert [c["name"] for c in call_as(guarded, lister, "GET", "/v1/consumers")[1]["consumers"]] == ["mine"]
    stop(guarded.process)
    shutil.rmtree(guarded.data, ignore_errors=True)
