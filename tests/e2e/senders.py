"""Words for tests of senders: the tool that sends events (tests/outbound/sender_tool.c), receivers that keep what they get, an emulator of SQS,
a NATS server."""

import base64
import http.server
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
import uuid

from conftest import CREDENTIALS, HERE, ROOT, START_S, stop
from helpers import free_port

TOOL = os.environ.get("GATEHOUSE_SENDER_TOOL", ROOT / "build/tests/outbound/sender_tool")
JS = HERE / "js"
WAIT_S = 60


def event(subject="user-1", kind="user.created", seq=1, data=None, trace=None, id=None):
    """An event as the tool takes it."""
    id = id or uuid.uuid4().hex
    time = "2026-11-16T12:00:00.250000Z"
    body = {"specversion": "1.0", "id": id, "source": "/gatehouse", "type": kind, "subject": subject, "time": time, "seq": seq,
            "datacontenttype": "application/json", "data": data or {"name": "Zoë \"Z\" \\"}}
    return {"id": id, "type": kind, "subject": subject, "time": time, "json": json.dumps(body, ensure_ascii=False), **({"trace": trace} if trace else {})}


class Tool:
    """Sends lists of events, one after the other."""

    def __init__(self, **setup):
        self.process = subprocess.Popen([str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **CREDENTIALS})
        self.say({"withinMs": WAIT_S * 1000, **setup})

    def say(self, what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()

    def send(self, *events):
        self.say(events)
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, list) and len(answer) == len(events), answer
        return answer

    def ends(self, *events):
        return [each["end"] for each in self.send(*events)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        try:
            assert self.process.wait(WAIT_S) == 0
        finally:
            stop(self.process)


class Recorder:
    """Keeps every request, and answers what `answer` makes of its body."""

    def __init__(self, answer):
        self.requests = []  # (path, headers in lower case, body)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                body = json.loads(raw)
                outer.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                text = json.dumps(answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def sdk_send(service, endpoint, region, call):
    """The same through AWS's SDK for JavaScript."""
    for package in ("client-sqs", "client-eventbridge"):
        assert (JS / "node_modules/@aws-sdk" / package).is_dir(), f"run `npm ci` in {JS} first"
    asked = json.dumps({"service": service, "endpoint": endpoint, "region": region, "input": call})
    done = subprocess.run(["node", "aws_send.mjs"], cwd=JS, input=asked, capture_output=True, text=True, timeout=WAIT_S * 2, env={**os.environ, **CREDENTIALS})
    assert done.returncode == 0, done.stderr[-4000:]


class Sqs:
    """fauxqs, on a port that it keeps when it is started again; its queues are gone then. Other than SQS it takes no characters above U+FFFF."""

    def __init__(self):
        self.port = free_port()
        self.start()

    def start(self):
        assert (JS / "node_modules/fauxqs").is_dir(), f"run `npm ci` in {JS} first"
        self.process = subprocess.Popen(["node", "sqs.mjs", str(self.port)], cwd=JS, stdout=subprocess.PIPE, text=True)
        assert int(self.process.stdout.readline()) == self.port
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def stop(self):
        stop(self.process)
        self.process.stdout.close()

    def call(self, operation, **members):
        """In the JSON protocol, which the boto3 of Debian 12 does not speak with SQS."""
        asked = urllib.request.Request(self.endpoint, json.dumps(members).encode(),
                                       {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{operation}"})
        with urllib.request.urlopen(asked, timeout=WAIT_S) as answer:
            return json.loads(answer.read() or b"{}")

    def queue(self, name, **attributes):
        """Its URL; the emulator is asked at `endpoint`, whatever host the URL has."""
        if name.endswith(".fifo"):
            attributes["FifoQueue"] = "true"
        return self.call("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]

    def tool(self, url):
        return Tool(type="sqs", queueUrl=url, endpoint=self.endpoint, region="us-east-1")

    def receive(self, url):
        """Up to ten messages, deleted from the queue."""
        got = self.call("ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]).get("Messages", [])
        for each in got:
            self.call("DeleteMessage", QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        return got

    def take(self, url, count):
        """That many messages; and no more are there."""
        taken = []
        while got := self.receive(url):
            taken += got
        assert len(taken) == count, f"{len(taken)} instead of {count}"
        return taken

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Nats:
    """A nats-server with JetStream on loopback, on a port that it keeps when it is started again, as its streams."""

    def __init__(self, *arguments, config="", jetstream=True, **login):
        self.directory = tempfile.mkdtemp(prefix="nats-")
        self.port = free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self.login = login  # of the reader below
        self.arguments = [*arguments, *(["-js", "-sd", f"{self.directory}/store"] if jetstream else [])]
        if config:
            with open(f"{self.directory}/config", "w") as file:
                file.write(config)
            self.arguments += ["-c", f"{self.directory}/config"]
        self.start()

    def start(self):
        self.log = open(f"{self.directory}/log", "ab")
        self.process = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(self.port), *self.arguments],
                                        stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + START_S
        while socket.socket().connect_ex(("127.0.0.1", self.port)) != 0:
            assert self.process.poll() is None and time.monotonic() < deadline, open(f"{self.directory}/log").read()[-2000:]
            time.sleep(0.05)

    def stop(self):
        stop(self.process)
        self.log.close()

    def kill(self):
        self.process.kill()
        self.process.wait(WAIT_S)
        self.log.close()

    def request(self, subject, body):
        """One request over a connection of its own, and its answer."""
        text = json.dumps(body).encode()
        hello = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "protocol": 1, **self.login}
        with socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S) as conn, conn.makefile("rb") as lines:
            assert lines.readline().startswith(b"INFO ")
            conn.sendall(b"CONNECT " + json.dumps(hello).encode() + b"\r\nSUB _INBOX.tests 1\r\n"
                         + f"PUB {subject} _INBOX.tests {len(text)}\r\n".encode() + text + b"\r\n")
            while True:
                line = lines.readline().split()
                assert line and not line[0].startswith(b"-ERR"), line
                if line[0] == b"PING":
                    conn.sendall(b"PONG\r\n")
                elif line[0] in (b"MSG", b"HMSG"):
                    assert line[0] == b"MSG", "nobody answers"
                    return json.loads(lines.read(int(line[-1])))

    def stream(self, name, *subjects, **more):
        """Makes it."""
        answer = self.request(f"$JS.API.STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file", **more})
        assert "error" not in answer, answer
        return answer

    def messages(self, name):
        """All of a stream: (subject, headers, body)."""
        state = self.request(f"$JS.API.STREAM.INFO.{name}", {})["state"]
        found = []
        if state["messages"] == 0:
            return found
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            message = self.request(f"$JS.API.STREAM.MSG.GET.{name}", {"seq": seq})["message"]
            head = base64.b64decode(message.get("hdrs", "")).decode().split("\r\n")[1:]
            found.append((message["subject"], dict(line.split(": ", 1) for line in head if line), base64.b64decode(message["data"]).decode()))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
