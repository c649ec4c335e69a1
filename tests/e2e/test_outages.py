"""Tables at an endpoint that fails: through a proxy (faulty_proxy.py) that does to requests what networks and endpoints do to them. Deadlines
hold, what is known locks, attempts are recorded and merged, and every attempt that was acknowledged is counted exactly once."""

import concurrent.futures
import os
import random
import re
import time
import urllib.error

import pytest

from faulty_proxy import FAULTS
from outages import LONG, PATIENCE_S, Server, world
from test_clock import Clock
from test_engine_dynamodb import dynoxide  # noqa: F401: a fixture

SEED = int(os.environ.get("GATEHOUSE_OUTAGE_SEED", "15"))


@pytest.fixture
def pair(dynoxide):  # noqa: F811
    with world(dynoxide) as both:
        yield both


def test_without_the_endpoint_what_is_known_holds_and_what_is_counted_is_merged(pair):
    server, proxy = pair
    for _ in range(6):
        assert server.attempt("locked")[0] == 200
    for _ in range(3):
        assert server.attempt("known")[1]["counted"]
    assert server.check("checked")[1]["verdict"] == "allow"
    assert server.text("/readyz") == "ready\n"
    proxy.gone()
    began = time.monotonic()
    status, answer = server.attempt("locked")
    assert status == 200 and answer["verdict"] == "locked" and answer["degraded"] and not answer["counted"], answer
    assert server.check("locked")[1]["verdict"] == "locked"
    status, answer = server.attempt("known")
    assert answer["degraded"] and answer["counted"] and answer["warning"] and answer["counts"]["STRICT"]["count"] == 4, answer
    assert server.attempt("known")[1]["counts"]["STRICT"]["count"] == 5
    sixth = server.attempt("known")[1]
    assert sixth["verdict"] == "locked" and sixth["first_time"] and sixth["degraded"]
    assert server.attempt("known", outcome="success")[1]["verdict"] == "locked"
    assert server.check("checked")[1] == {**server.check("checked")[1], "verdict": "allow", "degraded": True}
    status, answer = server.attempt("stranger")
    assert (status, answer["verdict"], answer["reason"], answer["counted"]) == (200, "blocked", "outage", False)
    assert answer["retry_after"] > 0
    assert server.attempt("stranger", "OPEN")[1]["counted"]
    assert server.text("/readyz") == "degraded\n"
    assert "dynamodb does not answer (" in server.said()
    begun = {"journey": "SIGN_IN", "type": "STRICT"}
    for subject in ("known", "locked"):
        status, answer, _ = server.call("/v1/attempts/begin", {"subject": subject, **begun})
        assert (status, answer["verdict"], answer["degraded"]) == (200, "locked", True), answer
    for path, body, method in (("/v1/users", {"id": "zoe"}, None), ("/v1/subjects/known/locks/SIGN_IN/STRICT", None, "DELETE"),
                               ("/v1/attempts/begin", {"subject": "checked", **begun}, None)):
        status, answer, headers = server.call(path, body, method)
        assert status == 503 and headers["Retry-After"], answer
    assert time.monotonic() - began < 20
    began = time.monotonic()
    for i in range(100):  # the circuit is open: no call waits for the endpoint
        assert server.attempt("known")[1]["verdict"] == "locked"
    assert time.monotonic() - began < 5
    assert server.metric("gatehouse_spool_records") == 4 and server.metric("gatehouse_degraded") == 1
    proxy.back()
    server.wait_merged()
    assert server.metric("gatehouse_spool_merged_total") == 4 and server.metric("gatehouse_degraded") == 0
    status, answer = server.attempt("known")
    assert answer["verdict"] == "locked" and "degraded" not in answer
    assert answer["until"] == sixth["until"]  # from the attempt on, not from the merge
    assert server.counts("OPEN") == {"stranger": 1}
    assert server.attempt("stranger")[1]["verdict"] == "allow"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_loses_nothing_and_counts_nothing_twice(pair, fault):
    """Each half of the requests meets it. Keyed attempts are sent until they are acknowledged; of the others some may be unknown."""
    server, proxy = pair
    dice = random.Random(SEED)
    for subject in ("keyed", "plain"):
        assert server.attempt(subject, "COUNTED")[1]["counted"]
    proxy.late_s = 0.3
    proxy.choose = lambda target: fault if dice.random() < 0.5 else None
    unknown = 0
    plain = 1
    for i in range(6 if LONG else 2):
        while server.attempt("keyed", "COUNTED", Idempotency_Key=f"key-{i}")[0] != 200:
            pass
        began = time.monotonic()
        status, answer = server.attempt("plain", "COUNTED")
        assert time.monotonic() - began < 5 and status in (200, 500, 503), (status, answer)
        unknown += status == 500
        plain += status == 200 and answer["counted"]
    proxy.choose = lambda target: None
    server.wait_merged()
    time.sleep(0.4 if fault == "late" else 0)
    counts = server.counts("COUNTED")
    assert counts["keyed"] == (7 if LONG else 3)
    assert plain <= counts["plain"] <= plain + unknown


