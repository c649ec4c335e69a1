"""SQS queues, EventBridge buses and NATS servers that misbehave, as targets of a running server: whatever they answer, nothing counts as delivered, nobody else
waits, memory stays bounded, and when they come to their senses they get everything, in order. Webhooks are in test_target_faults.py."""

import json
import socket
import struct
import threading
import time

import pytest

from test_clock import Moved
from test_target_faults import change, memory_mb, passes, published
from test_users import new_user, ok
from v1 import Server
from webhooks import Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
KEY = {"accessKeyId": "AKIDEXAMPLE", "secretAccessKey": "never-to-be-seen", "region": "eu-west-1"}
MEMORY_MB_MAX = 64
USERS = 4
ENDLESS_BYTES = 1 << 28
TRICKLE_S = 0.05


@pytest.fixture(scope="module")
def server():
    made = Server("--private-targets")
    yield made
    made.close()


# ---- words of the two services ----


def entries_of(body):
    return body["Entries"]


def taken_by_queue(entries):
    return {"Successful": [{"Id": each["Id"], "MessageId": "m", "MD5OfMessageBody": ""} for each in entries], "Failed": []}


def taken_by_bus(entries):
    return {"FailedEntryCount": 0, "Entries": [{"EventId": f"e{n}"} for n in range(len(entries))]}


def queue_events(entries):
    return [json.loads(each["MessageBody"]) for each in entries]


def bus_events(entries):
    return [json.loads(each["Detail"]) for each in entries]


TAKEN = {"sqs": taken_by_queue, "eventbridge": taken_by_bus}
EVENTS = {"sqs": queue_events, "eventbridge": bus_events}

# ---- what they do instead ----


