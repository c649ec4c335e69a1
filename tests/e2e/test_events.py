"""Events over HTTP: pages, long polls, streams (Server-Sent Events), and what a key may see of them."""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from urllib.parse import urlsplit

import pytest

from conftest import stop
from test_access import Guarded
from test_clock import Moved
from test_v1_access import call as call_as
from test_v1_access import policy
from v1 import V1, Server
from webhooks import wait_for

pytestmark = pytest.mark.gatehouse_only

PATIENCE_S = 60


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


def get(server, path, **headers):
    reply = server.v1.send("GET", path, b"", headers)
    return reply.status, reply.json()


def ok(server, path):
    """With what follows at once, unless there is a small limit: a page that is read just after a write may lack the newest events, and says so."""
    status, answer = get(server, path)
    assert status == 200, answer
    while answer.get("more") and ("limit=" not in path or "limit=1000" in path):
        status, rest = get(server, re.sub(r"(after|from)=[^&]*", f"after={answer['after']}", re.sub(r"&wait=\d+", "", path)))
        assert status == 200, rest
        answer = {**rest, "events": answer["events"] + rest["events"]}
    return answer


def make_user(server, user=None):
    user = user or "u-" + uuid.uuid4().hex
    reply = server.v1.post("/v1/users", {"id": user, "firstName": "Zoe"})
    assert reply.status == 201, reply.body
    return user


def suspend(server, user, times=1):
    for _ in range(times):
        for what in ("suspend", "reactivate"):
            reply = server.v1.send("POST", f"/v1/users/{user}/{what}", b"", {})
            assert reply.status == 200, reply.body


def end_of(server):
    return ok(server, "/v1/events?from=last")["after"]


class Stream:
    """A reader of Server-Sent Events, by the text that comes."""

    def __init__(self, endpoint, path="/v1/events", **headers):
        parts = urlsplit(endpoint)
        self.connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_S)
        self.connection.request("GET", path, headers={"Accept": "text/event-stream", **headers})
        self.reply = self.connection.getresponse()
        self.id = None

    def frame(self):
        """The next event, without those that only say how far it is; None at the end."""
        event = {}
        while True:
            line = self.reply.readline().decode().rstrip("\n")
            if line == "" and self.reply.closed:
                return None
            if line == "":
                if "data" in event:
                    return event
                if self.reply.fp is None:
                    return None
                event = {}
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            event[name] = value
            if name == "id":
                self.id = value

    def events(self, count):
        return [json.loads(self.frame()["data"]) for _ in range(count)]

    def close(self):
        self.reply.close()
        self.connection.close()


def erased(server, user):
    reply = server.v1.send("POST", f"/v1/users/{user}/erase", b"", {})
    assert reply.status == 202, reply.body
    until = time.monotonic() + PATIENCE_S
    while ok(server, f"/v1/jobs/{reply.json()['id']}")["state"] != "done":
        assert time.monotonic() < until
        time.sleep(0.02)


# ---- pages ----


def test_what_was_written_is_read_in_order_as_cloudevents(server):
    after = end_of(server)
    user = make_user(server)
    suspend(server, user)
    answer = ok(server, f"/v1/events?after={after}&subject={user}")
    assert [e["type"] for e in answer["events"]] == ["user.created", "user.suspended", "user.reactivated"]
    assert [e["seq"] for e in answer["events"]] == [1, 2, 3]
    first = answer["events"][0]
    assert first["specversion"] == "1.0" and first["subject"] == user and first["position"] > int(after)
    assert not answer["more"]
    assert ok(server, f"/v1/events?after={answer['after']}")["events"] == []


def test_pages_follow_each_other(server):
    after = end_of(server)
    user = make_user(server)
    suspend(server, user, 5)
    seen, more = [], True
    while more:
        page = ok(server, f"/v1/events?after={after}&limit=3&subject={user}")
        assert len(page["events"]) <= 3
        seen += page["events"]
        after, more = page["after"], page["more"]
    assert [e["seq"] for e in seen] == list(range(1, 12))