def test_a_killed_server_merges_what_it_acknowledged_once(pair):
    """kill -9 during the outage, and again and again during the merge."""
    server, proxy = pair
    for i in range(20):
        assert server.attempt(f"killed-{i}", "COUNTED")[1]["counted"]
    proxy.gone()
    acknowledged = {f"killed-{i}": 1 for i in range(20)}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        subjects = [f"killed-{i % 20}" for i in range(200)]
        for subject, (status, answer) in zip(subjects, pool.map(lambda s: server.attempt(s, "COUNTED"), subjects)):
            assert status == 200 and answer["degraded"] and answer["counted"], answer
            acknowledged[subject] += 1
    server.kill()
    proxy.back()
    dice = random.Random(SEED)
    for _ in range(3):
        server.start()
        time.sleep(dice.random() * 0.4)
        server.kill()
    server.start()
    server.wait_merged()
    assert {name: count for name, count in server.counts("COUNTED").items() if name in acknowledged} == acknowledged


@pytest.mark.skipif(not LONG, reason="takes half a minute")
def test_a_full_spool_is_said(dynoxide):  # noqa: F811
    with world(dynoxide, "--spool-mb", "1") as (server, proxy):
        for i in range(20):
            server.attempt(f"full-{i}", "COUNTED")
        proxy.gone()
        taken = {}
        filler = {"journey": "SIGN_IN", "type": "COUNTED", "outcome": "failure"}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            while True:
                answers = list(pool.map(lambda i: (i % 20, server.call("/v1/attempts", {"subject": f"full-{i % 20}", **filler})), range(200)))
                for i, (status, answer, headers) in answers:
                    taken[i] = taken.get(i, 0) + (status == 200)
                refused = [(answer, headers) for _, (status, answer, headers) in answers if status == 503]
                if refused:
                    break
        assert "spool" in refused[0][0]["detail"] and refused[0][1]["Retry-After"]
        with pytest.raises(urllib.error.HTTPError) as not_ready:
            server.text("/readyz")
        assert not_ready.value.code == 503
        proxy.back()
        server.wait_merged()
        assert sum(server.counts("COUNTED").values()) == 1 + 20 + sum(taken.values())


def ready(server):
    try:
        return 200, server.text("/readyz")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_disk_that_fails_is_said_and_what_waits_is_merged_and_written_once_it_is_back(dynoxide):  # noqa: F811
    """The third flush of the spool fails, and so does every try to write it anew in the seconds after that."""
    with world(dynoxide, "--fault", "spool:2:8") as (server, proxy):
        server.attempt("disk", "COUNTED")
        proxy.gone()
        assert [server.attempt("disk", "COUNTED")[0] for _ in range(3)] == [200, 200, 500]
        status, text = ready(server)
        assert status == 503 and text.startswith("not ready: the spool in the data directory cannot be written"), text
        status, answer = server.attempt("disk", "COUNTED")
        assert status == 503 and "cannot be written" in answer["detail"], answer
        assert server.metric("gatehouse_spool_failed") == 1
        proxy.back()
        said, deadline = set(), time.monotonic() + PATIENCE_S
        while ready(server) != (200, "ready\n"):
            assert time.monotonic() < deadline, said
            said.add(ready(server)[1].split(" (")[0].strip())
            time.sleep(0.05)
        assert "degraded: the spool in the data directory cannot be written" in said, said
        server.wait_merged()
        assert server.metric("gatehouse_spool_failed") == 0
        answer = server.attempt("disk", "COUNTED")[1]
        assert answer["counted"] and "degraded" not in answer
        assert server.counts("COUNTED")["disk"] == 5  # the one whose outcome was unknown is among them
        proxy.gone()
        assert server.attempt("disk", "COUNTED")[1]["degraded"]
        assert "can be written again" in server.said()


