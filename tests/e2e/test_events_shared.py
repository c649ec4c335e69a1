"""Events of several processes that share their tables at a DynamoDB endpoint (dynoxide), on one clock that these tests move: they take turns at targets,
at trimming and at telling of locks that expire. Whoever is killed, each lock.expired comes once, each event is delivered in order, and nothing is lost.
With one shard of the log, and with four; test_event_shards.py has what is about shards alone.

GATEHOUSE_SHARED_KILLS says how often a process is killed (2 unless set)."""

import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import line_with_endpoint, stop
from test_clock import Clock
from test_engine_dynamodb import call, command, dynoxide, environment  # noqa: F401
from test_events import Stream
from webhooks import Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
KILLS = int(os.environ.get("GATEHOUSE_SHARED_KILLS", 2))
LOCK_S, KEEP_S = 900, 7200
STALE_S = 1.5  # for less than a second a process may send what another has erased
LIFE_S = 90 * 86400  # of the registration of a device
OWNED_S = 20  # after which another process takes over from one that was killed
POLICIES = f"""
attempts: {{locks: {{STANDARD: {{duration: {LOCK_S}}}}}, journeys: {{SIGN_IN: {{types: {{PASSWORD_ENTRY: {{max: 2, life: 7200}}}}}}}}}}
events: {{keep: {KEEP_S}}}
"""


