"""Requests as bytes: what the tests use where an SDK would be in the way.

An SDK checks, retries and re-orders; the tests of errors and of bad input must see exactly what the server
answers to exactly what was sent. Nothing here retries, and every wait has an end.
"""

import http.client
import json
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

TIMEOUT_S = 60
TARGET = "DynamoDB_20120810."

# Any credential will do where the server was started without authentication; other endpoints want the shape.
SIGNED_AS = (
    "AWS4-HMAC-SHA256 Credential=test/20240101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date;x-amz-target, Signature=" + "0" * 64
)


@dataclass
class Reply:
    """An answer, undigested."""

    status: int
    headers: dict = field(default_factory=dict)
    body: bytes = b""

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error's name, without the prefix that says which part of AWS it came from."""
        return self.json()["__type"].rsplit("#", 1)[-1]

    @property
    def message(self):
        answer = self.json()
        return answer.get("message", answer.get("Message"))


def headers_for(operation):
    headers = {
        "Content-Type": "application/x-amz-json-1.0",
        "Authorization": SIGNED_AS,
        "X-Amz-Date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
    }
    if operation is not None:
        headers["X-Amz-Target"] = operation if "." in operation else TARGET + operation
    return headers


def as_bytes(body):
    if isinstance(body, bytes):
        return body
    return json.dumps(body).encode()


class Wire:
    """One keep-alive connection; opened again when the server has closed it."""

    def __init__(self, endpoint):
        parts = urlsplit(endpoint)
        self.address = (parts.hostname, parts.port)
        self.connection = http.client.HTTPConnection(*self.address, timeout=TIMEOUT_S)

    def call(self, operation, body, headers=None):
        """Sends one operation; the body may be bytes, or anything that JSON can say."""
        return self.send("POST", "/", as_bytes(body), {**headers_for(operation), **(headers or {})})

    def send(self, method, path, body=None, headers=None):
        try:
            self.connection.request(method, path, body, headers or {})
            answer = self.connection.getresponse()
            lowered = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, lowered, answer.read())
        except Exception:
            self.connection.close()
            raise

    @property
    def is_open(self):
        return self.connection.sock is not None

    def close(self):
        self.connection.close()


def raw_exchange(endpoint, sent, leave=False):
    """Sends bytes as they are on a new connection and returns all that comes back until the server closes it.

    With `leave`, our side is shut after sending, so that a server that waits for more learns that no more will
    come. A server may answer and close before it has read everything: that is no failure of the exchange.
    """
    parts = urlsplit(endpoint)
    with socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT_S) as peer:
        try:
            peer.sendall(sent)
            if leave:
                peer.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return read_all(peer)


def read_all(peer):
    received = b""
    try:
        while True:
            more = peer.recv(65536)
            if not more:
                return received
            received += more
    except ConnectionResetError:
        return received


def status_of(received):
    """The status code of raw bytes; None if the server closed without a word."""
    if not received:
        return None
    return int(received.split(b" ", 2)[1])
