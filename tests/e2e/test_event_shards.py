"""A log of events with several shards (--event-shards): two processes that share it at a DynamoDB endpoint, one of which is killed; readers of every kind
that miss nothing and keep the order of each subject; a process with another number; a log that moves to the embedded engine and back.

test_events_shared.py has targets, lock expiry and trimming of four shards through kills."""

import os
import shutil
import signal
import subprocess
import threading
import time

import boto3
import pytest

from conftest import line_with_endpoint, program, stop
from test_engine_dynamodb import PATIENCE_S, attempt, call, dynoxide, environment, gatehouse, give_key  # noqa: F401
from test_endpoint_start import WORLD, refusal
from test_events import Stream
from test_events_shared import Processes, Writer, by_shard, whole_log
from webhooks import Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
SHARDS = 4
SET = ("--event-shards", str(SHARDS))


def positions(cursor):
    return [int(part) for part in cursor.split("-")]


def rows(url, prefix):
    ddb = boto3.client("dynamodb", endpoint_url=url, region_name="eu-west-1")
    pages = ddb.get_paginator("scan").paginate(TableName=prefix + "gatehouse-events", ConsistentRead=True)
    return {(row["PK"]["S"], row["SK"]["S"]): row for page in pages for row in page["Items"]}


class Member(threading.Thread):
    """Of the consumer `c`: polls, works, acknowledges. What it has dealt with, in its order, and with the member that did so."""

    def __init__(self, base, name, done):
        super().__init__(daemon=True)
        self.base, self.name, self.done, self.over = base, name, done, threading.Event()

    def call(self, what, body):
        status, answer = call(self.base, f"/v1/consumers/c/{what}", {"member": self.name, **body})
        return answer if status == 200 else None

    def run(self):
        while not self.over.is_set():
            try:
                page = self.call("poll", {"wait": 1, "lease": 4, "limit": 50})
                if page is not None:
                    self.done += page["events"]
                    self.call("ack", {"generation": page["generation"], "after": page["after"]})
            except (OSError, ValueError):  # its process was killed
                time.sleep(0.05)


class Follower(threading.Thread):
    """Of the stream: comes back with Last-Event-ID, to whichever process is there."""

    def __init__(self, bases):
        super().__init__(daemon=True)
        self.bases, self.events, self.ids, self.came, self.over = bases, [], [], 0, threading.Event()

    def run(self):
        last = "-".join(["0"] * SHARDS)
        while not self.over.is_set():
            try:
                stream = Stream(self.bases[self.came % 2](), **{"Last-Event-ID": last})
                self.came += 1
                ids = []
                self.ids.append(ids)
                while not self.over.is_set():
                    self.events += stream.events(1)
                    last = stream.id
                    ids.append(last)
            except (OSError, ValueError, TypeError, AttributeError):
                time.sleep(0.05)


def once_each(events):
    """Without what came again."""
    seen = {}
    for event in events:
        seen.setdefault(event["id"], event)
    return list(seen.values())


def assert_whole(log):
    """No gap in any shard, nor in the numbers of any subject; and more than one shard is in use."""
    for events in by_shard(log, SHARDS):
        assert events and [event["position"] for event in events] == list(range(1, len(events) + 1))
    assert_in_order(log)
    shards = {}
    for event in log:
        assert shards.setdefault(event["subject"], event.get("shard", 0)) == event.get("shard", 0)


