"""Time, on a real server whose clock these tests move (../README.md): what it refuses when it starts, what a wall clock that somebody
sets changes while it runs (nothing), and what ends when time passes."""

import mmap
import os
import struct
import subprocess
import tempfile
import time
import uuid
from datetime import datetime

import boto3
import pytest

from conftest import program
from v1 import Server, attempt

pytestmark = pytest.mark.gatehouse_only
DAY_S = 86400
JUMP_DAYS = 30          # --clock-jump-max-days
LIMIT, LOCK_S = 6, 900  # of the shipped policy for passwords
TOKEN_LIFE_S = 600
LAPSE_S = 30
WAIT_S = 30


class Clock:
    """What a server's clocks are ahead of the machine's."""

    def __init__(self):
        fd, self.path = tempfile.mkstemp(prefix="gatehouse-clock-")
        os.write(fd, b"gatehouse-clock\n" + bytes(16))
        self.text = mmap.mmap(fd, 32)
        os.close(fd)

    def add(self, at, seconds):
        struct.pack_into("=q", self.text, at, struct.unpack_from("=q", self.text, at)[0] + round(seconds * 1e6))

    def passes(self, seconds):
        self.add(16, seconds)

    def is_set(self, seconds):
        """Somebody sets the wall clock. No time passes."""
        self.add(24, seconds)


