"""One key cannot stop the others: of what all share (jobs, targets, consumers, streams, the loops), each caller has a share."""
import http.client
import json
import shutil
import socket
import threading
import time
import urllib.request

import pytest

from conftest import stop
from test_access import Guarded
from test_v1_access import EVERYTHING, call, policy
from v1 import Server

pytestmark = pytest.mark.gatehouse_only
END_S = 60


@pytest.fixture(scope="module")
def guarded():
    server = Guarded()
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def many(server, key, requests, threads=8):
    """Sends them over some connections, and returns the statuses."""
    statuses = []

    def send(mine):
        connection = http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=END_S)
        for method, path in mine:
            connection.request(method, path, None, {"Authorization": f"Bearer {key[0]}.{key[1]}"})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    started = [threading.Thread(target=send, args=(requests[i::threads],)) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return statuses


def ended(server, key, job):
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        now = call(server, key, "GET", f"/v1/jobs/{job['id']}")[1]
        if now["state"] != "running":
            return now
        time.sleep(0.01)
    raise AssertionError(f"still running: {now}")


def test_erasures_that_a_key_queues_hold_up_neither_a_revocation_nor_anothers_erasure(guarded):
    mine = "arn:aws:gatehouse:*:*:user/t-*"
    tenant = guarded.make("tenant", policy({"Effect": "Allow", "Action": ["gatehouse:EraseUser", "gatehouse:CreateUser"], "Resource": mine}))
    operator = guarded.make("operator", policy(EVERYTHING))
    for i in range(200):
        assert call(guarded, tenant, "POST", "/v1/users", {"id": f"t-{i}"})[0] == 201
    assert call(guarded, operator, "POST", "/v1/users", {"id": "ann"})[0] == 201
    assert set(many(guarded, tenant, [("POST", f"/v1/users/t-{i}/erase") for i in range(200)])) == {202}
    revocation = call(guarded, operator, "POST", "/v1/revoke-users", {"users": ["ann", "bob"], "reason": "a laptop was stolen"})[1]
    erasure = call(guarded, operator, "POST", "/v1/users/ann/erase")[1]
    assert ended(guarded, operator, revocation)["progress"]["revoked"] == 2
    assert ended(guarded, operator, erasure)["state"] == "done"
    waiting = [each for each in call(guarded, operator, "GET", "/v1/jobs?kind=erase&state=running&limit=500")[1]["jobs"]]
    assert len(waiting) > 100, "both were done before most of the others"


def test_an_erasure_of_an_id_that_is_not_known_ends_at_once(guarded):
    key = guarded.make("eraser", policy(EVERYTHING))
    done = ended(guarded, key, call(guarded, key, "POST", "/v1/users/nobody-has-this/erase")[1])
    assert (done["state"], done["steps"], done["progress"]) == ("done", 1, {"unknown": 1})
    assert call(guarded, key, "POST", "/v1/allow", {"policy": "sms-number", "key": "limited-only"})[0] == 200
    done = ended(guarded, key, call(guarded, key, "POST", "/v1/users/limited-only/erase")[1])
    assert (done["state"], done["progress"]["rate-limits"]) == ("done", 1)


def test_no_key_can_have_all_targets_or_all_consumers(guarded):
    first, second = (guarded.make(name, policy(EVERYTHING)) for name in ("first", "second"))
    target, consumer = {"type": "webhook", "url": "https://127.0.0.1:9/hook", "enabled": False}, {}
    for kind, most, body in (("targets", 16, target), ("consumers", 100, consumer)):
        made = [call(guarded, first, "PUT", f"/v1/{kind}/n-{i}", body)[0] for i in range(most)]
        assert set(made) == {201}
        status, problem = call(guarded, first, "PUT", f"/v1/{kind}/one-more", body)
        assert status == 409 and f"{kind}-per-key" in problem["detail"], (status, problem)
        assert call(guarded, first, "PUT", f"/v1/{kind}/n-0", body)[0] == 200  # to change one is not to have more
        assert call(guarded, second, "PUT", f"/v1/{kind}/other", body)[0] == 201
        assert call(guarded, second, "DELETE", f"/v1/{kind}/n-1")[0] == 200  # whoever deletes one
        assert call(guarded, first, "PUT", f"/v1/{kind}/one-more", body)[0] == 201
    assert guarded.command("key", "revoke", "first").returncode == 0  # what it has is not another's
    third = guarded.make("third", policy(EVERYTHING))
    assert call(guarded, third, "PUT", "/v1/targets/third", target)[0] == 201


def test_a_server_without_keys_has_one_caller_who_may_have_all():
    server = Server("--private-targets")
    try:
        for i in range(32):
            assert call(server, None, "PUT", f"/v1/targets/t-{i}", {"type": "webhook", "url": "http://127.0.0.1:9/", "enabled": False})[0] == 201
    finally:
        server.close()


def metric(server, name):
    """Of a scrape that was rendered after this was called: one is at most a second old."""
    lines = urllib.request.urlopen(server.endpoint + "/metrics").read().decode().splitlines()
    return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " "))


class Stream:
    """A stream of events, and the status that it was answered with."""

    def __init__(self, server, key, query="from=last"):
        host, port = server.endpoint.removeprefix("http://").split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=END_S)
        self.socket.sendall(f"GET /v1/events?{query} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n"
                            f"Authorization: Bearer {key[0]}.{key[1]}\r\n\r\n".encode())
        self.text = b""

    def until(self, wanted):
        while wanted not in self.text:
            more = self.socket.recv(65536)
            assert more, self.text
            self.text += more
        return self.text

    def status(self):
        return int(self.until(b"\r\n").split()[1])

    def close(self):
        self.socket.close()


def test_a_key_has_so_many_followers_and_no_more_until_some_end():
    server = Guarded("--followers-per-key", "3")
    try:
        one, other = (server.make(name, policy(EVERYTHING)) for name in ("one", "other"))
        streams = [Stream(server, one) for _ in range(3)]
        for stream in streams:
            assert stream.status() == 200
            stream.until(b"retry: ")
        refused = Stream(server, one)
        assert refused.status() == 429 and b"followers-per-key" in refused.until(b"}")
        begun = time.monotonic()
        assert call(server, one, "GET", "/v1/events?from=last&wait=20")[0] == 200 and time.monotonic() - begun < 10  # answered at once: it cannot wait
        mine = Stream(server, other)
        assert mine.status() == 200
        streams.pop().close()
        until = time.monotonic() + END_S
        while True:  # the server notices a moment later that it has ended
            again = Stream(server, one)
            if again.status() == 200:
                break
            again.close()
            assert time.monotonic() < until
        for stream in (*streams, again, mine, refused):
            stream.close()
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


def test_a_new_stream_reads_nothing_of_the_log_on_the_loop(guarded):
    """What a filter leaves out was read before the stream was answered, by each stream anew."""
    key = guarded.make("reader", policy(EVERYTHING))
    for i in range(300):
        assert call(guarded, key, "POST", "/v1/users", {"id": f"event-{i}"})[0] == 201
    stream = Stream(guarded, key, "from=first&types=lock.set")
    assert stream.status() == 200
    pages = ("gatehouse_event_pages_ring_total", "gatehouse_event_pages_read_total")
    before = [metric(guarded, name) for name in pages]
    streams = [Stream(guarded, key, "from=first&types=lock.set") for _ in range(20)]
    for each in streams:
        assert each.status() == 200
        each.until(b"id: ")
    assert [metric(guarded, name) for name in pages] == before
    for each in (stream, *streams):
        each.close()
