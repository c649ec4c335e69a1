"""A server whose tables are at an endpoint that fails, through a proxy (faulty_proxy.py): for test_outages.py and others."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import boto3

from conftest import line_with_endpoint, program, stop
from faulty_proxy import Proxy
from test_engine_dynamodb import environment

LONG = os.environ.get("GATEHOUSE_OUTAGE_HOUR") == "1"
ATTEMPT_MS, CALL_MS = (300, 1200) if LONG else (250, 700)
PATIENCE_S = 120 if LONG else 60

# STRICT locks at six, for ten minutes; COUNTED never does. OPEN lets subjects try of whom nothing is known.
POLICIES = """
attempts:
  locks: {STANDARD: {duration: 600}}
  journeys:
    SIGN_IN:
      types:
        STRICT: {max: 6, life: 900, lock: STANDARD, sets: [STRICT], clears: [STRICT]}
        COUNTED: {max: 1000000, life: 86400, lock: STANDARD, sets: [COUNTED], clears: [COUNTED]}
        OPEN: {max: 1000000, life: 86400, lock: STANDARD, sets: [OPEN], clears: [OPEN], on_failure: open}
"""

START_TRIES = 4


class Server:
    """`words`: options. `like`: another server, whose tables it shares, so that it needs the same key of identifiers."""

    def __init__(self, url, *words, clock=None, policies=POLICIES, no_auth=True, like=None):
        self.url, self.words, self.clock, self.no_auth = url, words, clock, no_auth
        self.data = tempfile.mkdtemp(prefix="gatehouse-outage-")
        if like is not None:
            shutil.copy(os.path.join(like.data, "identifiers.key"), self.data)
        self.policies = pathlib.Path(self.data) / "policies.yaml"
        self.policies.write_text(policies)
        self.log = tempfile.TemporaryFile()
        self.start()

    def start(self):
        words = [program(), "serve", "--engine", "dynamodb", "--listen", "127.0.0.1:0", "--data", self.data, "--policies", str(self.policies),
                 "--workers", "16", "--endpoint-attempt-ms", str(ATTEMPT_MS), "--endpoint-call-ms", str(CALL_MS),
                 *(["--no-auth"] if self.no_auth else []), *self.words]
        more = {"GATEHOUSE_TEST_CLOCK": self.clock.path} if self.clock else {}
        for tries in range(START_TRIES):  # as a service manager does: with these deadlines an endpoint that is busy may be late for a start
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, env=environment(self.url, **more))
            try:
                self.base = line_with_endpoint(self.process)
                return
            except RuntimeError:
                self.kill()
        self.log.seek(0)
        raise RuntimeError(self.log.read()[-2000:].decode())

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def close(self):
        stop(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)

    def call(self, path, body=None, method=None, **headers):
        data = None if body is None else json.dumps(body).encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.base + path, data, names, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read() or b"null"), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null"), error.headers

    def attempt(self, subject, kind="STRICT", outcome="failure", **headers):
        return self.call("/v1/attempts", {"subject": subject, "journey": "SIGN_IN", "type": kind, "outcome": outcome}, **headers)[:2]

    def check(self, subject, kind="STRICT"):
        return self.call("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": [kind]})[:2]

    def text(self, path):
        with urllib.request.urlopen(self.base + path, timeout=PATIENCE_S) as answer:
            return answer.read().decode()

    def metric(self, name):
        return next(float(line.split()[-1]) for line in self.text("/metrics").splitlines() if line.startswith(name + " "))

    def wait_merged(self):
        deadline = time.monotonic() + PATIENCE_S
        while self.metric("gatehouse_spool_records") > 0 or self.text("/readyz") != "ready\n":
            assert time.monotonic() < deadline, (self.metric("gatehouse_spool_records"), self.text("/readyz"), self.said()[-2000:])
            time.sleep(0.05)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode()

    def counts(self, kind):
        """At the endpoint, by subject."""
        ddb = boto3.client("dynamodb", endpoint_url=self.direct, region_name="eu-west-1", aws_access_key_id="any", aws_secret_access_key="any")
        found = {}
        for page in ddb.get_paginator("scan").paginate(TableName=self.prefix + "auth-state", ConsistentRead=True):
            for row in page["Items"]:
                if row["SK"]["S"] == f"SIGN_IN#ERROR_COUNT#{kind}":
                    found[row["PK"]["S"]] = int(row["count"]["N"])
        return found


prefixes = iter(range(1000))


@contextlib.contextmanager
def world(endpoint, *words, **more):
    """(server, proxy): a server that reaches the endpoint through the proxy only, on tables of its own."""
    proxy = Proxy(endpoint)
    prefix = f"out-{os.getpid()}-{next(prefixes)}-"
    server = Server(proxy.url, "--table-prefix", prefix, *words, **more)
    server.direct, server.prefix = endpoint, prefix
    try:
        server.attempt("first", "COUNTED", Idempotency_Key="first")  # makes the tables
        yield server, proxy
    finally:
        proxy.choose = lambda target: None
        server.close()
        proxy.stop()