def test_types_are_chosen_by_name_and_by_group(server):
    after = end_of(server)
    user = make_user(server)
    suspend(server, user)
    some = ok(server, f"/v1/events?after={after}&subject={user}&types=user.suspended,lock.set")["events"]
    assert [e["type"] for e in some] == ["user.suspended"]
    assert len(ok(server, f"/v1/events?after={after}&subject={user}&types=user.*")["events"]) == 3
    assert ok(server, f"/v1/events?after={after}&subject={user}&types=device.*")["events"] == []


def test_a_replay_begins_at_a_time(server):
    user = make_user(server)
    event = ok(server, f"/v1/events?from=first&limit=1000&subject={user}")["events"][0]
    whole = event["time"][:19] + "Z"
    assert user in [e["subject"] for e in ok(server, f"/v1/events?from={whole}&limit=1000")["events"]]
    assert ok(server, "/v1/events?from=2099-01-01T00:00:00Z")["events"] == []


@pytest.mark.parametrize("query, field", [
    ("after=x", "after"), ("after=1-2", "after"), ("after=", "after"), ("after=-1", "after"), ("after=999999999", "after"),
    ("from=yesterday", "from"), ("from=first&after=1", "from"), ("types=user.cretaed", "types"), ("types=,", "types"), ("types=user.created,", "types"), ("types=", "types"),
    ("limit=0", "limit"), ("limit=1001", "limit"), ("wait=61", "wait"), ("wait=x", "wait"), ("subject=ann%40example.org", "subject"),
    ("subjects=x", "subjects"), ("named=false", "named"),
])
def test_a_mistake_is_named(server, query, field):
    status, problem = get(server, "/v1/events?" + query)
    assert (status, problem["field"]) == (422, field), problem


@pytest.mark.parametrize("query, named", [("", True), ("&named=true", True), ("&named=false", False)])
def test_events_of_a_stream_have_names_unless_it_asks_for_none(server, query, named):
    """A browser's onmessage gets only those without. Replayed and live ones alike, beside a stream of the other kind."""
    subject = make_user(server)
    stream = Stream(server.endpoint, f"/v1/events?from=first&subject={subject}{query}")
    other = Stream(server.endpoint, f"/v1/events?subject={subject}&named={'false' if named else 'true'}")
    first = stream.frame()
    server.v1.post(f"/v1/users/{subject}/suspend", {})
    frames, beside = [first, stream.frame()], other.frame()
    assert [frame.get("event") for frame in frames] == (["user.created", "user.suspended"] if named else [None, None])
    assert [json.loads(frame["data"])["type"] for frame in frames] == ["user.created", "user.suspended"]
    assert beside.get("event") == (None if named else "user.suspended") and beside["data"] == frames[1]["data"]
    stream.close()
    other.close()


def test_what_named_may_be_is_said(server):
    reply = server.v1.send("GET", "/v1/events?named=no", b"", {"Accept": "text/event-stream"})
    assert reply.status == 422 and json.loads(reply.body)["field"] == "named"


# ---- long polls ----


def test_a_long_poll_is_answered_as_soon_as_there_is_an_event(server):
    user = "u-" + uuid.uuid4().hex
    after = end_of(server)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        other = Server.__new__(Server)
        other.v1 = type(server.v1)(server.endpoint)
        poll = pool.submit(ok, other, f"/v1/events?after={after}&wait=60&subject={user}")
        make_user(server)  # another's: it waits on
        assert not poll.done()
        make_user(server, user)
        answer = poll.result(timeout=PATIENCE_S)
        other.v1.close()
    assert [e["subject"] for e in answer["events"]] == [user]


def test_a_long_poll_without_events_ends_in_time_and_moves_on(server):
    after = end_of(server)
    began = time.monotonic()
    make_user(server)
    answer = ok(server, f"/v1/events?after={after}&wait=1&subject=nobody-of-this-name")
    assert answer["events"] == [] and not answer["more"]
    assert time.monotonic() - began >= 1
    assert int(answer["after"]) >= int(after) + 1


