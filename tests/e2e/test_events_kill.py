"""Nothing is lost when the plug is pulled: the server is killed under load, again and again, with a webhook, an SQS queue, a NATS stream and a consumer
of two members attached, and sometimes the webhook's receiver with it. Afterwards each of them has every event of the log, in order.

GATEHOUSE_EVENTS_KILLS says how many rounds (6 unless set; 100 for the campaign)."""
import json
import os
import random
import threading
import time
import uuid

import pytest

from conftest import stop
from senders import Nats, Sqs
from test_clock import Moved
from v1 import V1
from webhooks import Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only

ROUNDS = int(os.environ.get("GATEHOUSE_EVENTS_KILLS", "6"))
WRITERS = 4
USERS = 5  # of each writer
ROUND_WRITES = (100, 600)  # acknowledged from a start to the kill
PAUSE_S = 400  # longer than any pause of a target
DRAIN_S = 120 + 2 * ROUNDS


class Connection:
    """To whatever process serves now. Calls that get no answer return None."""

    def __init__(self, server):
        self.server, self.v1, self.endpoint = server, None, None

    def send(self, method, path, body=None):
        try:
            if self.v1 is None or self.endpoint != self.server.endpoint:
                self.endpoint = self.server.endpoint
                self.v1 = V1(self.endpoint)
            reply = self.v1.send(method, path, b"" if body is None else json.dumps(body).encode(), {})
            return reply.status, reply.json()
        except (OSError, ValueError):
            if self.v1 is not None:
                self.v1.close()
            self.v1 = None
            time.sleep(0.005)
            return None


class Writer(threading.Thread):
    """Has things happen to users of its own, and remembers what was acknowledged."""

    def __init__(self, server, seed):
        super().__init__(daemon=True)
        self.line, self.random, self.done = Connection(server), random.Random(seed), threading.Event()
        self.users = [f"w{seed}-{i}-{uuid.uuid4().hex[:6]}" for i in range(USERS)]
        self.version = {}  # the last that was acknowledged
        self.acknowledged = 0
        self.wrong = []

    def run(self):
        while not self.done.is_set():
            user = self.random.choice(self.users)
            step = ("POST", "/v1/users", {"id": user}) if user not in self.version and self.random.random() < 0.7 else \
                ("POST", f"/v1/users/{user}/{self.random.choice(['suspend', 'reactivate'])}", None)
            answer = self.line.send(*step)
            if answer is not None and answer[0] in (200, 201):
                self.version[user] = max(self.version.get(user, 0), answer[1]["version"])
                self.acknowledged += 1
            elif answer is not None and answer[0] not in (404, 409, 503):
                self.wrong.append(answer)


class Member(threading.Thread):
    """Of the consumer. What it gets it keeps, before it acknowledges it."""

    def __init__(self, server, name, seen):
        super().__init__(daemon=True)
        self.line, self.named, self.seen, self.done = Connection(server), name, seen, threading.Event()

    def run(self):
        while not self.done.is_set():
            got = self.line.send("POST", "/v1/consumers/kept/poll", {"member": self.named, "wait": 1, "limit": 50, "lease": 10})
            if got is None or got[0] != 200:
                continue
            self.seen.extend(got[1]["events"])
            self.line.send("POST", "/v1/consumers/kept/ack", {"member": self.named, "generation": got[1]["generation"], "after": got[1]["after"]})


def whole_log(server):
    line, after, events = Connection(server), None, []
    while True:
        status, page = line.send("GET", f"/v1/events?limit=500&{'from=first' if after is None else 'after=' + after}")
        assert status == 200, page
        events += page["events"]
        after = page["after"]
        if not page["more"]:
            return events


def once_each(events):
    return list({event["id"]: event for event in events}.values())


def subject_order(events):
    """Of each subject, the ids in the order in which they came."""
    order = {}
    for event in events:
        order.setdefault(event["subject"], []).append(event["id"])
    return order