def says(answer, status="200 OK"):
    """A whole answer. `answer(kind, entries)` is its body: bytes, or what becomes JSON."""

    def act(place, peer, entries):
        body = answer(place.kind, entries)
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        peer.sendall(f"HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)

    return act


def endless(begin, more):
    def act(place, peer, _):
        peer.sendall(begin)
        while place.sent < ENDLESS_BYTES and not place.sane:
            peer.sendall(more)
            place.sent += len(more)

    return act


def trickles(place, peer, _):
    """For as long as anybody listens."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
    while not place.over.wait(TRICKLE_S):
        peer.sendall(b" ")


def resets(place, peer, entries):
    """In the middle of an answer that looked good."""
    good = json.dumps(TAKEN[place.kind](entries)).encode()
    peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(good) + good[:-1])
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def ends_early(place, peer, entries):
    """Without a length: only its JSON tells that it is cut off."""
    peer.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + json.dumps(TAKEN[place.kind](entries)).encode()[:-1])


def redirects(place, peer, _):
    peer.sendall(f"HTTP/1.1 307 Go\r\nLocation: {place.elsewhere}\r\nContent-Length: 0\r\n\r\n".encode())


def strangers(kind, _):
    """About entries that nobody sent."""
    if kind == "sqs":
        return {"Successful": [{"Id": each, "MessageId": "m"} for each in ("10", "-1", "00", "x", "", " 0", "\u0660")],
                "Failed": [{"Id": "never", "SenderFault": True, "Code": "InvalidMessageContents"}]}
    return {"FailedEntryCount": 1, "Successful": [{"Id": "0"}], "Failed": [{"EventId": "e"}]}


def fewer(kind, entries):
    """A queue names one by one, so that all may be missing; a bus by their order, so that one too few is enough."""
    return {"Successful": [], "Failed": []} if kind == "sqs" else taken_by_bus(entries[1:])


def more(kind, entries):
    if kind == "eventbridge":
        return taken_by_bus(entries + entries)
    return {"Successful": [{"Id": str(n)} for n in range(100)], "Failed": [{"Id": str(n), "Code": "InternalError"} for n in range(100)]}


def contradicts(kind, entries):
    """Taken, and failed."""
    good = TAKEN[kind](entries)
    if kind == "sqs":
        return {**good, "Failed": [{"Id": each["Id"], "SenderFault": True, "Code": "InvalidMessageContents"} for each in entries]}
    return {**good, "FailedEntryCount": len(entries)}


def wrong_types(kind, entries):
    return {"Successful": {"0": True}, "Failed": "0", "Entries": {"EventId": "e"}, "FailedEntryCount": {}}


def wrong_members(kind, entries):
    each = [{"Id": 0, "MessageId": 7, "EventId": ["e"], "ErrorCode": None}, None, 7, "0", [[]], {}]
    return {"Successful": each, "Failed": each, "Entries": (each * 2)[:len(entries)], "FailedEntryCount": "none"}


PLANS = {
    "endless heads": endless(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n" * 1000),
    "an endless body": endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b" " * 65536 + b"\r\n"),
    "a trickle": trickles,
    "no JSON": says(lambda *_: b"\x00\xff<html>it works!</html>"),
    "deep JSON": says(lambda *_: b"[" * 60000),
    "wrong types": says(wrong_types),
    "wrong members": says(wrong_members),
    "strangers": says(strangers),
    "fewer": says(fewer),
    "more": says(more),
    "a contradiction": says(contradicts),
    "a redirect": redirects,
    "an error with 200": says(lambda *_: {"__type": "com.amazonaws.sqs#InternalFailure", "message": "no"}),
    "a reset": resets,
    "half an answer": ends_early,
}  # fmt: skip


class Place:
    """A queue or a bus that does as planned, until it is sane."""

    def __init__(self, kind, plan, elsewhere):
        self.kind, self.plan, self.elsewhere = kind, plan, elsewhere
        self.sane, self.over = False, threading.Event()
        self.sent, self.calls, self.taken = 0, 0, []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def settings(self):
        where = {"queueUrl": f"{self.endpoint}/123456789012/q"} if self.kind == "sqs" else {"endpoint": self.endpoint, "bus": "identity"}
        return {"type": self.kind, "from": "first", **where, **KEY}

    def accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            with peer, peer.makefile("rb") as lines:
                while self.answer(peer, lines):
                    pass
        except (OSError, ValueError):
            pass

    def answer(self, peer, lines):
        """False: the connection ends."""
        length = 0
        while (line := lines.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = lines.read(length)
        if not body:
            return False
        entries = entries_of(json.loads(body))
        self.calls += 1
        if not self.sane:
            self.plan(self, peer, entries)
            return False
        self.taken += EVENTS[self.kind](entries)
        says(lambda kind, entries: TAKEN[kind](entries))(self, peer, entries)
        return True

    def comes_to_its_senses(self):
        self.sane = True
        self.over.set()

    def events(self):
        return list({event["id"]: event for event in self.taken}.values())

    def close(self):
        self.over.set()
        self.socket.close()


def test_queues_and_buses_that_answer_anything_take_nothing_disturb_nobody_and_get_everything_afterwards():
    server, good, elsewhere = Moved("--private-targets"), Sink(), Sink()
    places = {f"{kind}-{n}": Place(kind, plan, elsewhere.url) for kind in TAKEN for n, plan in enumerate(PLANS.values())}
    try:
        before = memory_mb(server)
        ok(server, "PUT", "/v1/targets/good", {"type": "webhook", "url": good.url, "from": "first"})
        for name, place in places.items():
            ok(server, "PUT", f"/v1/targets/{name}", place.settings())
        users = [new_user(server)["id"] for _ in range(USERS)]
        for round_ in range(3):
            for user in users:
                change(server, user)
            good.wait_for(len(users) * (1 + 2 * (round_ + 1)))
            passes(server, 10)
        wait_for(lambda: [name for name in places if not ok(server, "GET", f"/v1/targets/{name}")["lastErrors"]] == [])
        shown = {name: ok(server, "GET", f"/v1/targets/{name}") for name in places}
        for name, now in shown.items():
            assert (now["sent"], now["deadLetters"], now["skipped"]) == (0, 0, 0) and now["lagEvents"] > 0, now
        assert memory_mb(server) - before < MEMORY_MB_MAX and elsewhere.tries == []
        assert max(place.sent for place in places.values()) < ENDLESS_BYTES / 2
        for place in places.values():
            place.comes_to_its_senses()
        want = {id for id, _, _ in published(server)}

        def complete():
            if all(len(place.events()) >= len(want) for place in places.values()):
                return True
            passes(server, 600)
            return time.sleep(0.2)

        wait_for(complete)
        for name, place in places.items():
            assert {event["id"] for event in place.events()} == want, name
            assert_in_order(place.events())
            now = wait_for(lambda: (now := ok(server, "GET", f"/v1/targets/{name}"))["lagEvents"] == 0 and now)
            assert (now["deadLetters"], now["skipped"], now["waiting"]) == (0, 0, 0), now
    finally:
        server.close()
        for each in (good, elsewhere, *places.values()):
            each.close()


class Blurts:
    """Says the same to whoever connects, before it listens, and does not end the connection."""

    def __init__(self, said):
        self.said, self.peers = said, []
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
                self.peers.append(peer)
                peer.sendall(self.said)
            except OSError:
                if self.socket.fileno() < 0:
                    return

    def close(self):
        for each in (self.socket, *self.peers):
            each.close()


GREETINGS = [b"\x16\x03\x03\xff\xff" + b"\x00" * 65535, b"\x15\x03\x01\x00\x02\x02\x28", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
             b"INFO " + b"x" * (1 << 20) + b"\r\n", b'INFO {"headers": 1, "max_payload": "lots", "nonce": {}, "tls_required": []}\r\n',
             b"-ERR 'secret words'\r\n", b"MSG _INBOX.x 1 99999999999999999999\r\n", b"PONG\r\n" * 100000]  # fmt: skip


@pytest.mark.parametrize("said", GREETINGS, ids=range(len(GREETINGS)))
def test_what_is_neither_tls_nor_nats_takes_nothing_and_its_target_goes_on_elsewhere(server, said):
    blurts, place = Blurts(said), Place("sqs", None, None)
    place.sane = True
    try:
        ok(server, "PUT", "/v1/targets/queue", {**place.settings(), "from": "last", "endpoint": f"https://127.0.0.1:{blurts.port}"})
        ok(server, "PUT", "/v1/targets/stream", {"type": "nats", "url": f"nats://127.0.0.1:{blurts.port}"})
        user = new_user(server)["id"]
        change(server, user)
        for name in ("queue", "stream"):
            now = wait_for(lambda: (now := ok(server, "GET", f"/v1/targets/{name}"))["lastErrors"] and now)
            assert (now["sent"], now["deadLetters"]) == (0, 0) and "secret" not in json.dumps(now), now
        ok(server, "PUT", "/v1/targets/queue", {name: value for name, value in place.settings().items() if name != "from"})
        wait_for(lambda: len([event for event in place.events() if event["subject"] == user]) == 3)
        assert_in_order(place.events())
    finally:
        for name in ("queue", "stream"):
            ok(server, "DELETE", f"/v1/targets/{name}")
        blurts.close()
        place.close()