def test_many_polls_of_one_subject_each_get_its_event(server):
    users = ["u-" + uuid.uuid4().hex for _ in range(20)]
    after = end_of(server)

    def poll(user):
        other = Server.__new__(Server)
        other.v1 = type(server.v1)(server.endpoint)
        found = ok(other, f"/v1/events?after={after}&wait=60&subject={user}")["events"]
        other.v1.close()
        return [e["subject"] for e in found]

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        polls = [pool.submit(poll, user) for user in users]
        for user in users:
            make_user(server, user)
        for user, each in zip(users, polls):
            assert each.result(timeout=PATIENCE_S) == [user]


# ---- streams ----


def test_a_stream_begins_with_what_comes_and_sends_it_in_order(server):
    user = "u-" + uuid.uuid4().hex
    stream = Stream(server.endpoint, f"/v1/events?subject={user}")
    assert stream.reply.status == 200
    assert stream.reply.headers["Content-Type"].startswith("text/event-stream")
    make_user(server, user)
    suspend(server, user, 3)
    make_user(server)
    events = stream.events(7)
    assert [e["seq"] for e in events] == list(range(1, 8))
    assert stream.id == str(events[-1]["position"])
    stream.close()


def test_a_stream_replays_from_where_it_ended(server):
    user = make_user(server)
    stream = Stream(server.endpoint, f"/v1/events?from=first&subject={user}")
    assert [e["seq"] for e in stream.events(1)] == [1]
    stream.close()
    suspend(server, user, 10)
    stream = Stream(server.endpoint, f"/v1/events?from=first&subject={user}", **{"Last-Event-ID": stream.id})
    assert [e["seq"] for e in stream.events(20)] == list(range(2, 22))
    suspend(server, user, 1)
    assert [e["seq"] for e in stream.events(2)] == [22, 23]
    stream.close()


def test_a_stream_names_the_type_of_each_event(server):
    user = "u-" + uuid.uuid4().hex
    stream = Stream(server.endpoint, f"/v1/events?subject={user}&types=user.created")
    make_user(server, user)
    frame = stream.frame()
    assert frame["event"] == "user.created" and json.loads(frame["data"])["subject"] == user
    stream.close()


def test_a_mistake_is_answered_before_a_stream_begins(server):
    for headers, path in (({"Last-Event-ID": "x"}, "/v1/events"), ({}, "/v1/events?after=99999999")):
        stream = Stream(server.endpoint, path, **headers)
        assert stream.reply.status == 422
        assert stream.reply.headers["Content-Type"] == "application/problem+json"
        stream.close()


def test_a_slow_reader_gets_all_of_it_and_nobody_waits_for_it(server):
    """Its buffers fill up: the hub stops sending, and reads on for it from the table once it reads again."""
    stream = Stream(server.endpoint, "/v1/events")
    user = make_user(server)
    rounds = 400
    suspend(server, user, rounds)
    seen = [e["seq"] for e in stream.events(2 * rounds + 1) if e["subject"] == user]
    assert seen == list(range(1, 2 * rounds + 2))
    suspend(server, user)
    assert [e["seq"] for e in stream.events(2)] == [2 * rounds + 2, 2 * rounds + 3]
    stream.close()


def test_streams_that_come_while_much_is_written_miss_nothing(server):
    user, rounds = make_user(server), 150
    after = end_of(server)
    seen = {}

    def follow(number):
        stream = Stream(server.endpoint, f"/v1/events?after={after}&subject={user}")
        seen[number] = [e["seq"] for e in stream.events(2 * rounds)]
        stream.close()

    threads = []
    for number in range(rounds):
        suspend(server, user)
        if number % 10 == 0:
            threads.append(threading.Thread(target=follow, args=(number,)))
            threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(seen) == len(threads)
    assert all(each == list(range(2, 2 * rounds + 2)) for each in seen.values())


