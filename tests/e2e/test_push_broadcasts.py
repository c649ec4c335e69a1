"""Push messages to many, through kills and while settings change: each live token gets its message once, or is reported as unknown, and no target gets what
is not its own. GATEHOUSE_PUSH_LONG=1: 10,000 devices instead of 1,500."""

import json
import threading
import time

import pytest

from expo import Expo
from pusher import (  # noqa: F401: some are fixtures
    END_S, HELLO, LONG, Pusher, alone, await_counts, eventually, expo, held_back, let_go, metric, notify, own, queued, register, server, shared,
    timed, token_of,
)
from test_users import call, new_id, ok
from v1 import V1

pytestmark = pytest.mark.gatehouse_only


# ---- broadcasts, and kills ----


def register_many(server, count, threads=8):
    tokens = {}

    def work(first):
        v1 = V1(server.endpoint)
        for i in range(first, count, threads):
            user, device = f"user-{i:05}", "phone"
            token = token_of(f"many-{i:05}")
            body = json.dumps({"platform": ("ios", "android")[i % 2], "expoPushToken": token}).encode()
            reply = v1.send("PUT", f"/v1/users/{user}/devices/{device}", body)
            assert reply.status == 201, reply.body
            tokens[token] = (user, device)
        v1.close()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(tokens) == count
    return tokens


def test_a_broadcast_reaches_one_platform_or_all(alone, own):
    server, expo = alone, own
    tokens = register_many(server, 40)
    half = call(server, "POST", "/v1/notifications", {**HELLO, "platform": "ios"})[1]
    await_counts(server, half, {"accepted": 20})
    assert set(expo.delivered) == {token for token, (user, _) in tokens.items() if int(user[-5:]) % 2 == 0}
    everyone = call(server, "POST", "/v1/notifications", HELLO)[1]
    done = await_counts(server, everyone, {"accepted": 40})
    assert ok(server, "GET", f"/v1/jobs/{done['jobId']}")["progress"]["devices"] == 40
    dry = call(server, "POST", "/v1/notifications", {**HELLO, "dryRun": True})[1]
    assert await_counts(server, dry, {"queued": 0})["messages"] == 0


def waiting_broadcast(server, expo, count, **fields):
    """All its messages are queued, its job is done, and Expo takes none of them."""
    tokens = register_many(server, count)
    held_back(server, expo)
    made = call(server, "POST", "/v1/notifications", {**HELLO, "rate": 100000, **fields})[1]
    await_counts(server, made, {"queued": count + 1})  # held_back has registered one, too
    eventually(lambda: ok(server, "GET", f"/v1/jobs/{made['jobId']}")["state"] == "done")
    return made, tokens


@pytest.mark.parametrize("by", ["job", "notification"])
def test_cancelling_a_broadcast_drops_what_waits_also_after_its_job_has_queued_everything(alone, own, by):
    made, tokens = waiting_broadcast(alone, own, 1200)
    path = f"/v1/jobs/{made['jobId']}/cancel" if by == "job" else f"/v1/notifications/{made['id']}/cancel"
    ok(alone, "POST", path)
    shown = ok(alone, "GET", f"/v1/notifications/{made['id']}")
    listed = next(one for one in ok(alone, "GET", "/v1/notifications")["notifications"] if one["id"] == made["id"])
    assert (shown["state"], listed["state"], ok(alone, "GET", f"/v1/jobs/{made['jobId']}")["state"]) == ("cancelled",) * 3
    assert (shown["counts"]["queued"], shown["counts"]["cancelled"]) == (0, 1201) and "cancelledAt" in shown
    eventually(lambda: queued(alone) == 1)  # the decoy's; although Expo has asked for an hour's patience
    ok(alone, "POST", path)  # once more changes nothing
    let_go(alone, own)
    register(alone, "later", "d")
    await_counts(alone, notify(alone, "later"), {"accepted": 1})
    assert not set(tokens) & set(own.delivered)
    assert metric(alone, 'gatehouse_push_messages_total{state="cancelled"}') == 1201
    status, answer, _ = call(alone, "POST", f"/v1/jobs/{made['jobId']}/resume")
    assert status == 409 and "dropped" in answer["detail"], answer


