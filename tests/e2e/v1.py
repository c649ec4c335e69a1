"""Words for tests of /v1: a connection that sends attempts, many connections that send at the same moment, and a server
of one's own that may be killed."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
from urllib.parse import urlsplit

from conftest import line_with_endpoint, program, stop
from wire import TIMEOUT_S, Wire


def attempt(subject, kind="PASSWORD_ENTRY", outcome="failure", journey="SIGN_IN", **more):
    return {"subject": subject, "journey": journey, "type": kind, "outcome": outcome, **more}


class V1(Wire):
    def post(self, path, body, **headers):
        """`headers`: idempotency_key="…" is Idempotency-Key: …"""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.send("POST", path, raw, {"Content-Type": "application/json", **named})

    def attempts(self, *body, **headers):
        return self.post("/v1/attempts", *body, **headers)

    def record(self, subject, kind="PASSWORD_ENTRY", times=1, **more):
        """Attempts that must be answered; the last answer."""
        for _ in range(times):
            reply = self.attempts(attempt(subject, kind, **more))
            assert reply.status == 200, reply.body
        return reply.json()


def request_bytes(path, body, **headers):
    raw = json.dumps(body).encode()
    named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{named}Content-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


class Crowd:
    """Connections that all have a request under way at the same moment."""

    def __init__(self, endpoint, size):
        parts = urlsplit(endpoint)
        self.peers = [socket.create_connection((parts.hostname, parts.port), timeout=TIMEOUT_S) for _ in range(size)]
        for peer in self.peers:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, sent):
        for peer in self.peers:
            peer.sendall(sent)

    def answers(self):
        """(head, body) of each."""
        return [self.read(peer) for peer in self.peers]

    @staticmethod
    def read(peer):
        received = b""
        while True:
            more = peer.recv(65536)
            if not more:
                raise ConnectionError("closed before it answered")
            received += more
            head, found, body = received.partition(b"\r\n\r\n")
            if found and len(body) >= int(head.lower().split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0]):
                return head, body

    def close(self):
        for peer in self.peers:
            peer.close()


class Server:
    """One of one's own, on a data directory that outlives it."""

    def __init__(self, *words, data=None):
        self.words = words
        self.data = data or tempfile.mkdtemp(prefix="gatehouse-v1-")
        self.log = tempfile.TemporaryFile()
        self.start()

    def start(self):
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth", *self.words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log)
        self.endpoint = line_with_endpoint(self.process)
        self.v1 = V1(self.endpoint)

    def kill(self):
        """As a power cut would: no handler runs."""
        self.v1.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        self.v1.close()
        stop(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def logged(self):
        self.log.seek(0)
        return self.log.read()

    def stored(self):
        """Every byte of the data directory."""
        for folder, _, files in os.walk(self.data):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    yield file.read()


def generous(server):
    """Codes for addresses without end, for tests that ask for more than a person would."""
    reply = server.v1.send("GET", "/v1/policies/attempts", b"", {})
    etag = next(value for name, value in reply.headers.items() if name.lower() == "etag")
    rules = reply.json()["document"]
    for rule in rules["journeys"]["EMAIL_VERIFICATION"]["types"].values():
        rule["max"] = 1000000
    put = server.v1.send("PUT", "/v1/policies/attempts", json.dumps(rules).encode(), {"If-Match": etag})
    assert put.status == 200, put.body
    return server