def test_readers_that_are_too_far_behind_are_told_where_to_go_on_and_it_is_said_loudly(tmp_path):
    (tmp_path / "policies.yaml").write_text("events: {keep: 60, lag_max: 3600}\n")
    server = Moved("--policies", str(tmp_path / "policies.yaml"))

    def passes(seconds):
        server.clock.passes(seconds)
        server.v1.close()  # idle connections end with the time
        server.v1 = V1(server.endpoint)

    def unread():
        text = server.v1.send("GET", "/metrics").body.decode()
        return int(next(line for line in text.splitlines() if line.startswith("gatehouse_events_trimmed_unread_total ")).split()[1])

    try:
        wait_for(lambda: ok(server, "/v1/events?from=first")["events"])  # policy.changed
        assert server.v1.send("PUT", "/v1/consumers/mailer", json.dumps({"from": "first"}).encode(), {}).status == 201
        for _ in range(3):
            make_user(server)
        passes(600)  # past `keep`, but the consumer has none of them
        make_user(server)
        assert [e["position"] for e in ok(server, "/v1/events?from=first")["events"]] == [1, 2, 3, 4, 5] and unread() == 0
        passes(3001)
        wait_for(lambda: unread() == 4)
        gone = server.v1.send("GET", "/v1/events?after=1")
        assert gone.status == 410 and gone.json()["after"] == "4" and "position 5" in gone.json()["detail"], gone.body
        assert [e["position"] for e in ok(server, "/v1/events?after=4")["events"]] == [5]
        stream = Stream(server.endpoint, **{"Last-Event-ID": "1"})
        assert stream.reply.status == 410 and json.loads(stream.reply.read())["after"] == "4"
        stream.close()
        polled = server.v1.post("/v1/consumers/mailer/poll", {"member": "one"})
        assert polled.status == 410 and polled.json()["after"] == "4", polled.body
        assert server.v1.post("/v1/consumers/mailer/seek", {"from": "first"}).status == 200
        polled = server.v1.post("/v1/consumers/mailer/poll", {"member": "one"})
        assert [e["position"] for e in polled.json()["events"]] == [5], polled.body
        assert b'4 events were removed although \\"mailer\\" has not read them' in server.logged()
    finally:
        server.close()


def test_types_that_are_switched_off_and_on_leave_no_gap_for_those_who_follow():
    server = Server()
    try:
        user = make_user(server)
        stream = Stream(server.endpoint, f"/v1/events?from=first&subject={user}")
        assert server.v1.send("PUT", "/v1/consumers/c", b'{"from": "first", "types": ["user.*"]}', {}).status == 201
        want = ["user.created"]
        for version, (types, told) in enumerate([(["lock.*"], []), (["user.suspended"], ["user.suspended"]), ([], []),
                                                 (["*"], ["user.suspended", "user.reactivated"])]):  # fmt: skip
            put = server.v1.send("PUT", "/v1/policies/events", json.dumps({"types": types}).encode(), {"If-Match": f'"{version}"'})
            assert put.status == 200, put.body
            suspend(server, user)
            want += told
        seen = stream.events(len(want))
        numbered = [(kind, n) for n, kind in enumerate(want, 1)]
        assert [(e["type"], e["seq"]) for e in seen] == numbered
        assert [(e["type"], e["seq"]) for e in ok(server, f"/v1/events?from=first&subject={user}")["events"]] == numbered
        polled = server.v1.post("/v1/consumers/c/poll", {"member": "m"}).json()["events"]  # the hub has them all by now
        assert [(e["type"], e["seq"]) for e in polled] == numbered
        stream.close()
    finally:
        server.close()


def test_what_was_erased_is_not_answered_from_memory_either():
    server = Server()
    try:
        stream = Stream(server.endpoint)  # so that the server keeps the newest events in memory
        user = make_user(server)
        assert stream.events(1)[0]["subject"] == user
        before = ok(server, "/v1/events?after=0")["events"]
        assert [(e["type"], e["subject"]) for e in before] == [("user.created", user)]
        erased(server, user)
        now = ok(server, "/v1/events?after=0")["events"]
        assert [e["type"] for e in now if e["subject"] == user] == ["user.erased"], now
        assert now[0]["id"] == before[0]["id"] and now[0]["erased"] and "data" not in now[0]
        stream.close()
    finally:
        server.close()