def test_every_reader_gets_all_of_four_shards_in_order_though_a_process_is_killed(dynoxide):  # noqa: F811
    sink, done = Sink(), []
    with Processes(dynoxide, "shards-", 2, *SET) as both:
        one, other = both.list
        one.ok("/v1/consumers/c", {"from": "first"}, "PUT")
        one.ok("/v1/targets/hook", {"type": "webhook", "url": sink.url, "from": "first"}, "PUT")
        readers = [Member(one.base, "m1", done), Member(other.base, "m2", done), Follower([lambda: one.base, lambda: other.base])]
        writers = [Writer(both, seed) for seed in range(4)]
        for each in readers + writers:
            each.start()
        wait_for(lambda: len(sink.events()) >= 40 and len(done) >= 40)
        one.process.send_signal(signal.SIGKILL)
        one.kill()
        both.clock.passes(20)  # leases lapse
        before = len(sink.events())
        wait_for(lambda: len(sink.events()) >= before + 30)
        one.start()
        readers[0].base = one.base
        before = len(once_each(done))
        wait_for(lambda: len(once_each(done)) >= before + 30)
        for each in writers:
            each.over.set()
        for each in writers:
            each.join()
            assert not each.wrong, each.wrong[:3]
        log = whole_log(other)
        assert_whole(log)
        users = set().union(*(each.users for each in writers))
        assert users <= {event["subject"] for event in log if event["type"] == "user.created"}
        # Each reader has all of it, in order.
        follower = readers[2]
        both.clock.passes(20)
        for seen in (lambda: done, sink.events, lambda: follower.events):
            wait_for(lambda: len(once_each(seen())) >= len(log))
            assert {event["id"] for event in once_each(seen())} == {event["id"] for event in log}
            assert_in_order(once_each(seen()))
        for ids in follower.ids:  # of one stream they never go back, in any shard
            for before, after in zip(ids, ids[1:]):
                assert all(a <= b for a, b in zip(positions(before), positions(after))), (before, after)
        # How far they are.
        ends = "-".join(str(len(events)) for events in by_shard(log, SHARDS))
        wait_for(lambda: one.ok("/v1/consumers/c")["after"] == ends)
        assert one.ok("/v1/consumers/c")["lag"] == {"events": 0, "seconds": 0}
        wait_for(lambda: one.ok("/v1/targets/hook")["position"] == ends)
        assert one.ok("/v1/targets/hook")["lagEvents"] == 0
        for each in readers:
            each.over.set()
        # Pages: from a cursor, of a subject, of a type, of a time; and one that waits.
        subject = log[-1]["subject"]
        assert [e["id"] for e in other.ok(f"/v1/events?subject={subject}")["events"]] == [e["id"] for e in log if e["subject"] == subject]
        assert {e["type"] for e in other.ok("/v1/events?types=lock.*")["events"]} <= {"lock.set", "lock.expired", "lock.cleared"}
        assert other.ok(f"/v1/events?after={ends}")["events"] == []
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(other.ok(f"/v1/events?after={ends}&wait=30")))
        thread.start()
        one.ok("/v1/users", {"id": "at-last"})
        thread.join(PATIENCE_S)
        assert [event["subject"] for event in waiting[0]["events"]] == ["at-last"]
        for member in readers[:2]:  # one that still polls would take what the move brings back
            member.join()
        one.ok("/v1/consumers/c/seek", {"from": "first"}, "POST")
        assert one.ok("/v1/consumers/c")["lag"]["events"] == len(log) + 1
        both.clock.passes(10)  # their leases lapse
        replay = other.ok("/v1/consumers/c/poll", {"member": "m3", "limit": 1000, "lease": 10})["events"]
        assert 0 < len(replay) <= len(log) + 1 and {event["seq"] for event in replay if event["subject"] == log[0]["subject"]} >= {1}
    sink.close()


def test_a_subject_that_is_erased_is_in_no_shard_and_letters_of_all_shards_are_redriven(dynoxide):  # noqa: F811
    well = threading.Event()
    sink = Sink(answer=lambda event: 204 if well.is_set() or event["subject"].startswith("good") else 400)
    people = [f"person-{n}" for n in range(8)]
    with Processes(dynoxide, "letters-", 1, *SET) as processes:
        (one,) = processes.list
        one.ok("/v1/targets/hook", {"type": "webhook", "url": sink.url, "from": "first", "tries": 1}, "PUT")
        for person in people:  # a target that takes nothing at all would be to blame itself
            one.ok("/v1/users", {"id": f"good-{person}"})
            one.ok("/v1/users", {"id": person})
        letters = wait_for(lambda: len(found := one.ok("/v1/dead-letters?target=hook")["deadLetters"]) == len(people) and found)
        assert len({letter["id"].split("-")[0] for letter in letters}) > 1  # of several shards
        job = one.ok(f"/v1/users/{people[0]}/erase", None, "POST")
        wait_for(lambda: one.ok(f"/v1/jobs/{job['id']}")["state"] == "done")
        log = whole_log(one)
        assert [event["type"] for event in log if event["subject"] == people[0]] == ["user.erased"]
        well.set()
        one.ok("/v1/dead-letters/redrive", {"target": "hook"}, "POST")
        wait_for(lambda: one.ok("/v1/targets/hook")["deadLetters"] == 0 and one.ok("/v1/targets/hook")["waiting"] == 0)
        assert {event["subject"] for event in sink.events(type="user.created")} >= set(people[1:])
    sink.close()