def attach(server, sink, sqs, nats):
    line = Connection(server)
    queue = sqs.queue("events.fifo")
    nats.stream("EVENTS", "gatehouse.>", duplicate_window=120 * 10**9)
    for name, settings in {
        "hook": {"type": "webhook", "url": sink.url},
        "queue": {"type": "sqs", "queueUrl": queue, "endpoint": sqs.endpoint, "region": "us-east-1", "accessKeyId": "any", "secretAccessKey": "any"},
        "stream": {"type": "nats", "url": nats.url, "subject": "gatehouse"},
    }.items():
        status, answer = line.send("PUT", f"/v1/targets/{name}", {"from": "first", **settings})
        assert status == 201, answer
    status, answer = line.send("PUT", "/v1/consumers/kept", {"from": "first"})
    assert status == 201, answer
    return queue


def write(writers, count):
    """Until they have so many answers more. They go on after it."""
    wanted = sum(writer.acknowledged for writer in writers) + count
    wait_for(lambda: sum(writer.acknowledged for writer in writers) >= wanted)


def drain_queue(sqs, queue, into):
    while got := sqs.receive(queue):
        into += [json.loads(message["Body"]) for message in got]


def has_all(wanted, events):
    return wanted <= {event["id"] for event in events}


def test_no_event_is_lost_or_out_of_order_however_often_the_server_is_killed():
    chance = random.Random(int(os.environ.get("SEED", "14")))
    server, sink, queued, consumed = Moved("--private-targets"), Sink(), [], []
    with Sqs() as sqs, Nats() as nats:
        queue = attach(server, sink, sqs, nats)
        writers = [Writer(server, seed) for seed in range(WRITERS)]
        members = [Member(server, name, consumed) for name in ("one", "two")]
        try:
            for thread in writers + members:
                thread.start()
            for kill in range(ROUNDS):
                write(writers, chance.randint(*ROUND_WRITES))
                if kill % 3 == 1:  # its receiver, too
                    sink.close()
                server.kill()
                server.start()
                if kill % 3 == 1:
                    sink.open(sink.port)
            write(writers, ROUND_WRITES[0])
            for writer in writers:
                writer.done.set()
                writer.join()
                assert writer.wrong == []
            log = whole_log(server)
            wanted = {event["id"] for event in log}

            deadline, jumped = time.monotonic() + DRAIN_S, time.monotonic()
            while not (has_all(wanted, sink.events()) and has_all(wanted, queued) and has_all(wanted, list(consumed))):
                assert time.monotonic() < deadline, [len(wanted), len(sink.events()), len(once_each(queued)), len(once_each(list(consumed)))]
                if time.monotonic() - jumped > 3:  # no pause of a target is to hold it up
                    server.clock.passes(PAUSE_S)
                    jumped = time.monotonic()
                drain_queue(sqs, queue, queued)
                time.sleep(0.05)
            streamed = []
            while not has_all(wanted, streamed):
                assert time.monotonic() < deadline, [len(wanted), len(streamed)]
                streamed = [json.loads(body) for _, _, body in nats.messages("EVENTS")]
        finally:
            for thread in writers + members:
                thread.done.set()
            for member in members:
                member.join(30)
            stop(server.process)

        assert [event["position"] for event in log] == list(range(1, len(log) + 1)) and len(log) >= ROUNDS
        assert_in_order(log)
        versions = {}  # no change without its event, no event without its change: each raises the version by one
        for event in log:
            if event["type"].startswith("user."):
                versions.setdefault(event["subject"], []).append(event["data"]["version"])
        for writer in writers:
            for user, version in writer.version.items():
                assert versions[user] == list(range(1, len(versions[user]) + 1)) and len(versions[user]) >= version
        order = subject_order(log)
        for name, got in {"webhook": sink.events(), "SQS": once_each(queued), "NATS": once_each(streamed), "consumer": once_each(consumed)}.items():
            ours = [event for event in got if event["id"] in wanted]
            assert len(ours) == len(wanted) and subject_order(ours) == order, name
            assert_in_order(ours)
        print(f"{ROUNDS} kills, {len(log)} events: webhook {len(sink.taken)} deliveries, SQS {len(queued)}, NATS {len(streamed)}, consumer {len(consumed)}")
    sink.close()
    server.v1.close()