class Moved(Server):
    def __init__(self, *words, data=None):
        self.clock = Clock()
        super().__init__(*words, data=data)

    def start(self, *words):
        kept = self.words
        os.environ["GATEHOUSE_TEST_CLOCK"] = self.clock.path
        try:
            self.words = (*kept, *words)
            super().start()
        finally:
            del os.environ["GATEHOUSE_TEST_CLOCK"]
            self.words = kept
        self.ddb = boto3.client("dynamodb", endpoint_url=self.endpoint)

    def stop(self):
        self.v1.close()
        self.process.terminate()
        assert self.process.wait(30) == 0
        self.process.stdout.close()

    def refusal(self):
        """What it says instead of starting."""
        done = subprocess.run([program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth"], timeout=30,
                              env={**os.environ, "GATEHOUSE_TEST_CLOCK": self.clock.path}, capture_output=True, text=True)
        assert done.returncode != 0
        return done.stderr

    def check(self, subject):
        reply = self.v1.post("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
        assert reply.status == 200, reply.body
        return reply.json()["actions"]["PASSWORD_ENTRY"]

    def now(self):
        """The time that this server goes by: an attempt begun now lapses so many seconds later."""
        reply = self.v1.post("/v1/attempts/begin", {"subject": uuid.uuid4().hex, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
        return seconds(reply.json()["lapses_at"]) - LAPSE_S

    def table(self, ttl=None):
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.ddb.create_table(TableName=name, BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                              AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
        if ttl:
            self.ddb.update_time_to_live(TableName=name, TimeToLiveSpecification={"AttributeName": ttl, "Enabled": True})
        return name

    def close(self):
        super().close()
        os.unlink(self.clock.path)


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def until(done):
    end = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def server():
    own = Moved()
    yield own
    own.close()


@pytest.fixture
def subject():
    return uuid.uuid4().hex


# ---- the clock that tests move ----


def test_a_clock_that_tests_move_is_refused_where_others_can_reach_the_server():
    clock = Clock()
    with tempfile.TemporaryDirectory() as data:
        done = subprocess.run([program(), "serve", "--listen", "0.0.0.0:0", "--plain-http", "--data", f"{data}/d"], timeout=30,
                              env={**os.environ, "GATEHOUSE_TEST_CLOCK": clock.path}, capture_output=True, text=True)
        assert done.returncode != 0 and "GATEHOUSE_TEST_CLOCK is set, which is for tests" in done.stderr
        assert not os.path.exists(f"{data}/d")
    os.unlink(clock.path)


@pytest.mark.parametrize("text", [b"", b"gatehouse-clock\n", b"another--clock!\n" + bytes(16), b"gatehouse-clock\n" + bytes(17)])
def test_a_file_that_is_no_clock_is_refused(tmp_path, text):
    path = tmp_path / "clock"
    path.write_bytes(text)
    done = subprocess.run([program(), "serve", "--listen", "127.0.0.1:0", "--no-auth", "--data", tmp_path / "d"], timeout=30,
                          env={**os.environ, "GATEHOUSE_TEST_CLOCK": str(path)}, capture_output=True, text=True)
    assert done.returncode != 0 and "not a clock" in done.stderr


def test_a_server_whose_clock_is_moved_says_so(server):
    assert b"its data is good for tests only" in server.logged()


# ---- starting ----


@pytest.mark.parametrize("days", [JUMP_DAYS + 1, -JUMP_DAYS - 1, 366, -366])
def test_a_clock_far_from_the_last_commit_is_refused_until_an_operator_accepts_it(server, subject, days):
    server.v1.record(subject)
    server.stop()
    server.clock.is_set(days * DAY_S)
    assert "start once with --accept-clock" in server.refusal()
    server.start("--accept-clock")
    assert abs(server.now() - time.time() - days * DAY_S) < 60
    server.stop()
    server.start()
    assert abs(server.now() - time.time() - days * DAY_S) < 60


@pytest.mark.parametrize("days", [JUMP_DAYS - 1, -JUMP_DAYS + 1])
def test_a_clock_that_is_not_so_far_off_is_taken(server, subject, days):
    server.v1.record(subject)
    server.stop()
    server.clock.is_set(days * DAY_S)
    server.start()
    assert server.check(subject)["verdict"] == "allow"


def test_an_accepted_clock_is_committed_before_the_server_answers(server, subject):
    """So that one that is killed at once, with nothing written, need not be told again."""
    server.v1.record(subject)
    server.stop()
    server.clock.is_set(400 * DAY_S)
    server.start("--accept-clock")
    server.kill()
    server.start()
    assert abs(server.now() - time.time() - 400 * DAY_S) < 60


def test_what_seems_expired_by_an_accepted_clock_is_there_again_when_the_clock_is_set_right(server):
    """The hour without sweeping: the operator was wrong, and finds out in time."""
    table = server.table(ttl="ends")
    server.ddb.put_item(TableName=table, Item={"pk": {"S": "a"}, "ends": {"N": str(int(time.time()) + 10 * DAY_S)}})
    server.stop()
    server.clock.is_set(366 * DAY_S)
    server.start("--accept-clock")
    assert "Item" not in server.ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})
    server.stop()
    server.clock.is_set(-366 * DAY_S)
    server.start("--accept-clock")
    assert "Item" in server.ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})


# ---- a wall clock that somebody sets while it runs ----


STEPS = [366 * DAY_S, -366 * DAY_S, 3600, -3600]


@pytest.mark.parametrize("step", STEPS)
def test_a_wall_clock_that_is_set_neither_ends_a_lock_nor_makes_it_longer(server, subject, step):
    server.v1.record(subject, times=LIMIT)
    before = seconds(server.check(subject)["until"])
    server.clock.is_set(step)
    answer = server.check(subject)
    assert answer["verdict"] == "locked" and seconds(answer["until"]) == before
    server.clock.passes(LOCK_S - 60)
    assert server.check(subject)["verdict"] == "locked"
    server.clock.passes(61)
    assert server.check(subject)["verdict"] == "allow"


@pytest.mark.parametrize("step", STEPS)
def test_a_lock_set_after_the_wall_clock_was_set_lasts_as_long_as_any(server, subject, step):
    server.clock.is_set(step)
    server.v1.record(subject, times=LIMIT)
    assert server.check(subject)["verdict"] == "locked"
    server.clock.passes(LOCK_S + 1)
    assert server.check(subject)["verdict"] == "allow"


def told(server, *subjects):
    """What was told of locks, in order: (type, subject, until)."""
    page = server.v1.send("GET", "/v1/events?types=lock.*&from=first&limit=100").json()
    return [(e["type"], e["subject"], e["data"]["until"]) for e in page["events"] if e["subject"] in subjects]


@pytest.mark.parametrize("step", STEPS)
def test_a_wall_clock_that_is_set_while_locks_are_due_neither_tells_early_nor_late_nor_twice(server, step):
    one, other = uuid.uuid4().hex, uuid.uuid4().hex
    server.v1.record(one, times=LIMIT)
    server.clock.is_set(step)
    server.clock.passes(2)
    server.v1.record(other, times=LIMIT)
    server.clock.passes(LOCK_S - 60)
    server.clock.is_set(-2 * step)
    assert [type for type, _, _ in told(server, one, other)] == ["lock.set"] * 2
    server.clock.passes(61)
    until(lambda: len(told(server, one, other)) == 4)
    lines = told(server, one, other)
    assert [(type, who) for type, who, _ in lines[2:]] == [("lock.expired", one), ("lock.expired", other)]
    assert [at for _, _, at in lines[2:]] == [at for _, _, at in lines[:2]]
    server.clock.is_set(step)
    server.stop()
    server.start()  # what was told is not told again
    server.v1.record(one, times=LIMIT)
    server.clock.passes(2 * LOCK_S + 1)  # the second lock is twice as long
    until(lambda: len(told(server, one, other)) == 6)
    assert [type for type, _, _ in told(server, one)] == ["lock.set", "lock.expired"] * 2


@pytest.mark.parametrize("step", STEPS)
def test_a_wall_clock_that_is_set_expires_no_item_and_keeps_none(server, step):
    table = server.table(ttl="ends")
    server.ddb.put_item(TableName=table, Item={"pk": {"S": "a"}, "ends": {"N": str(int(time.time()) + 100)}})
    server.clock.is_set(step)
    assert "Item" in server.ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})
    server.clock.passes(101)
    assert "Item" not in server.ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})


def test_time_never_goes_back_whatever_the_wall_clock_does(server):
    seen = [server.now()]
    for step in (3600, -7200, 366 * DAY_S, -800 * DAY_S):
        server.clock.is_set(step)
        seen.append(server.now())
    assert seen == sorted(seen) and seen[-1] - seen[0] < 60