def test_a_broadcast_that_is_cancelled_while_its_job_runs_lists_no_more_devices(alone, own):
    register_many(alone, 1200)
    made = call(alone, "POST", "/v1/notifications", {**HELLO, "rate": 1})[1]
    eventually(lambda: ok(alone, "GET", f"/v1/notifications/{made['id']}")["messages"] > 0)
    ok(alone, "POST", f"/v1/notifications/{made['id']}/cancel")
    done = await_counts(alone, made, {"queued": 0, "sending": 0})
    assert done["state"] == "cancelled" and done["messages"] == 500
    assert ok(alone, "GET", f"/v1/jobs/{made['jobId']}")["state"] == "cancelled"
    assert done["counts"]["accepted"] + done["counts"]["cancelled"] == 500 and max(own.delivered.values(), default=1) == 1


def test_what_is_being_sent_when_it_is_cancelled_is_not_sent_again_and_what_has_gone_out_cannot_be_cancelled(alone, own):
    user = new_id()
    token = register(alone, user, "d")
    own.plan.extend(["broken"] * 3)
    made = notify(alone, user)
    eventually(lambda: own.calls > 0)
    ok(alone, "POST", f"/v1/notifications/{made['id']}/cancel")
    await_counts(alone, made, {"cancelled": 1})
    own.plan.clear()
    other = notify(alone, user)
    await_counts(alone, other, {"accepted": 1})
    assert own.delivered[token] == 1
    status, answer, _ = call(alone, "POST", f"/v1/notifications/{other['id']}/cancel")
    assert (status, answer["type"]) == (409, "urn:gatehouse:problem:wrong-state"), answer
    assert call(alone, "POST", "/v1/notifications/0198f1de-0000-7000-8000-000000000000/cancel")[0] == 404


def test_a_users_message_does_not_wait_behind_a_broadcast(own):
    server = Pusher(own, rate=300)
    try:
        tokens = register_many(server, 1500)
        made = call(server, "POST", "/v1/notifications", {**HELLO, "rate": 100000})[1]
        eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["messages"] == 1500)
        mine = register(server, "me", "phone")
        before = sum(own.delivered.values())
        await_counts(server, notify(server, "me", {**HELLO, "priority": "high"}), {"accepted": 1})
        between = sum(own.delivered[token] for token in tokens) - before
        assert own.delivered[mine] == 1 and between <= 400, between  # calls that were under way
    finally:
        server.close()


def test_calls_of_a_broadcast_that_are_never_answered_do_not_hold_up_a_users_message(alone, own):
    tokens = register_many(alone, 1200)
    own.stalls = set(tokens)
    call(alone, "POST", "/v1/notifications", {**HELLO, "rate": 100000})
    eventually(lambda: own.steps["accepted_then_stalls"] >= 3)
    register(alone, "me", "phone")
    for _ in range(8):  # one in each shard, and more
        await_counts(alone, notify(alone, "me"), {"accepted": 1}, end_s=15)  # a call may take 30 s


def test_a_broadcast_has_the_rate_of_push_unless_set(own):
    server = Pusher(own, rate=250)
    try:
        made = [call(server, "POST", "/v1/notifications", {**HELLO, **rate})[1] for rate in ({}, {"rate": 7})]
        assert [ok(server, "GET", f"/v1/jobs/{one['jobId']}")["rate"] for one in made] == [250, 7]
    finally:
        server.close()


def test_a_full_queue_refuses_what_does_not_fit_and_a_broadcast_goes_on_once_there_is_room(own):
    server = Pusher(own, queue=1000)
    try:
        tokens = register_many(server, 900)
        several = [register(server, "several", f"d{i}") for i in range(60)]
        held_back(server, own)
        made = call(server, "POST", "/v1/notifications", {**HELLO, "rate": 100000})[1]
        eventually(lambda: queued(server) == 1 + 511)  # the decoy's and those of ios; the next page, of android, does not fit
        taken = 0
        while taken < 20:
            status, answer, headers = call(server, "POST", "/v1/users/several/notify", HELLO)
            if status != 202:
                break
            taken += 1
        assert status == 503 and "retry-after" in {name.lower() for name in headers}, (status, answer)
        before = queued(server)
        assert call(server, "POST", "/v1/users/several/notify", HELLO)[0] == 503 and queued(server) == before <= 2000
        assert ok(server, "GET", f"/v1/notifications/{made['id']}")["state"] == "running"
        let_go(server, own, queue=1000, rate=100000)
        await_counts(server, made, {"accepted": len(tokens) + 61})
        eventually(lambda: queued(server) == 1)  # what Expo asked an hour for
        assert {own.delivered[token] for token in tokens} == {1} and {own.delivered[token] for token in several} == {1 + taken}
    finally:
        server.close()