def test_a_process_with_another_number_is_refused_and_one_without_a_number_takes_what_is_there(dynoxide, tmp_path):  # noqa: F811
    prefix = ("--table-prefix", "number-")
    with gatehouse(dynoxide, *prefix, *SET, data=str(tmp_path / "a")) as first:
        for wrong in ("1", "8"):
            give_key(tmp_path / wrong)
            status, said = refusal(dynoxide, *prefix, "--event-shards", wrong, "--data", str(tmp_path / wrong))
            assert status == WORLD, said
            assert f'the log of events in the table "number-gatehouse-events" has 4 shards, not {wrong}' in said
            assert "Set --event-shards 4, or leave it out" in said
        with gatehouse(dynoxide, *prefix, data=str(tmp_path / "b")) as second:
            for n in range(12):
                assert call((first, second)[n % 2], "/v1/users", {"id": f"u{n}"})[0] == 201
            assert len(positions(call(second, "/v1/events")[1]["after"])) == SHARDS
    found = rows(dynoxide, "number-")
    assert found["HEAD", "SHARDS"]["logShards"] == {"N": "4"} and ("HEAD", "LOG#0") not in found
    heads = {key: row for key, row in found.items() if key[0].startswith("HEAD#")}
    assert len(heads) > 1 and sum(int(row["position"]["N"]) for row in heads.values()) == 12


def test_a_log_that_was_begun_with_one_shard_keeps_it(dynoxide, tmp_path):  # noqa: F811
    prefix = ("--table-prefix", "grown-")
    with gatehouse(dynoxide, *prefix, "--event-shards", "1", data=str(tmp_path / "a")) as base:
        assert call(base, "/v1/users", {"id": "ann"})[0] == 201
    ddb = boto3.client("dynamodb", endpoint_url=dynoxide, region_name="eu-west-1")
    ddb.delete_item(TableName="grown-gatehouse-events", Key={"PK": {"S": "HEAD"}, "SK": {"S": "SHARDS"}})  # as an older program leaves it
    status, said = refusal(dynoxide, *prefix, *SET, "--data", str(tmp_path / "a"))
    assert status == WORLD and "has 1 shard, not 4" in said, said
    for options in (("--event-shards", "1"), ()):
        with gatehouse(dynoxide, *prefix, *options, data=str(tmp_path / "a")) as base:
            assert call(base, "/v1/events")[1]["after"] == "1"


def test_a_new_log_at_an_endpoint_has_16_shards(dynoxide, tmp_path):  # noqa: F811
    with gatehouse(dynoxide, "--table-prefix", "new-", data=str(tmp_path / "a")) as base:
        for n in range(12):
            assert call(base, "/v1/users", {"id": f"u{n}"})[0] == 201
        after = positions(call(base, "/v1/events")[1]["after"])
        assert len(after) == 16 and sum(after) == 12
    assert rows(dynoxide, "new-")["HEAD", "SHARDS"]["logShards"] == {"N": "16"}


def test_a_log_of_one_machine_keeps_its_shard_also_where_a_server_was_started_before_the_import(dynoxide, tmp_path):  # noqa: F811
    process, base = embedded(tmp_path / "home")
    try:
        assert call(base, "/v1/users", {"id": "ann"})[0] == 201
        transfer("export", "--endpoint", base, "--data", tmp_path / "home", "--to", tmp_path / "moved")
    finally:
        stop(process)
    transfer("import", "--from", tmp_path / "moved", "--data", tmp_path / "a", "--keys-only")
    with gatehouse(dynoxide, "--table-prefix", "late-", data=str(tmp_path / "a")):
        pass  # it has begun a log of 16 shards
    done = transfer("import", "--endpoint", dynoxide, "--region", "eu-west-1", "--table-prefix", "late-", "--from", tmp_path / "moved")
    assert "The log of events keeps its one shard" in done.stdout, done.stdout
    with gatehouse(dynoxide, "--table-prefix", "late-", data=str(tmp_path / "a")) as base:
        assert call(base, "/v1/users", {"id": "bob"})[0] == 201
        assert call(base, "/v1/events")[1]["after"] == "2"