def test_a_merge_takes_as_few_requests_as_an_attempt(pair):
    server, proxy = pair
    assert server.call("/v1/users", {"id": "few"})[0] == 201  # as long as there is no table of users, each attempt asks whether there is one
    for i in range(20):
        assert server.attempt(f"few-{i}", "COUNTED")[1]["counted"]
    proxy.gone()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(answer["degraded"] for _, answer in pool.map(lambda i: server.attempt(f"few-{i % 20}", "COUNTED"), range(200)))
    before = proxy.seen
    proxy.back()
    server.wait_merged()
    assert server.metric("gatehouse_spool_merged_total") == 200
    idle = 40  # of the server's own workers, and the probe
    assert proxy.seen - before < 2.2 * 200 + idle  # what is read, and the commit


def test_an_attack_on_a_locked_subject_costs_its_requests_once(pair):
    server, proxy = pair
    for _ in range(7):
        server.attempt("victim")
    before = proxy.seen
    for _ in range(50):
        assert server.attempt("victim")[1]["verdict"] == "locked"
        assert server.check("victim")[1]["verdict"] == "locked"
    idle = 20  # of the server's own workers
    assert proxy.seen - before < 40 + idle
    assert server.call("/v1/subjects/victim/locks/SIGN_IN/STRICT", method="DELETE")[0] == 200
    assert server.attempt("victim")[1]["verdict"] == "allow"


