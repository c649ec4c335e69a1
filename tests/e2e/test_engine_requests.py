"""gatehouse serve --engine dynamodb: how many requests each call sends to the endpoint, and how many rows its transaction holds: each is two
write units. A proxy in front of the endpoint counts them; a number that grows fails here, and docs/scaling.md says the same ones."""

import collections
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

from conftest import line_with_endpoint, program, stop
from counting import Counting
from test_engine_dynamodb import environment, give_key

CALLS = 4


POLICIES = "limits:\n  login: {algorithm: sliding, limit: 1000, per: hour, engine: table}\n  few: {algorithm: fixed, limit: 1, per: hour, engine: table}\n"


class Gatehouse:
    def __init__(self, target, *options):
        self.proxy = Counting(target)
        self.data = tempfile.mkdtemp(prefix="gatehouse-e2e-")
        give_key(self.data)
        policies = pathlib.Path(self.data, "policies.yaml")
        policies.write_text(POLICIES)
        options = ("--policies", str(policies), *options)
        command = [program(), "serve", "--engine", "dynamodb", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(f"http://127.0.0.1:{self.proxy.server_port}"))
        self.base = line_with_endpoint(self.process)

    def close(self):
        stop(self.process)
        self.proxy.shutdown()
        self.proxy.server_close()
        shutil.rmtree(self.data, ignore_errors=True)

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            pytest.fail(f"{path}: {error.code} {error.read()}")

    def attempt(self, subject, outcome="failure", **more):
        return self.call("/v1/attempts", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": outcome, **more})

    def requests(self, once, mark):
        """What once(i) sends for each of CALLS calls, in order, of requests whose body has mark(i) in it; of the last one."""
        for i in range(CALLS):
            self.proxy.take()
            once(i)
            seen = self.proxy.take()
        seen = [(name, body) for name, body in seen if mark(CALLS - 1) in body]
        self.rows = [len(json.loads(body)["TransactItems"]) for name, body in seen if name == "TransactWriteItems"]
        return [name for name, _ in seen]


@pytest.fixture(scope="module")
def endpoint():
    data = tempfile.mkdtemp(prefix="gatehouse-e2e-")
    own = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    yield line_with_endpoint(own)
    stop(own)
    shutil.rmtree(data, ignore_errors=True)


@pytest.fixture(scope="module")
def gatehouse(endpoint):
    g = Gatehouse(endpoint.removeprefix("http://"))
    g.call("/v1/users", {"email": "first@example.org"})  # tables are made
    g.attempt("first")
    yield g
    g.close()


SETTLED_S, QUIET_S = 18, 10  # workers look after 1, 2, 4, 8 s, and then next after 16 s
IDLE_PER_S_MAX = 4  # it is about one; a worker's look that comes late on a busy machine is allowed


def test_an_idle_process_asks_about_once_per_second(endpoint):
    """Before its workers rested it asked 20 times per second. And of locks that end it asks 16 partitions once, when it gets the lease."""
    prefix = ("--table-prefix", "idle-")
    subprocess.run([program(), "tables", "create", *prefix], env=environment(endpoint), stdout=subprocess.DEVNULL, check=True)
    g = Gatehouse(endpoint.removeprefix("http://"), *prefix)
    time.sleep(SETTLED_S)
    before = g.proxy.take()
    time.sleep(QUIET_S)
    seen = g.proxy.take()
    g.close()
    assert len(seen) / QUIET_S <= IDLE_PER_S_MAX, collections.Counter(name for name, _ in seen)
    assert sum("DUE#" in body for _, body in before + seen) == 16


def test_a_failed_attempt_takes_two(gatehouse):
    sent = gatehouse.requests(lambda i: gatehouse.attempt(f"fail{i}."), lambda i: f"fail{i}.")
    assert sent == ["TransactGetItems", "TransactWriteItems"]
    assert gatehouse.rows == [4]  # the count, failures in a row, the version, a look at the user


def test_failed_attempts_of_one_subject_are_not_in_each_others_way(gatehouse):
    """Each commits once, although they come at the same time: they run one after the other (decision 041)."""
    gatehouse.proxy.take()
    with concurrent.futures.ThreadPoolExecutor(5) as clients:
        for subject in [f"crowd{i}." for i in range(CALLS)]:
            answers = list(clients.map(gatehouse.attempt, [subject] * 5))
            assert all(answer["counted"] for answer in answers)
    commits = [name for name, body in gatehouse.proxy.take() if name == "TransactWriteItems" and "crowd" in body]
    assert len(commits) == 5 * CALLS


def test_a_failed_attempt_with_a_source_writes_and_looks_at_six_rows(gatehouse):
    sent = gatehouse.requests(lambda i: gatehouse.attempt(f"from{i}.", context={"ip": f"198.51.100.{i}"}), lambda i: f"from{i}.")
    assert sent == ["TransactGetItems", "TransactWriteItems"]
    assert gatehouse.rows == [6]


def test_a_success_takes_one_and_two_if_there_are_counts_to_clear(gatehouse):
    sent = gatehouse.requests(lambda i: gatehouse.attempt(f"good{i}.", "success"), lambda i: f"good{i}.")
    assert sent == ["TransactGetItems"]  # all was so at one moment, and nothing is to be written
    for i in range(CALLS):
        gatehouse.attempt(f"late{i}.")
    sent = gatehouse.requests(lambda i: gatehouse.attempt(f"late{i}.", "success"), lambda i: f"late{i}.")
    assert sent == ["TransactGetItems", "TransactWriteItems"]
    assert gatehouse.rows == [4]


def test_an_attempt_while_a_lock_holds_takes_one_and_none_a_moment_later(gatehouse):
    for _ in range(6):
        gatehouse.attempt("locked.")
    assert gatehouse.attempt("locked.")["verdict"] == "locked"
    assert gatehouse.requests(lambda _: gatehouse.attempt("locked."), lambda _: "locked.") in ([], ["TransactGetItems"])


def verified(gatehouse, user, *addresses):
    gatehouse.call("/v1/users", {"id": user})
    for address in addresses:
        claim = gatehouse.call(f"/v1/users/{user}/emails", {"email": address})
        gatehouse.call(f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]})