def test_the_embedded_engine_refuses_the_setting(tmp_path):
    for options in ((), ("--check-config",)):
        done = subprocess.run([program(), "serve", "--data", str(tmp_path / "data"), *SET, *options], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and "one shard" in done.stderr and "Leave the setting out" in done.stderr, done.stderr
    assert not (tmp_path / "data").exists()


def embedded(data):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--no-auth"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, line_with_endpoint(process)


def transfer(*arguments):
    done = subprocess.run([program(), *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S, env={**os.environ, "AWS_REGION": "local"})
    assert done.returncode == 0, done.stderr
    return done


def test_a_log_of_four_shards_moves_to_the_embedded_engine_and_goes_on_there(dynoxide, tmp_path):  # noqa: F811
    with gatehouse(dynoxide, "--table-prefix", "moves-", *SET, data=str(tmp_path / "a")) as base:
        for n in range(10):
            assert call(base, "/v1/users", {"id": f"u{n}"})[0] == 201
        assert call(base, "/v1/consumers/c", {"from": "first"}, "PUT")[0] == 201
        cursor = call(base, "/v1/events")[1]["after"]
    transfer("export", "--endpoint", dynoxide, "--region", "eu-west-1", "--table-prefix", "moves-", "--data", tmp_path / "a", "--to", tmp_path / "moved")
    transfer("import", "--from", tmp_path / "moved", "--data", tmp_path / "home", "--keys-only")
    process, base = embedded(tmp_path / "home")
    try:
        transfer("import", "--endpoint", base, "--from", tmp_path / "moved")
    finally:
        stop(process)
    process, base = embedded(tmp_path / "home")
    try:
        assert call(base, "/v1/events")[1]["after"] == cursor
        for n in range(10):
            assert call(base, f"/v1/users/u{n}/suspend", None, "POST")[0] == 200
        status, page = call(base, "/v1/events?limit=100")
        assert status == 200 and len(page["events"]) == 20
        assert_in_order(page["events"])
        assert len(positions(page["after"])) == SHARDS and sum(positions(page["after"])) == 20
        status, polled = call(base, "/v1/consumers/c/poll", {"member": "m"})
        assert status == 200 and len(polled["events"]) == 20
        assert call(base, "/v1/consumers/c/ack", {"member": "m", "generation": polled["generation"], "after": polled["after"]})[0] == 200
        stream = Stream(base, **{"Last-Event-ID": cursor})
        assert_in_order(stream.events(10))
        stream.close()
    finally:
        stop(process)
    done = subprocess.run([program(), "serve", "--data", str(tmp_path / "home"), "--no-auth", "--listen", "127.0.0.1:0", "--event-shards", "1"],
                          capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == WORLD and "has 4 shards, not 1" in done.stderr, done.stderr


def test_a_place_where_a_server_has_started_and_written_nothing_takes_a_log_with_another_number(dynoxide, tmp_path):  # noqa: F811
    with gatehouse(dynoxide, "--table-prefix", "four-", *SET, data=str(tmp_path / "a")) as base:
        for n in range(10):
            assert call(base, "/v1/users", {"id": f"u{n}"})[0] == 201
        cursor = call(base, "/v1/events")[1]["after"]
    with gatehouse(dynoxide, "--table-prefix", "fresh-", data=str(tmp_path / "b")):
        pass
    place = ("--endpoint", dynoxide, "--region", "eu-west-1")
    transfer("export", *place, "--table-prefix", "four-", "--to", tmp_path / "moved")
    transfer("import", *place, "--table-prefix", "fresh-", "--from", tmp_path / "moved")
    with gatehouse(dynoxide, "--table-prefix", "fresh-", data=str(tmp_path / "b")) as base:
        assert call(base, "/v1/events")[1]["after"] == cursor


def test_rows_of_a_log_with_one_shard_that_are_imported_into_one_with_four_are_noticed(dynoxide, tmp_path):  # noqa: F811
    process, base = embedded(tmp_path / "one")
    try:
        assert call(base, "/v1/users", {"id": "ann"})[0] == 201
        transfer("export", "--endpoint", base, "--data", tmp_path / "one", "--to", tmp_path / "moved")
    finally:
        stop(process)
    shutil.copytree(tmp_path / "one", tmp_path / "there", ignore=lambda *_: ["keys.json"])
    with gatehouse(dynoxide, "--table-prefix", "mixed-", *SET, data=str(tmp_path / "a")):
        pass
    transfer("import", "--endpoint", dynoxide, "--region", "eu-west-1", "--table-prefix", "mixed-", "--from", tmp_path / "moved", "--into-existing")
    status, said = refusal(dynoxide, "--table-prefix", "mixed-", "--data", str(tmp_path / "a"))
    assert status == WORLD and "holds rows of two logs" in said, said


def test_at_our_own_server_as_the_endpoint(tmp_path):
    process, url = embedded(tmp_path / "endpoint")
    try:
        with gatehouse(url, *SET, data=str(tmp_path / "a")) as base:
            for n in range(12):
                assert call(base, "/v1/users", {"id": f"u{n}"})[0] == 201
                attempt(base, f"s{n}")
            events = call(base, "/v1/events?limit=100&types=user.created")[1]
            assert len(events["events"]) == 12 and len({e.get("shard", 0) for e in events["events"]}) > 1
            stream = Stream(base, "/v1/events?from=first")
            assert_in_order(stream.events(12))
            stream.close()
    finally:
        stop(process)
