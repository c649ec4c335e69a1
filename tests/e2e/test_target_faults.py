"""Targets that are down, slow or answer garbage, events that a receiver cannot take, receivers and servers that are killed: others are not
affected, memory stays bounded, nothing is lost, and of each subject everything arrives once and in order, after receivers have dropped ids that they know.

GATEHOUSE_TARGET_ROUNDS sets how often the server is killed."""

import json
import os
import random
import socket
import threading
import time

import boto3
import pytest

from senders import Nats, Sqs
from test_clock import Moved
from test_targets import Target, ok_job
from test_users import call, new_user, ok
from v1 import V1, Server
from webhooks import Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
ROUNDS = int(os.environ.get("GATEHOUSE_TARGET_ROUNDS", 5))
HOUR_S = 3600
MEMORY_MB_MAX = 64


def memory_mb(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1]) / 1024


def passes(server, seconds):
    """Idle connections end with the time."""
    server.clock.passes(seconds)
    server.v1.close()
    server.v1 = V1(server.endpoint)


def change(server, user, times=1):
    """Two events each."""
    for _ in range(times):
        ok(server, "POST", f"/v1/users/{user}/suspend")
        ok(server, "POST", f"/v1/users/{user}/reactivate")


def published(server):
    """The log: (id, subject, seq), by position."""
    client = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", aws_access_key_id="a", aws_secret_access_key="b")
    pages = client.get_paginator("query").paginate(TableName="gatehouse-events", KeyConditionExpression="PK = :p",
                                                   ExpressionAttributeValues={":p": {"S": "LOG#0"}}, ConsistentRead=True)
    return [(row["id"]["S"], row["subject"]["S"], int(row["seq"]["N"])) for page in pages for row in page["Items"]]


def assert_complete(server, sink, moves=False):
    """Once it has everything: nothing is lost, and each subject is in order. moves: time passes meanwhile, for what failed has to wait."""
    want = published(server)

    def complete():
        if moves and len(sink.events()) < len(want):
            passes(server, 600)
            time.sleep(0.2)
        return len(sink.events()) >= len(want)

    wait_for(complete)
    events = sink.events()
    assert {event["id"] for event in events} == {id for id, _, _ in want}
    assert_in_order(events)


# ---- targets that fail ----


