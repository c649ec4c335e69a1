"""Targets that are not webhooks: SQS (fauxqs), EventBridge (a receiver that keeps what it gets) and NATS (nats-server), through a running server:
everything arrives, in order per subject, whatever goes wrong on the way. What each sender sends is in test_senders.py."""

import json
import time
import uuid

import pytest

from senders import Nats, Recorder, Sqs
from test_clock import Moved
from test_users import call, new_user, ok
from v1 import V1
from webhooks import assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
KEY = {"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "never-to-be-seen"}
PAUSE_S = 400  # longer than any pause of a target
JUMP_EVERY_S = 1.5


@pytest.fixture(scope="module")
def server():
    """Its clock is moved past the pauses of targets that are down."""
    made = Moved("--private-targets")
    yield made
    made.close()


class Target:
    """Deleted at the end."""

    def __init__(self, server, **settings):
        self.server = server
        self.path = f"/v1/targets/t-{uuid.uuid4().hex[:12]}"
        status, self.made, _ = call(server, "PUT", self.path, settings)
        assert status == 201, self.made

    def now(self):
        return ok(self.server, "GET", self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert call(self.server, "DELETE", self.path)[0] == 200


def lives(server, users=3, rounds=2):
    """Users to whom things happen: their ids, and how many events that makes."""
    ids = [new_user(server)["id"] for _ in range(users)]
    for _ in range(rounds):
        for each in ids:
            ok(server, "POST", f"/v1/users/{each}/suspend")
            ok(server, "POST", f"/v1/users/{each}/reactivate")
    return ids, users * (1 + 2 * rounds)


def once_each(events, ids):
    """Those about them, each id once."""
    return list({event["id"]: event for event in events if event["subject"] in ids}.values())


def pass_time(server):
    """Also for connections, which end after a while without a request."""
    server.clock.passes(PAUSE_S)
    server.v1.close()
    server.v1 = V1(server.endpoint)


def arrives(server, look, ids, count):
    """Looks until all are there; time passes meanwhile, so that no pause holds them up."""
    jumps = time.monotonic() + JUMP_EVERY_S

    def there():
        nonlocal jumps
        events = once_each(look(), ids)
        if len(events) < count and time.monotonic() >= jumps:
            pass_time(server)
            jumps = time.monotonic() + JUMP_EVERY_S
        return len(events) >= count and events

    events = wait_for(there)
    assert len(events) == count
    assert_in_order(events)
    return events


# ---- SQS ----


@pytest.fixture(scope="module")
def sqs():
    with Sqs() as emulator:
        yield emulator


def sqs_target(server, emulator, url, **more):
    return Target(server, type="sqs", queueUrl=url, endpoint=emulator.endpoint, region="us-east-1", **{**KEY, **more})


def queue_reader(emulator, url):
    """All messages so far."""
    taken = []

    def look():
        taken.extend(json.loads(each["Body"]) for each in emulator.receive(url))
        return taken

    return look


@pytest.mark.parametrize("name", ["delivered.fifo", "delivered"])
def test_a_queue_gets_every_event_in_order(server, sqs, name):
    url = sqs.queue(name)
    with sqs_target(server, sqs, url) as target:
        ids, count = lives(server)
        arrives(server, queue_reader(sqs, url), ids, count)
        assert target.now()["state"] == "well" and "never-to-be-seen" not in json.dumps([target.made, target.now()])
        answer = ok(server, "POST", f"{target.path}/test")
        assert (answer["sent"], answer["status"]) == (True, 200)


def test_a_queue_that_was_down_gets_everything_afterwards_in_order(server):
    with Sqs() as emulator:
        url = emulator.queue("down.fifo")
        with sqs_target(server, emulator, url) as target:
            emulator.stop()
            ids, count = lives(server)
            wait_for(lambda: target.now()["state"] == "failing")
            assert target.now()["lastErrors"][0]["error"]
            answer = ok(server, "POST", f"{target.path}/test")
            assert answer["sent"] is False and answer["error"] and "status" not in answer
            emulator.start()
            assert emulator.queue("down.fifo") == url
            arrives(server, queue_reader(emulator, url), ids, count)


# ---- EventBridge ----


class Bus(Recorder):
    """Keeps what it takes; `judge` says what becomes of an event: None, or an error code."""

    def __init__(self, judge=lambda event: None):
        self.judge, self.taken = judge, []
        super().__init__(self.answered)

    def answered(self, body):
        entries = []
        for entry in body["Entries"]:
            event = json.loads(entry["Detail"])
            code = self.judge(event)
            if code is None:
                self.taken.append(event)
            assert (entry["Source"], entry["DetailType"], entry["EventBusName"]) == ("user-service", event["type"], "identity")
            entries.append({"EventId": uuid.uuid4().hex} if code is None else {"ErrorCode": code, "ErrorMessage": "no"})
        return {"FailedEntryCount": sum("ErrorCode" in each for each in entries), "Entries": entries}


def bus_target(server, bus, **more):
    return Target(server, type="eventbridge", endpoint=bus.endpoint, region="eu-west-1", bus="identity", **{**KEY, **more})


def test_a_bus_gets_every_event_in_order_though_entries_fail_one_by_one(server):
    failed = {}

    def judge(event):
        """Each event fails once, every third of them twice."""
        failed[event["id"]] = failed.get(event["id"], 0) + 1
        return "ThrottlingException" if failed[event["id"]] <= 1 + event["seq"] % 3 // 2 else None

    with Bus(judge) as bus, bus_target(server, bus) as target:
        ids, count = lives(server)
        arrives(server, lambda: list(bus.taken), ids, count)
        assert target.now()["lastErrors"][0]["error"] == "ThrottlingException"


def test_an_event_that_a_bus_refuses_goes_to_the_dead_letters_and_comes_back_by_redrive(server):
    bad = new_user(server)["id"]
    with Bus(lambda event: "MalformedDetail" if event["subject"] == bad else None) as bus, bus_target(server, bus, tries=1) as target:
        name = target.path.split("/")[-1]
        ok(server, "POST", f"/v1/users/{bad}/suspend")
        ids, count = lives(server, users=1)
        arrives(server, lambda: list(bus.taken), ids, count)
        letters = wait_for(lambda: ok(server, "GET", f"/v1/dead-letters?target={name}")["deadLetters"])
        assert [(each["type"], each["error"]) for each in letters] == [("user.suspended", "MalformedDetail")]
        bus.judge = lambda event: None
        assert ok(server, "POST", f"/v1/dead-letters/{name}/{letters[0]['id']}/redrive") == {"redriven": True}
        arrives(server, lambda: list(bus.taken), [bad], 1)


# ---- NATS ----


def nats_target(server, url, **more):
    return Target(server, type="nats", url=url, **more)


def stream_reader(server, name):
    return lambda: [json.loads(body) for _, _, body in server.messages(name)]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_stream_gets_every_event_once_and_in_order_though_its_server_goes_down(server, how):
    with Nats("--auth", "the-token", auth_token="the-token") as nats:
        nats.stream("EVENTS", "gatehouse.events.>")
        with nats_target(server, nats.url, token="the-token") as target:
            ids, count = lives(server)
            arrives(server, stream_reader(nats, "EVENTS"), ids, count)
            getattr(nats, how)()
            more, further = lives(server)
            wait_for(lambda: target.now()["state"] == "failing")
            nats.start()
            arrives(server, stream_reader(nats, "EVENTS"), ids + more, count + further)
            stored = stream_reader(nats, "EVENTS")()
            assert len(stored) == len({event["id"] for event in stored})
            assert "the-token" not in json.dumps([target.made, target.now()])
            assert ok(server, "POST", f"{target.path}/test")["sent"] is True


def test_a_login_can_be_changed(server):
    with Nats("--user", "ann", "--pass", "hush", user="ann", **{"pass": "hush"}) as nats:
        nats.stream("EVENTS", "gatehouse.events.>")
        with nats_target(server, nats.url, token="wrong") as target:
            answer = ok(server, "POST", f"{target.path}/test")
            assert (answer["sent"], answer["error"]) == (False, "Authorization Violation")
            ok(server, "PUT", target.path, {"type": "nats", "url": nats.url, "user": "ann", "password": "hush"})
            assert ok(server, "POST", f"{target.path}/test")["sent"] is True
            ok(server, "PUT", target.path, {"type": "nats", "url": nats.url, "user": "ann"})  # the password stays
            assert ok(server, "POST", f"{target.path}/test")["sent"] is True
            ok(server, "PUT", target.path, {"type": "nats", "url": nats.url})  # without a user, it is not used
            assert ok(server, "POST", f"{target.path}/test")["error"] == "Authorization Violation"


def test_a_login_is_not_told_to_another_url(server):
    with Nats("--auth", "the-token", auth_token="the-token") as nats:
        nats.stream("EVENTS", "gatehouse.events.>")
        with nats_target(server, "nats://127.0.0.1:1", token="the-token") as target:
            status, problem, _ = call(server, "PUT", target.path, {"type": "nats", "url": nats.url})
            assert (status, problem["field"]) == (422, "token")
            ok(server, "PUT", target.path, {"type": "nats", "url": nats.url, "token": "the-token"})
            assert ok(server, "POST", f"{target.path}/test")["sent"] is True


def test_a_key_of_its_own_can_be_given_up_for_that_of_the_server(server, sqs):
    url = sqs.queue("own")
    settings = {"type": "sqs", "queueUrl": url, "endpoint": sqs.endpoint, "region": "us-east-1"}
    with Target(server, **settings, **KEY) as target:
        assert "accessKeyId" not in ok(server, "PUT", target.path, settings)  # the tests' environment has a key
        assert ok(server, "POST", f"{target.path}/test")["sent"] is True


# ---- settings ----


@pytest.mark.parametrize("settings, field", [
    ({"type": "sqs"}, "queueUrl"),
    ({"type": "sqs", "queueUrl": "not a URL", **KEY}, "queueUrl"),
    ({"type": "sqs", "queueUrl": "https://queues.example/1/q", "region": "x y", **KEY}, "region"),
    ({"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/q", "endpoint": "ftp://x", **KEY}, "endpoint"),
    ({"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/q", "accessKeyId": "a"}, "secretAccessKey"),
    ({"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/q", "bus": "b", **KEY}, "bus"),
    ({"type": "eventbridge", "region": "eu-west-1", "bus": "a bus", **KEY}, "bus"),
    ({"type": "eventbridge", "region": "eu-west-1", "source": "aws.mine", **KEY}, "source"),
    ({"type": "nats"}, "url"),
    ({"type": "nats", "url": "https://example.org"}, "url"),
    ({"type": "nats", "url": "tls://example.org", "subject": "a.>"}, "subject"),
    ({"type": "nats", "url": "tls://example.org", "user": "ann"}, "password"),
    ({"type": "nats", "url": "tls://example.org", "token": "a", "seed": "b"}, "token"),
    ({"type": "nats", "url": "tls://example.org", "seed": "SU"}, "seed"),
    ({"type": "nats", "url": "tls://example.org", "credentials": "none"}, "credentials"),
])  # fmt: skip
def test_what_is_wrong_with_a_target_is_said_by_field(server, settings, field):
    status, problem, _ = call(server, "PUT", f"/v1/targets/t-{uuid.uuid4().hex[:12]}", settings)
    assert status in (400, 422) and problem["field"] == field, problem
    assert "hush" not in json.dumps(problem)
