"""Four processes over one independent DynamoDB endpoint (dynoxide), killed and started again while they race. Whatever one machine promises holds here too: no guess
too many and one lock, no more than a limit, one user per address, one device per push token, no valid token after a suspension was acknowledged, a log without
gaps, each lock.expired once, consumers that miss nothing and keep the order. The clock of the last process is 2 s ahead all the time.

GATEHOUSE_PROCESSES_ROUNDS says how many rounds of each race (1 unless set; 20 for the campaign)."""

import contextlib
import http.client
import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest

from conftest import line_with_endpoint, program, stop
from issuer import Issuer
from test_clock import Clock
from test_engine_dynamodb import dynoxide, environment  # noqa: F401
from test_events_kill import Member, Writer, once_each, subject_order, whole_log
from v1 import attempt

pytestmark = pytest.mark.gatehouse_only
ROUNDS = int(os.environ.get("GATEHOUSE_PROCESSES_ROUNDS", "1"))
PROCESSES, CLIENTS = 4, 16
AHEAD_S = 2
LIMIT = 6        # of the shipped policy for passwords
SMS_LIMIT = 10   # of the shipped limit sms-number, which is kept in a table
FOLLOW_S = 2     # until policies arrive
LEASE_S = 30     # of whoever tells of locks that ended
PATIENCE_S = 60


