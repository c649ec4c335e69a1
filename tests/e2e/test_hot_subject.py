"""One subject and many clients. Of two processes that share the tables at an endpoint (our own server) each attempt is counted once, and hardly any is refused.
Without the endpoint attempts of one subject share flushes of the spool."""

import concurrent.futures
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from urllib.parse import urlsplit

import pytest

from conftest import line_with_endpoint, program, stop
from outages import PATIENCE_S, Server

pytestmark = pytest.mark.gatehouse_only
CLIENTS = 32  # at each process
ATTEMPTS = 8  # of each client
REFUSED_MAX = 0.02  # of all answers


@pytest.fixture
def endpoint_that_dies():
    """(its URL, what kills it)"""
    data = tempfile.mkdtemp(prefix="gatehouse-hot-")
    own = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    yield line_with_endpoint(own), own.kill
    stop(own)
    own.stdout.close()
    shutil.rmtree(data, ignore_errors=True)


@pytest.fixture
def endpoint(endpoint_that_dies):
    return endpoint_that_dies[0]


@pytest.fixture
def processes(endpoint):
    words = ("--table-prefix", "hot-", "--endpoint-attempt-ms", "2000", "--endpoint-call-ms", "10000")
    first = Server(endpoint, *words)
    first.direct, first.prefix = endpoint, "hot-"
    second = Server(endpoint, *words, like=first)
    yield first, second
    first.close()
    second.close()


class Client(threading.Thread):
    """Sends each attempt until it is acknowledged, under one key. Keeps all answers, and the counts of those that were counted."""

    def __init__(self, server, name, barrier):
        super().__init__(daemon=True)
        self.server, self.name_, self.barrier, self.statuses, self.counts, self.wrong = server, name, barrier, [], [], None

    def run(self):
        try:
            line = http.client.HTTPConnection(urlsplit(self.server.base).netloc, timeout=PATIENCE_S)
            body = json.dumps({"subject": "hot", "journey": "SIGN_IN", "type": "COUNTED", "outcome": "failure"})
            line.connect()
            self.barrier.wait(PATIENCE_S)
            for n in range(ATTEMPTS):
                self.one(line, body, f"{self.name_}-{n}")
            line.close()
        except BaseException as error:
            self.wrong = error

    def one(self, line, body, key):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line.request("POST", "/v1/attempts", body, {"Idempotency-Key": key})
            reply = line.getresponse()
            answer = json.loads(reply.read())
            self.statuses.append(reply.status)
            if reply.status == 200:
                assert answer["counted"] and "degraded" not in answer, answer
                self.counts.append(answer["counts"]["COUNTED"]["count"])
                return
            assert time.monotonic() < deadline and reply.status == 503, answer


def test_of_two_processes_on_one_subject_each_attempt_counts_once_and_hardly_any_is_refused(processes):
    assert processes[0].attempt("hot", "COUNTED")[1]["counts"]["COUNTED"]["count"] == 1  # makes the tables
    barrier = threading.Barrier(2 * CLIENTS)
    clients = [Client(server, f"{which}-{n}", barrier) for which, server in enumerate(processes) for n in range(CLIENTS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert not [each.wrong for each in clients if each.wrong]
    total = 1 + 2 * CLIENTS * ATTEMPTS
    assert processes[0].counts("COUNTED") == {"hot": total}
    assert sorted(count for each in clients for count in each.counts) == list(range(2, total + 1))  # each saw a count of its own
    statuses = [status for each in clients for status in each.statuses]
    assert statuses.count(503) <= REFUSED_MAX * len(statuses), statuses.count(503)


def test_without_the_endpoint_attempts_of_one_subject_share_flushes(endpoint_that_dies):
    url, die = endpoint_that_dies
    server = Server(url, "--table-prefix", "alone-")
    try:
        assert server.attempt("hot", "COUNTED")[1]["counted"]
        die()
        second = server.attempt("hot", "COUNTED")[1]
        assert second["degraded"] and second["counts"]["COUNTED"]["count"] == 2, second  # it knows what it wrote, also with a commit that made the tables
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(lambda _: server.attempt("hot", "COUNTED"), range(CLIENTS * ATTEMPTS)))
        assert sorted(answer["counts"]["COUNTED"]["count"] for _, answer in answers) == list(range(3, 3 + len(answers)))
        with open(os.path.join(server.data, "spool"), "rb") as file:
            frames = file.read().count(b"GHSP")
        assert frames < len(answers)  # one for each flush
    finally:
        server.close()