class Garbage:
    """Answers with what no HTTP client likes, in turn."""

    def __init__(self):
        self.sane = False
        self.turn = 0
        self.sink = Sink()
        self.sink.answer = self.answer
        handler = self.sink.server.RequestHandlerClass
        self.wfiles = threading.local()
        outer, post = self, handler.do_POST

        def do_POST(self):
            outer.wfiles.file = self.wfile
            post(self)

        handler.do_POST = do_POST

    def answer(self, _):
        if self.sane:
            return 204
        self.turn += 1
        out = self.wfiles.file
        try:
            if self.turn % 4 == 0:
                out.write(b"\x00\xff\xfe" * 1000)
            elif self.turn % 4 == 1:
                out.write(b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n")
            elif self.turn % 4 == 2:
                out.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 10000000\r\n\r\n" + b"z" * 100000)
            else:
                out.write(b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass
        return None


def test_targets_that_are_down_slow_or_answer_garbage_for_an_hour_do_not_affect_others_and_get_everything_afterwards():
    server = Moved("--private-targets")
    good, slow, down, garbage = Sink(), Sink(), Sink(), Garbage()
    slow.answer = lambda event: time.sleep(0.1) or 204
    down.close()  # the port stays its own in practice: nobody else of this test takes it
    sinks = {"good": good, "slow": slow, "down": down, "garbage": garbage.sink}
    try:
        for name, sink in sinks.items():
            ok(server, "PUT", f"/v1/targets/{name}", {"type": "webhook", "url": sink.url, "from": "first", "tries": 100})
        users = [new_user(server)["id"] for _ in range(20)]
        good.wait_for(20)
        before = memory_mb(server)
        for _ in range(12):  # an hour, in steps of five minutes
            for user in users:
                change(server, user)
            passes(server, HOUR_S / 12)
            count = len(published(server))
            assert len(good.wait_for(count)) == count
        assert memory_mb(server) - before < MEMORY_MB_MAX
        assert down.taken == [] and garbage.sink.taken == []
        shown = {name: ok(server, "GET", f"/v1/targets/{name}") for name in sinks}
        assert shown["good"]["state"] == "well" and shown["good"]["waiting"] == 0
        for name in ("down", "garbage"):
            assert shown[name]["state"] == "failing" and shown[name]["lagEvents"] >= count, shown[name]
            assert shown[name]["lastErrors"] and shown[name]["lagSeconds"] > 3000
        garbage.sane = True
        slow.answer = lambda event: 204
        down.open(down.port)
        for name, sink in sinks.items():
            assert_complete(server, sink, moves=True)
            wait_for(lambda: (now := ok(server, "GET", f"/v1/targets/{name}"))["state"] == "well" and now["lagEvents"] == 0)
            now = ok(server, "GET", f"/v1/targets/{name}")
            assert now["deadLetters"] == now["skipped"] == 0, (name, now)
    finally:
        server.close()
        for sink in sinks.values():
            sink.close()


class Endless:
    """Answers for as long as anybody listens: heads, a body, or a hundred-continue after the other."""

    PARTS = {"heads": (b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 1000),
             "body": (b"HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"z" * 65536 + b"\r\n"),
             "body of a success": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"z" * 65536 + b"\r\n"),
             "continues": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)}

    def __init__(self, what):
        self.begin, self.more = self.PARTS[what]
        self.sent = 0
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/hook"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            with peer:
                try:
                    peer.recv(65536)
                    peer.sendall(self.begin)
                    while self.sent < 1 << 30:
                        peer.sendall(self.more)
                        self.sent += len(self.more)
                except OSError:
                    pass


@pytest.mark.parametrize("what", Endless.PARTS)
def test_a_receiver_that_answers_without_end_is_cut_off_soon(what):
    server, endless = Server("--private-targets"), Endless(what)
    try:
        before = memory_mb(server)
        with Target(server, endless.url, enabled=False) as target:
            began = time.monotonic()
            answer = ok(server, "POST", f"{target.path}/test")
            assert answer["sent"] is (what == "body of a success") and time.monotonic() - began < 30
            assert answer["sent"] or answer["error"]
        assert endless.sent < 64 << 20 and memory_mb(server) - before < 16, (endless.sent, memory_mb(server) - before)
    finally:
        server.close()
        endless.socket.close()


def test_a_target_that_fails_for_five_days_is_disabled_and_goes_on_when_it_is_enabled():
    server = Moved("--private-targets")
    sink = Sink()
    try:
        with Target(server, sink.url) as target:
            sink.answer = lambda event: 500
            new_user(server)
            for _ in range(3):  # the last failure is known, and with it the pause that follows, before time passes
                last = wait_for(lambda: target.now()["lastErrors"])[0]["at"]
                passes(server, 2 * 86400)
                wait_for(lambda: (now := target.now())["lastErrors"][0]["at"] != last or not now["enabled"])
            shown = wait_for(lambda: not (now := target.now())["enabled"] and now)
            assert shown["disabledReason"].startswith("it accepted nothing for ") and shown["deadLetters"] == 0
            sink.answer = lambda event: 204
            assert not sink.taken
            assert ok(server, "POST", f"{target.path}/enable")["state"] == "well"
            types = {event["type"] for event in sink.wait_for(2)}  # of two subjects, and so in any order
            assert types == {"user.created", "target.disabled"}
    finally:
        server.close()
        sink.close()


def test_an_event_that_a_receiver_crashes_on_is_tried_delays_only_its_subject_and_dies():
    server = Moved("--private-targets")
    sink = Sink()
    try:
        bad, good = new_user(server)["id"], new_user(server)["id"]
        sink.answer = lambda event: 500 if event["subject"] == bad and event["type"] == "user.suspended" else 204
        with Target(server, sink.url, tries=3) as target:
            change(server, bad)
            for n in range(1, 200):
                change(server, good)
                sink.wait_for(2 * n, subject=good)
                if target.now()["deadLetters"]:
                    break
                passes(server, 30)
            (letter,) = target.letters()
            assert (letter["type"], letter["subject"], letter["status"], letter["tries"]) == ("user.suspended", bad, 500, 3)
            assert [event["type"] for event in sink.wait_for(1, subject=bad)] == ["user.reactivated"]
            sink.answer = lambda event: 204
            assert ok_job(server, {"target": target.name})["progress"]["redriven"] == 1
            assert [event["type"] for event in sink.wait_for(2, subject=bad)] == ["user.reactivated", "user.suspended"]
    finally:
        server.close()
        sink.close()


def test_a_receiver_that_says_when_to_come_back_is_left_alone_until_then():
    server = Moved("--private-targets")
    sink = Sink()
    try:
        with Target(server, sink.url) as target:
            sink.answer = lambda event: (429, {"Retry-After": "1800"})
            new_user(server)
            wait_for(lambda: target.now()["lastErrors"])  # it is known from when on the pause counts
            sink.answer = lambda event: 204
            tried = len(sink.tries)
            for _ in range(5):
                passes(server, 300)
                new_user(server)
                time.sleep(0.3)  # longer than a sender takes to notice
            assert len(sink.tries) == tried
            passes(server, 301)
            sink.wait_for(6)
    finally:
        server.close()
        sink.close()


def test_a_server_stops_soon_though_targets_hang_and_sends_what_was_cut_off_after_its_start():
    server, over = Server("--private-targets"), threading.Event()
    sink = Sink(answer=lambda event: over.wait(60) and 204)
    try:
        for n in range(20):
            ok(server, "PUT", f"/v1/targets/t{n}", {"type": "webhook", "url": sink.url})
        user = new_user(server)["id"]
        wait_for(lambda: len(sink.tries) >= 20)
        server.v1.close()
        server.process.terminate()
        began = time.monotonic()
        assert server.process.wait(60) == 0
        assert time.monotonic() - began < 30  # one after the other they would take 40
        server.process.stdout.close()
        over.set()
        server.start()
        wait_for(lambda: len([seen for seen in sink.tries if seen["event"]["subject"] == user]) >= 40)
    finally:
        over.set()
        server.close()
        sink.close()


def test_erasing_a_user_blanks_its_dead_letters():
    server = Server("--private-targets")
    sink = Sink(answer=lambda event: 422)
    try:
        with Target(server, sink.url, tries=1) as target:
            user = new_user(server, firstName="Zoe")["id"]
            wait_for(lambda: len(target.letters()) == 1)
            assert target.letters()[0]["subject"] == user
            assert call(server, "POST", f"/v1/users/{user}/erase")[0] == 202
            wait_for(lambda: target.letters(subject=user) == [])
            letter = next(each for each in target.letters() if each["type"] == "user.created")
            one = ok(server, "GET", f"/v1/dead-letters/{target.name}/{letter['id']}")
            assert one["subject"].startswith("erased:") and "data" not in one["event"] and user not in json.dumps(one)
    finally:
        server.close()
        sink.close()


# ---- kills ----


class Load:
    """Changes users until it is told to stop; errors are what a kill brings."""

    def __init__(self, server, users):
        self.server, self.users, self.over = server, users, False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        connection = V1(self.server.endpoint)
        try:
            while not self.over:
                user = random.choice(self.users)
                for what in ("suspend", "reactivate"):
                    connection.send("POST", f"/v1/users/{user}/{what}", b"", {})
        except OSError:
            pass

    def stop(self):
        self.over = True
        self.thread.join(60)


def test_killed_servers_and_receivers_lose_nothing_and_keep_the_order():
    server, sink, queue = Server("--private-targets"), Sink(), Sqs()
    random.seed(1)
    try:
        url = queue.queue("events.fifo")
        ok(server, "PUT", "/v1/targets/hook", {"type": "webhook", "url": sink.url, "from": "first"})
        ok(server, "PUT", "/v1/targets/queue", {"type": "sqs", "queueUrl": url, "endpoint": queue.endpoint, "region": "us-east-1",
                                                "accessKeyId": "test", "secretAccessKey": "test", "from": "first"})
        users = [new_user(server)["id"] for _ in range(8)]
        for n in range(ROUNDS):
            load = Load(server, users)
            time.sleep(random.uniform(0.1, 0.5))
            if n % 2:
                sink.close()
                time.sleep(random.uniform(0.05, 0.2))
                sink.open(sink.port)
            server.kill()
            load.stop()
            server.start()
        assert_complete(server, sink)
        want = published(server)
        got, known = [], set()

        def received():
            for message in queue.receive(url):
                event = json.loads(message["Body"])
                if event["id"] not in known:
                    known.add(event["id"])
                    got.append(event)
            return len(got) >= len(want)

        wait_for(received)
        assert known == {id for id, _, _ in want}
        assert_in_order(got)
        for target in ("hook", "queue"):
            wait_for(lambda: ok(server, "GET", f"/v1/targets/{target}")["waiting"] == 0)
    finally:
        server.close()
        sink.close()
        queue.stop()


# ---- other types of targets ----


def test_events_go_to_a_nats_stream_in_order_and_after_it_was_down():
    server = Moved("--private-targets")
    try:
        with Nats() as nats:
            nats.stream("EVENTS", "gate.>")
            ok(server, "PUT", "/v1/targets/stream", {"type": "nats", "url": nats.url, "subject": "gate", "from": "first"})
            assert ok(server, "POST", "/v1/targets/stream/test")["sent"] is True
            users = [new_user(server)["id"] for _ in range(5)]
            for user in users:
                change(server, user, 3)
            wait_for(lambda: len(nats.messages("EVENTS")) == 36)
            nats.kill()
            for user in users:
                change(server, user)
            wait_for(lambda: ok(server, "GET", "/v1/targets/stream")["state"] == "failing")
            nats.start()
            passes(server, 600)
            wait_for(lambda: len(nats.messages("EVENTS")) == 46)
            events = [json.loads(body) for _, _, body in nats.messages("EVENTS")]
            assert_in_order(event for event in events if event["type"] != "test.ping")
    finally:
        server.close()