def test_a_server_that_stops_ends_streams_and_polls():
    server = Server()
    make_user(server)
    stream = Stream(server.endpoint)
    other = Server.__new__(Server)
    other.v1 = type(server.v1)(server.endpoint)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        poll = pool.submit(ok, other, f"/v1/events?after={end_of(server)}&wait=60")
        time.sleep(0.2)
        server.close()
        assert poll.result(timeout=PATIENCE_S)["events"] == []
    other.v1.close()
    assert stream.reply.read() is not None
    stream.close()


# ---- several processes on one endpoint ----


def test_readers_of_one_process_get_what_another_publishes(monkeypatch):
    endpoint = Server()
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint.endpoint)
    writer = Server("--engine", "dynamodb", "--table-prefix", "shared-")
    data = tempfile.mkdtemp(prefix="gatehouse-v1-")
    shutil.copy(os.path.join(writer.data, "identifiers.key"), data)  # processes at one endpoint have one
    reader = Server("--engine", "dynamodb", "--table-prefix", "shared-", data=data)
    stream = Stream(reader.endpoint, "/v1/events?subject=bob")
    after = end_of(reader)
    make_user(writer, "bob")
    suspend(writer, "bob", 2)
    assert [e["seq"] for e in stream.events(5)] == [1, 2, 3, 4, 5]
    assert ok(reader, f"/v1/events?after={after}&wait=60")["events"]
    stream.close()
    reader.v1.send("PUT", "/v1/consumers/c", b"{}", {})
    make_user(writer, "ann")
    poll = reader.v1.post("/v1/consumers/c/poll", {"member": "m", "wait": 60}).json()
    assert [e["subject"] for e in poll["events"]] == ["ann"]
    for server in (reader, writer, endpoint):
        server.close()


# ---- what a key may see ----


@pytest.fixture(scope="module")
def guarded():
    made = Guarded()
    yield made
    stop(made.process)
    shutil.rmtree(made.data, ignore_errors=True)


def allow(*resources, action="gatehouse:ReadEvents"):
    return {"Effect": "Allow", "Action": action, "Resource": list(resources)}


def event(name):
    return "arn:aws:gatehouse:*:*:event/" + name


def test_a_key_sees_only_the_types_that_it_may(guarded):
    writer = guarded.make("events-writer", policy({"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"}))
    created = guarded.make("events-created", policy(allow(event("user.created"))))
    nobody = guarded.make("events-nobody", policy(allow("*", action="gatehouse:RecordAttempt")))
    assert call_as(guarded, writer, "POST", "/v1/users", {"id": "seen"})[0] == 201
    assert call_as(guarded, writer, "POST", "/v1/users/seen/suspend")[0] == 200
    status, answer = call_as(guarded, created, "GET", "/v1/events?subject=seen")
    assert status == 200 and [e["type"] for e in answer["events"]] == ["user.created"]
    assert len(call_as(guarded, writer, "GET", "/v1/events?subject=seen")[1]["events"]) == 2
    assert call_as(guarded, created, "GET", "/v1/events?types=user.created")[0] == 200
    status, problem = call_as(guarded, created, "GET", "/v1/events?types=user.created,user.suspended")
    assert status == 403 and "event/user.suspended" in problem["detail"]
    assert call_as(guarded, nobody, "GET", "/v1/events")[0] == 403
    assert call_as(guarded, None, "GET", "/v1/events")[0] == 401


def test_a_stream_ends_soon_after_its_key_was_revoked(guarded):
    key = guarded.make("events-revoked", policy(allow("*")))
    stream = Stream(guarded.endpoint, "/v1/events", Authorization=f"Bearer {key[0]}.{key[1]}")
    assert stream.reply.status == 200
    assert guarded.command("key", "revoke", "events-revoked").returncode == 0
    stream.reply.read()  # until it ends, or the patience does
    stream.close()