class Process:
    def __init__(self, url, words, key_files=None):
        self.data, self.clock, self.url, self.words = tempfile.mkdtemp(prefix="gatehouse-e2e-"), Clock(), url, words
        self.log = tempfile.TemporaryFile()
        self.kills = 0
        for file in key_files or []:
            shutil.copy(file, self.data)
        self.start()

    def start(self):
        command = [program(), "serve", "--engine", "dynamodb", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth", *self.words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, env=environment(self.url, GATEHOUSE_TEST_CLOCK=self.clock.path))
        self.endpoint = line_with_endpoint(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.kills += 1

    def close(self):
        stop(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)
        assert self.process.returncode == 0

    def send(self, method, path, body=None, **headers):
        """(status, answer), or None if nobody answered."""
        try:
            line = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=PATIENCE_S)
            line.request(method, path, b"" if body is None else json.dumps(body), {name.replace("_", "-"): value for name, value in headers.items()})
            reply = line.getresponse()
            answer = reply.status, json.loads(reply.read() or b"null"), dict(reply.getheaders())
            line.close()
            return answer
        except (OSError, http.client.HTTPException, ValueError):
            return None


class World:
    def __init__(self, url, *words):
        words = ("--table-prefix", f"four-{uuid.uuid4().hex[:6]}-", "--email-claims", "added", *words)
        # A server that is killed between making a table and turning its time to live on leaves one that no start accepts, if others wrote to it.
        subprocess.run([program(), "tables", "create", *words[:2]], env=environment(url), check=True, stdout=subprocess.DEVNULL)
        first = Process(url, words)
        keys = [os.path.join(first.data, name) for name in ("identifiers.key", "devices.key")]
        with ThreadPoolExecutor() as starting:
            self.all = [first, *starting.map(lambda _: Process(url, words, keys), range(PROCESSES - 1))]
        self.all[-1].clock.passes(AHEAD_S)
        self.chance = random.Random(15)

    def passes(self, seconds):
        for each in self.all:
            each.clock.passes(seconds)

    def ask(self, n, method, path, body=None):
        """As a good client does: whatever has no answer is sent again with the same key, to the next process."""
        key, deadline = uuid.uuid4().hex, time.monotonic() + PATIENCE_S
        while True:
            got = self.all[n % PROCESSES].send(method, path, body, Idempotency_Key=key)
            if got is not None and got[0] not in (500, 503):
                return got[0], got[1]
            assert time.monotonic() < deadline, (method, path, got)
            n += 1
            time.sleep(0.02)

    def together(self, count, work):
        """work(n) of `count` clients at once; what they return."""
        answers, wrong = [None] * count, []
        barrier = threading.Barrier(count)

        def run(n):
            try:
                barrier.wait(PATIENCE_S)
                answers[n] = work(n)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert not wrong, wrong
        return answers

    @contextlib.contextmanager
    def killing(self):
        """Meanwhile one process after the other is killed and started again; at least one is."""
        done = threading.Event()

        def run():
            while True:
                time.sleep(self.chance.uniform(0.02, 0.2))
                each = self.chance.choice(self.all)
                each.kill()
                each.start()
                if done.is_set():
                    return

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def logged(self):
        """What the processes have written to their logs, for whoever looks at a failure."""
        for each in self.all:
            each.log.seek(0)
        return [each.log.read()[-3000:].decode() for each in self.all]

    def close(self):
        for each in self.all:
            each.close()


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def world(dynoxide, issuer, tmp_path_factory):  # noqa: F811
    made = World(dynoxide, "--identity", str(issuer.identity(tmp_path_factory.mktemp("identity"))))
    yield made
    made.close()


def new(name):
    return f"{name}-{uuid.uuid4().hex[:12]}"


def newest(world):
    """Where the log ends now."""
    return world.ask(0, "GET", "/v1/events?from=last")[1]["after"]


def types_after(world, after):
    """Of each subject, the types of its events after that place of the log."""
    found, more = {}, True
    while more:
        status, page = world.ask(0, "GET", f"/v1/events?after={after}&limit=500")
        assert status == 200, page
        for event in page["events"]:
            found.setdefault(event["subject"], []).append(event["type"])
        after, more = page["after"], page["more"]
    return found


# ---- policies ----


def test_policies_that_are_put_at_one_process_come_into_force_at_all_and_a_delete_takes_them_back(world):
    for n, method in enumerate(("PUT", "DELETE") if ROUNDS > 1 else ("PUT",)):
        _, shown, headers = world.all[n].send("GET", "/v1/policies/attempts")
        shown["document"]["journeys"]["SIGN_IN"]["types"]["EMAIL_CODE_ENTRY"]["max"] = 3  # 6 before
        status, answer, _ = world.all[n].send(method, "/v1/policies/attempts", shown["document"] if method == "PUT" else None,
                                              If_Match=headers.get("ETag") or headers["etag"])
        assert status == 200, answer
        began = time.monotonic()
        for each in world.all:
            while each.send("GET", "/v1/policies/attempts")[1]["version"] < answer["version"]:
                assert time.monotonic() - began < 5 * FOLLOW_S  # the machine may be busy
                time.sleep(0.05)
            _, seen, _ = each.send("POST", "/v1/attempts", attempt(new("policy"), "EMAIL_CODE_ENTRY"))
            assert seen["counts"]["EMAIL_CODE_ENTRY"]["max"] == (3 if method == "PUT" else 6) and seen["policy_version"] == answer["version"]


# ---- races ----


def test_of_guesses_at_all_processes_exactly_so_many_are_counted_and_one_lock_is_set(world):
    for _ in range(ROUNDS):
        subject, after = new("eve"), newest(world)
        with world.killing():
            answers = world.together(CLIENTS, lambda n: world.ask(n, "POST", "/v1/attempts", attempt(subject)))
        assert [status for status, _ in answers] == [200] * CLIENTS, answers
        counted = [answer["counts"]["PASSWORD_ENTRY"]["count"] for _, answer in answers if answer["counted"]]
        assert sorted(counted) == list(range(1, LIMIT + 1))
        assert sum(answer["verdict"] == "allow" for _, answer in answers) == LIMIT - 1  # the last that is counted sees the lock
        assert all(each.send("POST", "/v1/attempts", attempt(subject, outcome="success"))[1]["verdict"] == "locked" for each in world.all)
        assert types_after(world, after)[subject].count("lock.set") == 1


def test_of_clients_that_begin_at_all_processes_exactly_so_many_may_hash(world):
    for _ in range(ROUNDS):
        body = {"subject": new("begin"), "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}
        with world.killing():
            answers = world.together(CLIENTS, lambda n: world.ask(n, "POST", "/v1/attempts/begin", body))
        assert sum(answer["verdict"] == "allow" for _, answer in answers) == LIMIT, answers


def test_a_limit_is_never_exceeded_and_a_key_that_is_repeated_takes_once(world):
    for _ in range(ROUNDS):
        key = new("number")
        with world.killing():
            answers = world.together(CLIENTS, lambda n: world.ask(n, "POST", "/v1/allow", {"policy": "sms-number", "key": key}))
        assert sum(answer["allowed"] for _, answer in answers) == SMS_LIMIT, answers
        assert not any(each.send("POST", "/v1/allow", {"policy": "sms-number", "key": key})[1]["allowed"] for each in world.all)


def test_an_address_has_one_user_whoever_is_asked(world):
    for _ in range(ROUNDS):
        users = [world.ask(n, "POST", "/v1/users", {"id": new("user")})[1]["id"] for n in range(CLIENTS)]
        email = f"{new('one')}@example.org"
        with world.killing():
            answers = world.together(CLIENTS, lambda n: world.ask(n, "POST", f"/v1/users/{users[n]}/emails", {"email": email}))
        assert sorted(status for status, _ in answers) == [201] + [409] * (CLIENTS - 1), answers
        winner = users[[status for status, _ in answers].index(201)]
        assert {each.send("POST", "/v1/users/lookup", {"email": email})[1]["user"]["id"] for each in world.all} == {winner}


def test_a_push_token_has_one_device_whoever_is_asked(world):
    for _ in range(ROUNDS):
        users, token = [new("owner") for _ in range(CLIENTS)], f"ExponentPushToken[{uuid.uuid4().hex}]"
        with world.killing():
            answers = world.together(CLIENTS, lambda n: world.ask(n, "PUT", f"/v1/users/{users[n]}/devices/phone", {"platform": "ios", "expoPushToken": token}))
        assert {status for status, _ in answers} <= {200, 201}, answers
        holders = {user for n, user in enumerate(users) for device in world.ask(n, "GET", f"/v1/users/{user}/devices")[1]["devices"]
                   if device["isActive"] and device["expoPushToken"] == token}
        assert len(holders) == 1


def test_once_a_suspension_is_acknowledged_no_process_calls_a_token_valid(world, issuer):
    for n in range(ROUNDS):
        user = new("suspended")
        assert world.ask(n, "POST", "/v1/users", {"id": user})[0] == 201
        token, acknowledged, late, before = issuer.token(user), [], [], []

        def verify(each):
            while not acknowledged or time.monotonic() < acknowledged[0] + 0.3:
                asked = time.monotonic()
                got = each.send("POST", "/v1/tokens/verify", {"token": token})
                if got is not None and got[0] == 200 and got[1]["valid"]:
                    (late if acknowledged and asked > acknowledged[0] else before).append(asked)

        threads = [threading.Thread(target=verify, args=(each,)) for each in world.all for _ in range(2)]
        for each in threads:
            each.start()
        with world.killing():
            while not before:
                time.sleep(0.01)
            assert world.ask(n, "POST", f"/v1/users/{user}/suspend")[0] == 200
            acknowledged.append(time.monotonic())
        for each in threads:
            each.join()
        assert before and not late


# ---- events ----


def test_the_log_has_no_gap_and_members_on_different_processes_miss_nothing_and_keep_the_order(world):
    assert world.all[0].send("PUT", "/v1/consumers/kept", {"from": "last"})[0] == 201
    consumed = []
    members = [Member(world.all[n], name, consumed) for n, name in ((0, "one"), (2, "two"))]
    writers = [Writer(each, seed) for seed, each in enumerate(world.all)]
    try:
        for each in members + writers:
            each.start()
        for _ in range(2 * ROUNDS):
            with world.killing():
                time.sleep(0.4)
        for each in writers:
            each.done.set()
            each.join()
            assert each.wrong == []
        log = whole_log(world.all[1])
        for shard in {event.get("shard", 0) for event in log}:
            there = [event["position"] for event in log if event.get("shard", 0) == shard]
            assert there == list(range(1, len(there) + 1))
        ours = {user for each in writers for user in each.users}
        wanted = [event for event in log if event["subject"] in ours]
        assert len(wanted) > 4 * ROUNDS
        deadline = time.monotonic() + PATIENCE_S
        while not {event["id"] for event in wanted} <= {event["id"] for event in list(consumed)}:
            assert time.monotonic() < deadline, [len(wanted), len(once_each(list(consumed)))]
            world.passes(5)  # leases of members whose process was killed end
            time.sleep(0.2)
    finally:
        for each in writers + members:
            each.done.set()
        for each in writers + members:
            each.join(30)
    got = [event for event in once_each(consumed) if event["subject"] in ours]
    assert subject_order(got) == subject_order(wanted)
    for subject, ids in subject_order(wanted).items():
        seqs = [event["seq"] for event in wanted if event["subject"] == subject]
        assert seqs == list(range(1, len(seqs) + 1))
    for each in writers:  # what was acknowledged is there
        for user, version in each.version.items():
            assert len([event for event in wanted if event["subject"] == user]) >= version


def test_of_each_lock_that_ends_it_is_told_once_whoever_is_killed(world):
    for _ in range(ROUNDS):
        subjects, after = [new("locked") for _ in range(8)], newest(world)
        for n, subject in enumerate(subjects):
            status, answer = world.ask(n, "PUT", f"/v1/subjects/{subject}/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD", "duration": 20})
            assert status == 200, answer
        world.passes(21)
        with world.killing():  # also, sooner or later, whoever holds the lease
            pass
        deadline = time.monotonic() + PATIENCE_S

        def told():
            types = types_after(world, after)
            return [types.get(subject, []).count("lock.expired") for subject in subjects]

        while told() != [1] * len(subjects):
            assert time.monotonic() < deadline and max(told()) <= 1, (told(), world.logged())
            world.passes(LEASE_S / 2)
            time.sleep(0.3)
        world.passes(2 * LEASE_S)
        time.sleep(1)  # others look, too
        assert told() == [1] * len(subjects)


# ---- clocks ----


def is_locked(process, subject):
    status, answer, _ = process.send("POST", "/v1/attempts", attempt(subject, outcome="success"))
    assert status == 200, answer
    return answer["verdict"] == "locked"


def test_a_lock_ends_earlier_or_later_by_no_more_than_clocks_differ(world):
    """Whoever set it, it lasts for everybody until the same time of day; so by the clock that is behind it ends by so much later."""
    first, ahead = world.all[0], world.all[-1]
    for setter, lasts in ((first, 60), (ahead, 60 + AHEAD_S)):  # seconds by the first one's clock
        subject, began = new("clock"), time.monotonic()
        assert setter.send("PUT", f"/v1/subjects/{subject}/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD", "duration": 60})[0] == 200
        world.passes(lasts - AHEAD_S - 30)
        assert is_locked(first, subject) and is_locked(ahead, subject)
        world.passes(30 + 1)  # an end is rounded up to the second
        assert not is_locked(ahead, subject)
        assert is_locked(first, subject) or time.monotonic() - began > AHEAD_S - 1  # unless so much time has passed really
        world.passes(AHEAD_S)
        assert not is_locked(first, subject) and not is_locked(ahead, subject)
