"""What a peer may do to HTTP itself: malformed requests, too large ones, half ones, slow ones, many at once. Nothing
is written, and the server goes on answering on old and new connections (the fixture `unharmed`)."""

import json
import socket
from urllib.parse import urlsplit

import pytest

from helpers import assert_alive, assert_refused, s
from wire import TARGET, Wire, headers_for, raw_exchange, read_all, status_of

BODY_TOO_LARGE = 64 * 1024 * 1024


def head(operation="ListTables", **more):
    fields = {"Host": "localhost", **headers_for(operation), **more}
    return "POST / HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())


MALFORMED = {
    "garbage": b"\x00\x01\x02\x03\r\n\r\n",
    "words": b"this is not http at all\r\n\r\n",
    "no_version": b"POST /\r\nHost: localhost\r\n\r\n",
    "version": b"POST / HTTP/9.9\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "method": b"P@ST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    "no_colon": b"POST / HTTP/1.1\r\nHost: localhost\r\nno colon here\r\n\r\n",
    "space_in_name": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\n{}",
    "nul_in_header": b"POST / HTTP/1.1\r\nHost: localhost\r\nA: b\x00c\r\nContent-Length: 2\r\n\r\n{}",
    "length_text": (head() + "Content-Length: abc\r\n\r\n{}").encode(),
    "length_negative": (head() + "Content-Length: -1\r\n\r\n{}").encode(),
    "length_twice": (head() + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}").encode(),
    "length_huge": (head() + "Content-Length: 99999999999999999999999\r\n\r\n{}").encode(),
    "length_and_chunks": (
        head() + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    ).encode(),
    "chunk_size": (head() + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n").encode(),
    "chunk_huge": (head() + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}").encode(),
    "coding": (head() + "Transfer-Encoding: gzip\r\n\r\n{}").encode(),
}


@pytest.mark.gatehouse_only
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_http_is_refused_and_the_connection_ended(unharmed, endpoint, name):
    status = status_of(raw_exchange(endpoint, MALFORMED[name]))
    assert status is not None and 400 <= status <= 505, status


@pytest.mark.parametrize(
    "sent",
    [b"", b"\r\n", b"POST", b"POST / HTTP/1.1\r\nHost: localhost\r\n", (head() + "Content-Length: 100\r\n\r\n{").encode()],
    ids=["nothing", "line", "word", "half_a_head", "half_a_body"],
)  # fmt: skip
def test_a_request_that_never_ends_harms_nobody(unharmed, endpoint, sent):
    assert status_of(raw_exchange(endpoint, sent, leave=True)) in (None, 400, 408)


def test_a_body_over_the_limit_is_refused_before_it_is_read(unharmed, endpoint):
    announced = (head("PutItem") + f"Content-Length: {BODY_TOO_LARGE}\r\n\r\n{{").encode()
    assert status_of(raw_exchange(endpoint, announced)) == 413


@pytest.mark.gatehouse_only
def test_a_body_that_grows_over_the_limit_is_refused(unharmed, endpoint):
    """In chunks, so that no length is announced. The answer may be lost with the connection; memory is not."""
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    sent = (head("PutItem") + "Transfer-Encoding: chunked\r\n\r\n").encode() + chunk * (BODY_TOO_LARGE >> 20)
    assert status_of(raw_exchange(endpoint, sent)) in (None, 413)


def test_a_huge_header_is_refused(unharmed, endpoint):
    sent = (head(Junk="x" * 1_000_000) + "Content-Length: 2\r\n\r\n{}").encode()
    assert status_of(raw_exchange(endpoint, sent)) in (431, None)


def test_a_large_header_is_told_its_status(unharmed, endpoint):
    """Small enough to arrive whole before the answer is sent, so that the answer is not lost."""
    sent = (head(Junk="x" * 600_000)).encode()
    assert status_of(raw_exchange(endpoint, sent)) in (431, None)
    many = "".join(f"X-{number}: y\r\n" for number in range(5000))
    assert status_of(raw_exchange(endpoint, (head() + many + "Content-Length: 2\r\n\r\n{}").encode())) in (431, None)


@pytest.mark.gatehouse_only
def test_a_header_just_too_large_is_answered_431(unharmed, endpoint):
    sent = (head(Junk="x" * 100_000) + "Content-Length: 2\r\n\r\n{}").encode()
    assert status_of(raw_exchange(endpoint, sent)) == 431


@pytest.mark.gatehouse_only
def test_a_long_path_and_a_wrong_path_are_refused(unharmed, endpoint):
    line = f"POST /{'x' * 100_000} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
    assert status_of(raw_exchange(endpoint, line)) in (414, 431)
    assert unharmed.send("POST", "/nowhere", b"{}", headers_for("ListTables")).status == 404
    assert unharmed.send("PUT", "/", b"{}", headers_for("ListTables")).status in (404, 405)


def test_pipelined_requests_are_answered_in_their_order(unharmed, endpoint, guarded):
    sent = b""
    for number in range(5):
        body = json.dumps({"TableName": guarded, "Key": {"pk": s(str(number))}})
        ending = {"Connection": "close"} if number == 4 else {}
        sent += (head("GetItem", **ending) + f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
    received = raw_exchange(endpoint, sent)
    found = [part.split(b'"')[0] for part in received.split(b'"v":{"N":"')[1:]]
    assert found == [b"0", b"1", b"2", b"3", b"4"]


def test_a_request_may_arrive_a_byte_at_a_time(unharmed, endpoint, guarded):
    body = json.dumps({"TableName": guarded, "Key": {"pk": s("2")}})
    sent = (head("GetItem") + f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()
    parts = urlsplit(endpoint)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in sent:
            peer.sendall(bytes([byte]))
        received = read_all(peer)
    assert status_of(received) == 200 and b'"N":"2"' in received


def test_a_body_in_chunks_is_understood(unharmed, endpoint, guarded):
    body = json.dumps({"TableName": guarded, "Key": {"pk": s("4")}})
    chunks = "".join(f"{len(part):x}\r\n{part}\r\n" for part in (body[:7], body[7:]))
    sent = (head("GetItem") + f"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").encode()
    received = raw_exchange(endpoint, sent)
    assert status_of(received) == 200 and b'"N":"4"' in received


@pytest.mark.gatehouse_only
@pytest.mark.parametrize("encoding, status", [("identity", 200), ("", 200), ("gzip", 500), ("garbage", 500)])
def test_a_body_in_an_encoding_that_is_not_known_is_refused(unharmed, encoding, status):
    """500 is what DynamoDB answers; under /v1 it is 415."""
    answer = unharmed.call("ListTables", {}, {"Content-Encoding": encoding})
    assert answer.status == status, answer
    if status == 500:
        assert answer.error == "InternalServerError" and encoding in answer.message
    there = unharmed.send("POST", "/v1/check", b"{}", {"Content-Type": "application/json", "Content-Encoding": encoding})
    assert there.status == (415 if status == 500 else 422), there


def test_a_target_may_not_smuggle(unharmed):
    for target in (TARGET + "PutItem x", TARGET + "putitem", "DynamoDB_20111205.GetItem", "." * 4000, TARGET * 100):
        assert_refused(unharmed.call(target, {}), ("UnknownOperationException",))


def test_many_connections_that_say_nothing_leave_room_for_others(unharmed, endpoint, guarded):
    parts = urlsplit(endpoint)
    idle = [socket.create_connection((parts.hostname, parts.port), timeout=20) for _ in range(200)]
    try:
        fresh = Wire(endpoint)
        assert_alive(fresh, guarded)
        fresh.close()
    finally:
        for peer in idle:
            peer.close()