def test_a_restart_after_the_wall_clock_was_set_back_does_not_turn_time_back(server, subject):
    server.v1.record(subject, times=LIMIT)
    before, now = seconds(server.check(subject)["until"]), server.now()
    server.stop()
    server.clock.is_set(-10 * DAY_S)
    server.start()
    assert server.now() >= now
    answer = server.check(subject)
    assert answer["verdict"] == "locked" and seconds(answer["until"]) == before
    server.clock.passes(LOCK_S + 1)
    assert server.check(subject)["verdict"] == "allow"


def test_a_wall_clock_that_is_off_shows_in_the_metrics(server):
    def ahead():
        text = server.v1.send("GET", "/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("gatehouse_clock_ahead_seconds "))

    assert abs(ahead()) < 5
    server.clock.is_set(3600)
    assert abs(ahead() - 3600) < 5
    server.clock.is_set(-7200)
    assert abs(ahead() + 3600) < 5


@pytest.mark.parametrize("step", [3600, -3600])
@pytest.mark.parametrize("engine", ["memory", "table"])
def test_a_limit_stays_right_when_the_wall_clock_is_set(tmp_path, engine, step):
    """An hour back once refused for an hour."""
    policies = tmp_path / "policies.yaml"
    policies.write_text(f"limits:\n  two: {{limit: 2, per: hour, engine: {engine}}}\n")
    server = Moved("--policies", str(policies))
    try:
        ask = lambda: server.v1.post("/v1/allow", {"policy": "two", "key": "k"}).json()["allowed"]
        assert [ask(), ask(), ask()] == [True, True, False]
        server.clock.is_set(step)
        assert ask() is False
        server.clock.passes(3600)
        assert [ask(), ask(), ask()] == [True, True, False]
    finally:
        server.close()


# ---- time passes ----


def test_an_expired_item_is_absent_at_once_and_not_counted_two_hours_later(server):
    table = server.table(ttl="ends")
    for i in range(5):
        ends = int(time.time()) + (60 if i < 2 else DAY_S)
        server.ddb.put_item(TableName=table, Item={"pk": {"S": f"{i}"}, "ends": {"N": f"{ends}"}})
    server.clock.passes(61)
    assert sorted(item["pk"]["S"] for item in server.ddb.scan(TableName=table)["Items"]) == ["2", "3", "4"]
    server.clock.passes(2 * 3600)
    until(lambda: server.ddb.describe_table(TableName=table)["Table"]["ItemCount"] == 3)


def test_an_answer_is_replayed_for_a_day_and_afterwards_the_attempt_counts_again(server, subject):
    first = server.v1.attempts(attempt(subject), idempotency_key="k")
    assert "idempotency-replayed" not in first.headers
    server.clock.passes(DAY_S - 60)
    assert server.v1.attempts(attempt(subject), idempotency_key="k").headers["idempotency-replayed"] == "true"
    server.clock.passes(61)
    again = server.v1.attempts(attempt(subject), idempotency_key="k")
    assert again.status == 200 and "idempotency-replayed" not in again.headers


def test_the_token_of_a_transaction_is_remembered_for_ten_minutes(server):
    table = server.table()
    add = {"Update": {"TableName": table, "Key": {"pk": {"S": "a"}}, "UpdateExpression": "ADD n :one",
                      "ExpressionAttributeValues": {":one": {"N": "1"}}}}

    def number():
        server.ddb.transact_write_items(TransactItems=[add], ClientRequestToken="token")
        return server.ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})["Item"]["n"]["N"]

    assert number() == "1"
    server.clock.passes(TOKEN_LIFE_S - 30)
    assert number() == "1"
    server.clock.passes(31)
    assert number() == "2"


def test_an_attempt_that_is_not_finished_in_time_stays_a_failure(server, subject):
    reply = server.v1.post("/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}).json()
    server.clock.passes(LAPSE_S + 1)
    late = server.v1.post("/v1/attempts/finish", {"attempt": reply["attempt"], "outcome": "success"})
    assert late.json()["verdict"] == "lapsed" and late.json()["counted"] is True, late.body
    assert server.v1.record(subject)["counts"]["PASSWORD_ENTRY"]["count"] == 2


def test_a_device_is_forgotten_when_its_time_is_over(server, subject):
    reply = server.v1.attempts(attempt(subject, "MFA_CODE_ENTRY", outcome="success", method_id="phone-1")).json()
    device = server.v1.send("GET", f"/v1/subjects/{subject}/known-devices").json()["devices"][0]
    assert server.v1.record(subject, context={"device_token": reply["device_token"]})["known_device"] is True
    server.clock.passes(400 * DAY_S)
    assert server.v1.record(subject, context={"device_token": reply["device_token"]})["known_device"] is False, device
    assert server.v1.send("GET", f"/v1/subjects/{subject}/known-devices").json()["devices"] == []