def test_an_idempotency_key_sends_once_also_over_a_kill(alone, own):
    user = new_id()
    token = register(alone, user, "d")
    first = notify(alone, user, Idempotency_Key="k")
    alone.kill()
    alone.start()
    assert notify(alone, user, Idempotency_Key="k")["id"] == first["id"]
    await_counts(alone, first, {"queued": 0, "sending": 0})
    assert own.delivered[token] <= 1 and own.calls <= 1


def rss_mb(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


STEPS = ["throttle", "answer", "answer", "accepted_then_reset", "answer", "broken", "answer", "lost", "answer", "accepted_then_stalls", "answer", "nonsense", "answer"]


def killed_and_started(server, expo, number):
    """In between, every other time, the provider dies too: now during calls, now before any."""
    if number % 2:
        expo.die()
    server.kill()
    server.start()
    if number % 2:
        eventually(lambda: metric(server, 'gatehouse_push_calls_total{end="later"}') >= 1 or queued(server) == 0)
        expo.revive()


def has_come(server, made, devices, accepted):
    """Are more than so many known to have been accepted, with calls under way; or is nothing left to send?"""
    now = ok(server, "GET", f"/v1/notifications/{made['id']}")
    counts = now["counts"]
    return (counts["accepted"] > accepted and counts["sending"] > 0) or (now["messages"] == devices and counts["queued"] + counts["sending"] == 0)


def test_each_live_token_gets_its_message_once_or_is_unknown_through_five_kills(own):
    """10,000 devices with GATEHOUSE_PUSH_LONG=1: a provider that throttles, times out, rejects and dies."""
    devices, kills, expo = 10000 if LONG else 1500, 5, own
    server = Pusher(expo, "--cache-mb", "64", rate=100000, timeout=3)
    try:
        expo.keep = False
        tokens = register_many(server, devices)
        every = list(tokens)
        expo.dead = set(every[::50])
        expo.limited.update({token: 1 for token in every[7::100]})
        expo.projects = {token: "@two/app" for token in every[3::10]}
        expo.bad = set(every[11::250])
        expo.plan.extend(STEPS * (devices // 1000))
        most_mb, before = 0, time.monotonic()
        made = call(server, "POST", "/v1/notifications", HELLO)[1]
        for number in range(kills):
            while not has_come(server, made, devices, devices * number // 20) and time.monotonic() < before + 10 * END_S:
                most_mb = max(most_mb, rss_mb(server))
            killed_and_started(server, expo, number)
        eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["messages"] == devices, 10 * END_S)
        done = await_counts(server, made, {"queued": 0, "sending": 0}, 10 * END_S)
        most_mb = max(most_mb, rss_mb(server))
        counts, took = done["counts"], time.monotonic() - before
        print(f"{devices} devices, {kills} kills, {took:.1f} s, {expo.calls} calls, {dict(expo.steps)}, {most_mb:.0f} MB, {counts}, {done['errors']}")
        check_each_once(expo, tokens, done)
        eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["disabled"] == done["errors"].get("DeviceNotRegistered", 0))
        check_dead_disabled(server, expo, tokens, done)
        assert most_mb < 96, most_mb
    finally:
        server.close()


def check_each_once(expo, tokens, done):
    """What was accepted is what phones show, but for what is unknown; nothing twice, nothing lost."""
    counts = done["counts"]
    assert max(expo.delivered.values()) == 1, "a token got its message twice"
    assert counts["accepted"] + counts["failed"] + counts["unknown"] == len(tokens)
    assert counts["accepted"] <= len(expo.delivered) <= counts["accepted"] + counts["unknown"]
    missed = set(tokens) - expo.dead - expo.bad - set(expo.delivered)
    assert len(missed) <= counts["unknown"]
    assert counts["failed"] == sum(done["errors"].values()) and set(done["errors"]) <= {"DeviceNotRegistered", "VALIDATION_ERROR"}
    assert done["errors"].get("VALIDATION_ERROR", 0) <= len(expo.bad)
    assert counts["accepted"] > len(tokens) // 50, "hardly anything is known to have arrived"


def check_dead_disabled(server, expo, tokens, done):
    """Those that Expo called dead, and no others; one whose answer was lost stays, for nobody knows."""
    listed, cursor = set(), ""
    for platform in ("ios", "android"):
        while True:
            page = ok(server, "GET", f"/v1/devices?platform={platform}&limit=500{cursor}")
            listed |= {device["expoPushToken"] for device in page["devices"]}
            if not page["more"]:
                cursor = ""
                break
            cursor = f"&cursor={page['cursor']}"
    disabled = set(tokens) - listed
    assert disabled <= expo.dead and len(disabled) == done["errors"].get("DeviceNotRegistered", 0)


# ---- a section `push` that changes, and waits for the rate ----


def test_the_rate_is_a_ceiling(own):
    server = Pusher(own, rate=200)
    try:
        register_many(server, 400)
        before = time.monotonic()
        made = call(server, "POST", "/v1/notifications", HELLO)[1]
        await_counts(server, made, {"accepted": 400})
        assert time.monotonic() - before >= 1.4  # a hundred at once, then 200 per second
    finally:
        server.close()


def fill_rate(server, expo):
    """Uses up what may be sent at once: whatever comes next waits for the rate."""
    user = new_id()
    for i in range(100):
        register(server, user, f"d{i}")
    await_counts(server, notify(server, user), {"accepted": 100})
    return expo.calls


def test_messages_that_wait_go_to_the_new_target_as_soon_as_the_section_changes(own):
    expo = own
    other = Expo()
    server = Pusher(expo, rate=1)
    try:
        calls = fill_rate(server, expo)
        user = new_id()
        token = register(server, user, "d")
        made = notify(server, user)
        server.write(url=other.url, allow_private=True)
        await_counts(server, made, {"accepted": 1})
        assert (expo.calls, dict(other.delivered)) == (calls, {token: 1})
    finally:
        server.close()
        other.close()


def test_a_long_queue_stops_going_to_a_target_that_is_not_in_use_any_more(own):
    expo = own
    other = Expo()
    server = Pusher(expo, rate=100)
    try:
        register_many(server, 1200)
        made = call(server, "POST", "/v1/notifications", HELLO)[1]
        eventually(lambda: sum(expo.delivered.values()) >= 200)
        server.write(url=other.url, allow_private=True, rate=100000)
        await_counts(server, made, {"accepted": 1200})
        assert sum(other.delivered.values()) >= 500
        assert max((expo.delivered + other.delivered).values()) == 1
    finally:
        server.close()
        other.close()


def test_a_token_that_moves_while_the_message_waits_for_the_rate_gets_nothing(own):
    expo = own
    server = Pusher(expo, rate=20)
    try:
        pat, sam = new_id(), new_id()
        token = [register(server, pat, f"d{i}") for i in range(60)][0]  # three seconds' worth
        fill_rate(server, expo)
        made = notify(server, pat)
        ok(server, "PUT", f"/v1/users/{sam}/devices/phone", {"platform": "ios", "expoPushToken": token})
        await_counts(server, made, {"skipped": 1, "accepted": 59})
        assert expo.delivered[token] == 0
    finally:
        server.close()


def test_receipts_that_are_refused_for_ever_are_given_up_after_a_day(timed, own):
    user = new_id()
    register(timed, user, "d")
    own.get_receipts = lambda handler, _body: own.reply(handler, 400, {"errors": [{"code": "VALIDATION_ERROR"}]})
    made = notify(timed, user)
    await_counts(timed, made, {"accepted": 1})
    timed.clock.passes(86400)
    assert await_counts(timed, made, {"unconfirmed": 1})["state"] == "done"


@pytest.mark.parametrize("days", [2, 5])
def test_messages_of_a_section_that_was_taken_away_expire_and_leave_the_queue(timed, own, days):
    user = new_id()
    token = register(timed, user, "d")
    own.plan.extend(["throttle"] * 100)
    made = notify(timed, user)
    eventually(lambda: own.calls > 0)
    timed.identity.write_text("issuers: []\n")
    eventually(lambda: call(timed, "POST", "/v1/users/nobody/notify", HELLO)[0] != 202)
    timed.clock.passes(days * 86400)
    assert await_counts(timed, made, {"expired": 1})["state"] == "done"
    eventually(lambda: metric(timed, "gatehouse_push_queued") == 0)
    assert own.delivered[token] == 0