def rss_mb(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_attempts_that_waited_for_too_long_are_told_of_by_their_number(dynoxide):  # noqa: F811
    clock = Clock()
    with world(dynoxide, clock=clock) as (server, proxy):
        assert server.attempt("late-one", "COUNTED")[1]["counted"]
        proxy.gone()
        for i in range(3):
            assert server.attempt("late-one", "COUNTED", Idempotency_Key=f"late-{i}")[1]["degraded"]
        assert server.attempt("late-one", "COUNTED")[1]["degraded"]
        clock.passes(8 * 86400)
        proxy.back()
        server.wait_merged()
        assert server.metric("gatehouse_spool_void_total") == 3 and server.metric("gatehouse_spool_merged_total") == 1
        told, deadline = [], time.monotonic() + PATIENCE_S
        while sum(told) < 3:
            assert time.monotonic() < deadline, server.said()
            told = [int(n) for n in re.findall(r"(\d+) attempts that were recorded during an outage are not counted: they waited", server.said())]
        assert sum(told) == 3 and "late-" not in server.said()


@pytest.mark.parametrize("ahead_s", [30, -30])
def test_whoever_another_process_erased_does_not_come_back_if_its_clock_is_another(dynoxide, ahead_s):  # noqa: F811
    """The attempt is made first, at a process that cannot reach the tables. Its clock is ahead of the one that erases, or behind."""
    clock = Clock()
    clock.passes(60 + ahead_s)
    other_clock = Clock()
    other_clock.passes(60)
    with world(dynoxide, clock=clock) as (server, proxy):
        other = Server(dynoxide, "--table-prefix", server.prefix, clock=other_clock, like=server)
        try:
            assert other.call("/v1/users", {"id": "leaver"})[0] == 201
            assert server.attempt("leaver", "COUNTED")[1]["counted"]
            proxy.gone()
            assert server.attempt("leaver", "COUNTED")[1]["degraded"]
            status, job, _ = other.call("/v1/users/leaver/erase", method="POST")
            assert status == 202, job
            deadline = time.monotonic() + PATIENCE_S
            while other.call(f"/v1/jobs/{job['id']}")[1]["state"] != "done":
                assert time.monotonic() < deadline
                time.sleep(0.05)
            proxy.back()
            server.wait_merged()
            assert server.metric("gatehouse_spool_void_total") == 1
            assert "leaver" not in server.counts("COUNTED")
        finally:
            other.close()


def test_an_hour_of_outages_counts_every_acknowledged_attempt_once(dynoxide):  # noqa: F811
    """Sixty minutes on the server's clock, with random faults from a seed. The short version has fewer attempts in them."""
    def kind_of(subject):
        """Half of them are refused while nothing is known of them: after a restart."""
        return "COUNTED" if int(subject.split("-")[1]) % 2 else "OPEN"

    clock = Clock()
    minutes, per_minute, names = 60, 400 if LONG else 6, 40
    dice = random.Random(SEED)
    with world(dynoxide, clock=clock) as (server, proxy):
        acknowledged = {}
        for i in range(names):
            assert server.attempt(f"hour-{i}", kind_of(f"hour-{i}"), Idempotency_Key=f"first-{i}")[1]["counted"]
            acknowledged[f"hour-{i}"] = 1
        counter = iter(range(10 ** 9))

        def one(subject):
            """Sent until it is acknowledged, as a careful client does."""
            key, deadline = f"{SEED}-{next(counter)}", time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                status, answer = server.attempt(subject, kind_of(subject), Idempotency_Key=key)
                if status == 200:
                    return subject, answer
            raise AssertionError((status, answer))

        peak, degraded, kills = 0, 0, 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for minute in range(minutes):
                mood = dice.choice(("well", "gone", "some", "some", "one", "storm"))
                fault, share = dice.choice(FAULTS), {"some": 0.2, "one": 0.6, "storm": 0.9}.get(mood, 0)
                proxy.choose = lambda target: (dice.choice(FAULTS) if mood != "one" else fault) if dice.random() < share else None
                proxy.delay_s, proxy.late_s = dice.random() * 0.2, dice.random() * 0.5
                if mood == "well":
                    server.wait_merged()
                if mood == "gone":
                    proxy.gone()
                for subject, answer in pool.map(one, [f"hour-{dice.randrange(names)}" for _ in range(per_minute)]):
                    acknowledged[subject] += answer["counted"]
                    degraded += answer.get("degraded", False)
                if mood == "gone":
                    proxy.back()
                proxy.choose = lambda target: None
                if minute % 20 == 19:
                    server.kill()
                    server.start()
                    kills += 1
                clock.passes(60)
                peak = max(peak, rss_mb(server.process))
        server.wait_merged()
        time.sleep(0.6)  # what is still late
        counts = {**server.counts("COUNTED"), **server.counts("OPEN")}
        counted = {name: count for name, count in counts.items() if name in acknowledged}
        print(f"{sum(acknowledged.values())} acknowledged, {sum(counted.values())} counted, {degraded} degraded, {kills} kills, "
              f"peak {peak:.0f} MB, merged {server.metric('gatehouse_spool_merged_total'):.0f}")
        assert counted == acknowledged
        assert degraded > 0 and peak < 300


@pytest.mark.parametrize("processes, each", [(1, 6), (2, 3), (4, 1)])
def test_processes_that_share_tables_divide_what_is_left(dynoxide, processes, each):  # noqa: F811
    with world(dynoxide, "--processes", str(processes)) as (server, proxy):
        assert server.attempt("shared", outcome="success")[0] == 200  # so that it is known
        proxy.gone()
        guesses = 0
        while server.check("shared")[1]["verdict"] == "allow":
            assert server.attempt("shared")[1]["degraded"]
            guesses += 1
        assert guesses == each
        proxy.back()
        server.wait_merged()
        assert server.counts("STRICT").get("shared", 0) == (0 if processes == 1 else each)  # one failure is one