def test_an_address_that_nobody_has_takes_as_many_as_one_that_somebody_has(gatehouse, endpoint):
    """Three when a process sees it first: whose is it? then that user. Two from then on, and rows as of two ids."""
    for i in range(CALLS):
        verified(gatehouse, f"own{i}", f"own{i}@example.org")
    other = Gatehouse(endpoint.removeprefix("http://"))  # it has seen none of them
    try:
        for name, rows in (("own", [6]), ("who", [4])):  # the count, failures in a row and the version, looks at marker, PROFILE and the user's version
            first = other.requests(lambda i: other.attempt({"email": f"{name}{i}@example.org"}), lambda _: "auth-state")
            again = other.requests(lambda i: other.attempt({"email": f"{name}{i}@example.org"}), lambda _: "auth-state")
            assert (first, again, other.rows) == (["TransactGetItems"] * 2 + ["TransactWriteItems"], ["TransactGetItems", "TransactWriteItems"], rows), name
    finally:
        other.close()


def test_a_person_with_several_addresses_takes_two_once_it_was_seen(gatehouse):
    for count, rows in ((5, 10), (20, 25)):  # a look at each further id
        addresses = [f"p{count}.{i}@example.org" for i in range(count)]
        verified(gatehouse, f"p{count}", *addresses)
        for name in (f"p{count}", {"email": addresses[0]}):
            gatehouse.attempt(name, "success")
            sent = gatehouse.requests(lambda _: gatehouse.attempt(name), lambda _: "email:")
            assert sent == ["TransactGetItems", "TransactWriteItems"]
            assert gatehouse.rows == [rows - (name == f"p{count}")], name


def test_the_failure_that_locks_and_publishes_takes_three_one_of_them_a_query_for_an_older_lock(gatehouse):
    for i in range(CALLS):
        for _ in range(5):
            gatehouse.attempt(f"sixth{i}.")
    sent = gatehouse.requests(lambda i: gatehouse.attempt(f"sixth{i}."), lambda i: f"sixth{i}.")
    assert sent == ["TransactGetItems", "TransactWriteItems"]  # the query does not name the subject
    assert gatehouse.rows == [11]  # 5 of them for the event, its numbers and the due row