class One:
    """A process. What it was asked while it was killed counts as not asked."""

    def __init__(self, all_of_them, number):
        self.all, self.data = all_of_them, all_of_them.folder + f"/{number}"
        os.mkdir(self.data)
        if number > 0:  # one key for all, as docs/scaling.md says
            shutil.copy(all_of_them.folder + "/0/identifiers.key", self.data)
        self.start()

    def start(self):
        options = ("--table-prefix", self.all.prefix, "--private-targets", "--policies", self.all.folder + "/policies.yaml", *self.all.options)
        self.process = subprocess.Popen(command(self.data, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        env=environment(self.all.url, GATEHOUSE_TEST_CLOCK=self.all.clock.path))
        self.base = line_with_endpoint(self.process)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def ask(self, path, body=None, method=None):
        return call(self.base, path, body, method)

    def ok(self, path, body=None, method=None):
        status, answer = self.ask(path, body, method)
        assert status in (200, 201, 202), (status, answer)
        return answer


class Processes:
    def __init__(self, url, prefix, count, *options):
        self.url, self.prefix, self.clock, self.options = url, prefix, Clock(), options
        self.folder = tempfile.mkdtemp(prefix="gatehouse-shared-")
        with open(self.folder + "/policies.yaml", "w") as file:
            file.write(POLICIES)
        self.list = []
        for number in range(count):
            self.list.append(One(self, number))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in self.list:
            stop(each.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def whole_log(one):
    after, events = "from=first", []
    while True:
        page = one.ok(f"/v1/events?limit=500&{after}")
        events += page["events"]
        after = f"after={page['after']}"
        if not page["more"]:
            return events


class Writer(threading.Thread):
    """Has things happen at any of the processes, also while one is killed. What was acknowledged is remembered."""

    def __init__(self, processes, seed):
        super().__init__(daemon=True)
        self.processes, self.random, self.seed, self.over = processes, random.Random(seed), seed, threading.Event()
        self.users, self.locked, self.wrong = set(), set(), []

    def ask(self, path, body=None):
        try:
            status, answer = self.random.choice(self.processes.list).ask(path, body, "POST")
        except (OSError, ValueError):
            return None
        unknown = status == 500 and answer["type"].endswith(":outcome-unknown")  # the endpoint, on a busy machine, was too late
        if status >= 400 and status not in (404, 409, 503) and not unknown:
            self.wrong.append((status, answer))
        return answer if status < 300 else None

    def run(self):
        number = 0
        while not self.over.is_set():
            number += 1
            user = f"u{self.seed}-{number}"
            if self.ask("/v1/users", {"id": user}):
                self.users.add(user)
            self.ask(f"/v1/users/{user}/suspend")
            for _ in range(2):
                answer = self.ask("/v1/attempts", {"subject": f"s{self.seed}-{number}", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"})
                if answer and answer["verdict"] == "locked":
                    self.locked.add(f"s{self.seed}-{number}")


def by_shard(events, shards):
    """Those of each shard, in their order."""
    return [[event for event in events if event.get("shard", 0) == shard] for shard in range(shards)]


def of_type(events, name):
    return [event["subject"] for event in events if event["type"] == name]


@pytest.mark.parametrize("shards", [1, 4])
def test_processes_share_targets_lock_expiry_and_trimming_and_lose_nothing_when_one_is_killed(dynoxide, shards):  # noqa: F811
    sink = Sink()
    with Processes(dynoxide, f"events-shared-{shards}-", 2, "--event-shards", str(shards)) as both:
        one, other = both.list
        one.ok("/v1/targets/hook", {"type": "webhook", "url": sink.url, "from": "first"}, "PUT")
        writers = [Writer(both, seed) for seed in range(3)]
        for each in writers:
            each.start()
        for round_ in range(KILLS):
            before = len(sink.events())
            wait_for(lambda: len(sink.events()) >= before + 15)
            victim = both.list[round_ % 2]
            victim.kill()
            both.clock.passes(OWNED_S)  # the other one takes over
            before = len(sink.events())
            wait_for(lambda: len(sink.events()) >= before + 15)
            victim.start()
        for each in writers:
            each.over.set()
        for each in writers:
            each.join()
            assert not each.wrong, each.wrong[:3]
        # Locks expire while one process holds the lease; then it is killed, and the others are told by the one that is left.
        locked = set().union(*(each.locked for each in writers))
        assert len(locked) >= 5
        both.clock.passes(LOCK_S / 2)
        late = [f"late-{n}" for n in range(10)]
        for n, subject in enumerate(late):
            for _ in range(2):
                both.list[n % 2].ok("/v1/attempts", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"})
        both.clock.passes(LOCK_S / 2 + 1)
        wait_for(lambda: locked <= set(of_type(whole_log(other), "lock.expired")))
        one.kill()
        both.clock.passes(LOCK_S / 2 + OWNED_S)
        wait_for(lambda: set(late) <= set(of_type(whole_log(other), "lock.expired")))
        log = whole_log(other)
        sets, ends = of_type(log, "lock.set"), of_type(log, "lock.expired")
        assert sorted(sets) == sorted(ends) and len(set(ends)) == len(ends)  # each once
        assert locked | set(late) <= set(ends)
        assert set().union(*(each.users for each in writers)) <= set(of_type(log, "user.created"))
        for events in by_shard(log, shards):
            told = [event["data"]["until"] for event in events if event["type"] == "lock.expired"]
            assert told and told == sorted(told)
            assert [event["position"] for event in events] == list(range(1, len(events) + 1))
        # All of it was delivered, in order.
        wait_for(lambda: len(sink.events()) >= len(log))
        assert {event["id"] for event in sink.events()} == {event["id"] for event in log}
        assert_in_order(sink.events())
        # It is trimmed by one of them, and both know.
        one.start()
        both.clock.passes(KEEP_S + 60)
        one.ok("/v1/users", {"id": "the-last"})
        sink.wait_for(1, subject="the-last")
        wait_for(lambda: [event["subject"] for event in other.ok("/v1/events?from=first&limit=10")["events"]] == ["the-last"])  # never 410
        ends = "-".join(str(len(events)) for events in by_shard(log, shards))
        for each in both.list:
            behind = "/v1/events?after=" + "-".join(["1"] * shards)
            wait_for(lambda: each.ask(behind)[1].get("after") == ends)  # noqa: B023: the last step of another shard may be under way
            assert each.ask(behind)[0] == 410
            assert [event["subject"] for event in each.ok(f"/v1/events?after={ends}")["events"]] == ["the-last"]
    sink.close()


def test_a_target_is_moved_by_a_process_that_does_not_send_and_its_tries_are_told_by_any(dynoxide):  # noqa: F811
    sink = Sink()
    with Processes(dynoxide, "events-seek-", 2) as both:
        one, other = both.list
        one.ok("/v1/targets/hook", {"type": "webhook", "url": sink.url, "types": ["user.created"]}, "PUT")
        for number in range(4):
            one.ok("/v1/users", {"id": f"moved-{number}"})
        sink.wait_for(4)
        for each in both.list:  # whichever sends
            before = len(sink.taken)
            moved = wait_for(lambda: (now := each.ok("/v1/targets/hook"))["lagEvents"] == 0 and each.ok("/v1/targets/hook/seek", {"from": "first"}, "POST"))
            assert moved["redelivers"] >= 4 and moved["skips"] == 0
            wait_for(lambda: len(sink.taken) >= before + 4)
        taken = len(sink.taken)
        other.ok("/v1/targets/hook/disable", None, "POST")  # what is known is written down first
        told = wait_for(lambda: len(list_ := one.ok("/v1/targets/hook/tries")["tries"]) == 12 and list_)
        assert {try_["status"] for try_ in told} == {204} and other.ok("/v1/targets/hook/tries")["tries"] == told
        for number in range(3):
            one.ok("/v1/users", {"id": f"skipped-{number}"})
        assert other.ok("/v1/targets/hook/seek", {"from": "last"}, "POST")["skips"] >= 3
        one.ok("/v1/targets/hook/enable", None, "POST")
        one.ok("/v1/users", {"id": "the-last"})
        sink.wait_for(1, subject="the-last")
        assert [seen["event"]["subject"] for seen in sink.taken[taken:]] == ["the-last"]
    sink.close()


def test_a_registration_that_lapses_is_published_once_whichever_process_is_left(dynoxide):  # noqa: F811
    with Processes(dynoxide, "events-lapse-", 2) as both:
        one, other = both.list
        for number in range(6):
            both.list[number % 2].ok(f"/v1/users/u-{number}/devices/phone", {"platform": "ios", "expoPushToken": f"ExponentPushToken[lapse{number}]"}, "PUT")
        both.clock.passes(LIFE_S / 2)
        one.ok("/v1/users/u-5/devices/phone", {"platform": "ios", "expoPushToken": "ExponentPushToken[lapse5]"}, "PUT")
        one.kill()
        both.clock.passes(LIFE_S / 2 + OWNED_S)
        wait_for(lambda: len(of_type(whole_log(other), "device.expired")) >= 5)
        one.start()
        assert sorted(of_type(whole_log(one), "device.expired")) == [f"u-{number}" for number in range(5)]
        other.ok("/v1/users/u-0/devices/phone", {"platform": "ios", "expoPushToken": "ExponentPushToken[lapse0]"}, "PUT")
        both.clock.passes(LIFE_S / 2)  # both look, and u-5 goes once; what is older was trimmed
        wait_for(lambda: "u-5" in of_type(whole_log(other), "device.expired"))
        assert of_type(whole_log(one), "device.expired").count("u-5") == 1


def erased(one, user):
    job = one.ok(f"/v1/users/{user}/erase", None, "POST")
    wait_for(lambda: one.ok(f"/v1/jobs/{job['id']}")["state"] == "done")


def test_what_one_process_erased_is_neither_delivered_nor_answered_by_another(dynoxide):  # noqa: F811
    well, user = threading.Event(), "zoe-who-leaves"
    sink = Sink(answer=lambda event: 204 if well.is_set() else 503)
    with Processes(dynoxide, "events-erase-", 1, "--event-shards", "1") as both:
        first = both.list[0]
        first.ok("/v1/targets/hook", {"type": "webhook", "url": sink.url, "from": "first"}, "PUT")
        stream = Stream(first.base)  # so that the process keeps its newest events in memory
        first.ok("/v1/users", {"id": user, "firstName": "Zoe"})
        wait_for(lambda: sink.tries)  # the target does not take it, and it waits in memory, too
        assert stream.events(1)[0]["subject"] == user
        assert [event["subject"] for event in first.ok("/v1/events?after=0")["events"]] == [user]
        first.process.send_signal(signal.SIGSTOP)  # whoever takes on the job, it is not this one
        second = One(both, 1)
        both.list.append(second)
        try:
            erased(second, user)
        finally:
            first.process.send_signal(signal.SIGCONT)
        done = time.monotonic()
        now = first.ok("/v1/events?after=0")["events"]
        assert [event["type"] for event in now if event["subject"] == user] == ["user.erased"] and now[0]["erased"], now
        stream.close()
        wait_for(lambda: time.monotonic() > done + STALE_S)
        well.set()
        both.clock.passes(OWNED_S)  # whoever has the target; and pauses end
        sink.wait_for(1, type="user.erased", subject=user)
        late = wait_for(lambda: next((seen for seen in sink.taken if seen["event"]["type"] == "user.created"), None))  # of another subject now
        assert late["event"]["erased"] and "Zoe" not in late["body"] and user not in late["body"], late
        assert [event["type"] for event in sink.events(subject=user)] == ["user.erased"]
    sink.close()