def test_another_process_that_knows_nothing_of_the_subject_takes_one_more_to_lock_or_finish(gatehouse, endpoint):
    """A process guesses what it will need from what it last knew. Another one counts as right, and asks once more."""
    other = Gatehouse(endpoint.removeprefix("http://"))
    try:
        other.attempt("warm.")
        for _ in range(5):
            gatehouse.attempt("strange.")
        begun = gatehouse.call("/v1/attempts/begin", {"subject": "elsewhere.", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})["attempt"]
        other.proxy.take()
        assert other.attempt("strange.")["verdict"] == "locked"
        sent = [name for name, body in other.proxy.take() if "strange." in body]
        assert sent == ["TransactGetItems", "BatchGetItem", "TransactWriteItems"]
        assert other.call("/v1/attempts/finish", {"attempt": begun, "outcome": "success"})["verdict"] == "allow"
        sent = [name for name, body in other.proxy.take() if "elsewhere." in body]
        # Before these, a GetItem of the reservation, which says whose it is.
        assert sent == ["TransactGetItems", "TransactWriteItems"]
    finally:
        other.close()


def test_begin_and_finish_take_two(gatehouse):
    begun = {}

    def begin(i):
        begun[i] = gatehouse.call("/v1/attempts/begin", {"subject": f"begun{i}.", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})["attempt"]

    def finish(i):
        gatehouse.call("/v1/attempts/finish", {"attempt": begun[i], "outcome": "success"})

    assert gatehouse.requests(begin, lambda i: f"begun{i}.") == ["TransactGetItems", "TransactWriteItems"]
    assert gatehouse.rows == [5]  # as a failure, and the reservation
    gatehouse.proxy.take()
    finish(0)
    sent = [(name, body) for name, body in gatehouse.proxy.take() if "auth-state" in body]
    assert [name for name, _ in sent] == ["TransactGetItems", "TransactWriteItems"]
    assert all("begun0." in body for _, body in sent)
    assert len(json.loads(sent[1][1])["TransactItems"]) == 5


def test_a_check_is_one_snapshot(gatehouse):
    sent = gatehouse.requests(
        lambda i: gatehouse.call("/v1/check", {"subject": f"asked{i}.", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}),
        lambda i: f"asked{i}.")
    assert sent == ["TransactGetItems"]


def test_a_user_takes_two_to_make_and_one_to_read_and_a_device_three(gatehouse):
    made = {}

    def make(i):
        made[i] = gatehouse.call("/v1/users", {"id": f"user{i}.", "email": f"user{i}@example.org"})["id"]

    def register(i):
        body = {"platform": "ios", "expoPushToken": f"ExponentPushToken[{i:022}]"}
        gatehouse.call(f"/v1/users/{made[i]}/devices/one", body, "PUT")

    assert gatehouse.requests(make, lambda i: f"user{i}.") == ["TransactGetItems", "TransactWriteItems"]
    assert gatehouse.requests(lambda i: gatehouse.call(f"/v1/users/{made[i]}"), lambda i: f"user{i}.") == ["GetItem"]
    register(0)  # the table is made
    assert gatehouse.requests(register, lambda i: f"user{i}.") == ["BatchGetItem", "Query", "TransactWriteItems"]


def test_a_limit_in_a_table_takes_one_write_and_none_once_it_was_refused(gatehouse):
    def ask(policy, key, **headers):
        request = urllib.request.Request(gatehouse.base + "/v1/allow", json.dumps({"policy": policy, "key": key}).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["allowed"]

    assert ask("few", "spent") and not ask("few", "spent")
    assert gatehouse.requests(lambda i: ask("login", f"key{i}."), lambda i: f"key{i}.") == ["GetItem", "PutItem"]  # keys that nobody has seen
    assert gatehouse.requests(lambda i: ask("login", f"key{i}."), lambda i: f"key{i}.") in (["UpdateItem"], ["PutItem"])  # the second begins a window, or is gcra's
    keyed = gatehouse.requests(lambda i: ask("login", f"key{i}.", **{"Idempotency-Key": f"once-{i}"}), lambda i: f"key{i}.")
    assert keyed[-1] == "TransactWriteItems" and "UpdateItem" not in keyed and "PutItem" not in keyed
    assert gatehouse.requests(lambda _: ask("few", "spent"), lambda _: "spent") == []
