"""Push messages that meet a provider that throttles, stalls, resets, refuses and dies: nothing is sent twice, what has no answer is unknown, dead tokens are
disabled, and people see it in the metrics and on the command line."""

import json
import signal
import subprocess
import time

import pytest

from conftest import program
from expo import Expo
from pusher import (  # noqa: F401: some are fixtures
    HELLO, Pusher, alone, await_counts, eventually, expo, guarded, is_active, let_go, metric, notify, own, queued, register, server, shared, stopped,
    timed, token_of,
)
from test_push_devices import ddb_of, key, literal_put
from test_users import new_id, ok, rows

pytestmark = pytest.mark.gatehouse_only


# ---- failures ----


def test_throttled_and_broken_calls_are_tried_again_for_nothing_was_accepted(server, expo):
    user = new_id()
    token = register(server, user, "d")
    expo.plan.extend(["throttle", "broken"])
    made = notify(server, user)
    await_counts(server, made, {"accepted": 1})
    assert (expo.delivered[token], expo.calls) == (1, 3)


@pytest.mark.parametrize("step", ["lost", "accepted_then_reset", "accepted_then_gateway", "nonsense"])
def test_a_message_without_an_answer_is_unknown_and_never_sent_again(server, expo, step):
    user = new_id()
    token = register(server, user, "d")
    expo.plan.append(step)
    made = notify(server, user)
    done = await_counts(server, made, {"unknown": 1})
    assert done["state"] == "done"
    other = new_id()
    register(server, other, "d")
    await_counts(server, notify(server, other), {"accepted": 1})
    assert expo.delivered[token] <= 1 and expo.calls == 2


def test_an_answer_that_is_too_long_is_unknown_and_a_redirection_leads_nowhere(server, expo):
    user = new_id()
    token = register(server, user, "d")
    expo.plan.append(lambda _tokens: (200, b" " * (5 * 1024 * 1024), {}))
    await_counts(server, notify(server, user), {"unknown": 1})
    other = Expo()
    try:
        expo.plan.append(lambda _tokens: (307, b"", {"Location": other.url + "/--/api/v2/push/send"}))
        await_counts(server, notify(server, user), {"accepted": 1})
        assert (other.calls, expo.calls, expo.delivered[token]) == (0, 3, 1)
    finally:
        other.close()


def test_a_refused_access_token_waits_until_the_file_has_the_right_one(guarded, tmp_path):
    user = new_id()
    token = register(guarded, user, "d")
    guarded.expo.token = "secret-2"
    made = notify(guarded, user)
    eventually(lambda: len(guarded.expo.requests) > 0)
    (tmp_path / "expo.token").write_text("secret-2\n")
    guarded.process.send_signal(signal.SIGHUP)
    await_counts(guarded, made, {"accepted": 1})
    assert guarded.expo.delivered[token] == 1 and b"secret" not in guarded.logged()


def test_a_rate_exceeded_in_a_ticket_is_tried_again(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(3)]
    expo.limited[tokens[1]] = 1
    await_counts(server, notify(server, user), {"accepted": 3})
    assert dict(expo.delivered) == {token: 1 for token in tokens}


def test_a_dead_token_is_disabled_by_its_ticket_also_of_a_row_that_others_wrote(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(3)]
    literal = token_of("literal-" + user)
    literal_put(ddb_of(server), "device-tokens", user, "d3", literal)
    expo.dead |= {tokens[1], literal}
    made = notify(server, user)
    done = await_counts(server, made, {"accepted": 2, "failed": 2})
    assert done["errors"] == {"DeviceNotRegistered": 2}
    eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["disabled"] == 2)
    assert [is_active(server, user, f"d{i}") for i in range(4)] == [True, False, True, False]


def test_projects_are_told_apart_as_the_rejection_says(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(9)]
    expo.projects = {token: f"@one/app{i % 3}" for i, token in enumerate(tokens)}
    await_counts(server, notify(server, user), {"accepted": 9})
    assert dict(expo.delivered) == {token: 1 for token in tokens} and expo.calls == 4


def test_one_bad_recipient_is_found_and_the_others_get_theirs(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(20)]
    expo.bad.add(tokens[7])
    done = await_counts(server, notify(server, user), {"accepted": 19, "failed": 1})
    assert done["errors"] == {"VALIDATION_ERROR": 1}
    assert dict(expo.delivered) == {token: 1 for token in tokens if token != tokens[7]}


def test_no_token_and_no_message_is_logged(server, expo):
    user = new_id()
    register(server, user, "d")
    expo.plan.extend(["throttle", "lost"])
    await_counts(server, notify(server, user, {"title": "very-private-title"}), {"unknown": 1})
    logged = server.logged()
    assert b"ExponentPushToken" not in logged and b"very-private-title" not in logged and user.encode() not in logged


def test_a_stop_cuts_off_calls_under_way_also_to_a_target_that_is_not_in_use_any_more_and_reports_them_as_unknown(own):
    other = Expo()
    server = Pusher(own, timeout=60)
    try:
        users = [new_id(), new_id()]
        tokens = [register(server, user, "d") for user in users]
        own.plan.append("accepted_then_stalls")
        first = notify(server, users[0])
        eventually(lambda: own.calls == 1)
        server.write(url=other.url, allow_private=True, timeout=60)
        server.process.send_signal(signal.SIGHUP)
        other.plan.append("accepted_then_stalls")
        others = []

        def reached():  # one of four waits behind the call that stalls; and the file may be read a moment later
            others.append(notify(server, users[1]))
            time.sleep(0.1)
            return other.steps["accepted_then_stalls"] == 1

        eventually(reached)
        before = time.monotonic()
        stopped(server)
        assert time.monotonic() - before < 45, "it waited for the calls"
        server.start()
        await_counts(server, first, {"unknown": 1})
        done = [await_counts(server, one, {"queued": 0, "sending": 0})["counts"] for one in others]
        unknown, accepted = (sum(counts[state] for counts in done) for state in ("unknown", "accepted"))
        assert unknown >= 1 and unknown + accepted == len(others)
        assert own.delivered[tokens[0]] == 1 and (own.delivered + other.delivered)[tokens[1]] == len(others)
    finally:
        server.close()
        other.close()


def test_a_call_that_takes_too_long_is_unknown(own):
    server = Pusher(own, timeout=1)
    try:
        user = new_id()
        token = register(server, user, "d")
        own.plan.append("accepted_then_stalls")
        await_counts(server, notify(server, user), {"unknown": 1})
        assert (own.delivered[token], own.calls) == (1, 1)
    finally:
        server.close()


def test_a_provider_that_is_dead_gets_its_messages_once_it_lives_again(own, alone):
    user = new_id()
    token = register(alone, user, "d")
    own.die()
    made = notify(alone, user)
    eventually(lambda: metric(alone, 'gatehouse_push_calls_total{end="later"}') >= 1)
    own.revive()
    await_counts(alone, made, {"accepted": 1})
    assert own.delivered[token] == 1


def test_the_metrics_count_what_became_of_messages(alone, own):
    server, expo = alone, own
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(3)]
    expo.dead.add(tokens[0])
    await_counts(server, notify(server, user), {"accepted": 2, "failed": 1})
    assert metric(server, 'gatehouse_push_messages_total{state="accepted"}') == 2
    assert metric(server, 'gatehouse_push_errors_total{code="DeviceNotRegistered"}') == 1
    assert metric(server, 'gatehouse_push_calls_total{end="answered"}') == 1
    eventually(lambda: (metric(server, "gatehouse_push_disabled_total"), metric(server, "gatehouse_push_queued")) == (1, 0))
    assert metric(server, "gatehouse_push_oldest_seconds") == 0


def cli(server, *words):
    return subprocess.run([program(), "push", *words, "--endpoint", server.endpoint], capture_output=True, text=True, check=False)


def test_the_command_line_sends_shows_and_lists(server, expo):
    user = new_id()
    token = register(server, user, "d")
    done = cli(server, "send", user, "--title", "Hello", "--data", '{"n": 1}', "--ttl", "60", "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    await_counts(server, made, {"accepted": 1})
    sent = expo.requests[0][2][0]
    assert (sent["to"], sent["title"], sent["data"]) == (token, "Hello", {"n": 1})
    assert json.loads(cli(server, "show", made["id"], "--json").stdout)["counts"]["accepted"] == 1
    assert made["id"] in cli(server, "list").stdout
    assert cli(server, "send", "--title", "Hello").returncode != 0
    assert cli(server, "send", user, "--all", "--title", "Hello").returncode != 0


# ---- rows that are no good ----


def runs(server):
    return metric(server, 'gatehouse_worker_runs_total{worker="push"}')


def test_a_subject_whose_number_is_malformed_is_logged_once_and_not_with_every_round(alone):
    """Its message ends, because its device is gone, and the event of that cannot be numbered."""
    user, ddb = new_id(), ddb_of(alone)
    register(alone, user, "d")
    seq = {"PK": {"S": "SUBJECT#" + user}, "SK": {"S": "SEQ"}}
    ddb.put_item(TableName="gatehouse-events", Item={**seq, "seq": {"S": "seven"}})
    alone.expo.plan.extend(["throttle"] * 4)
    made = notify(alone, user)
    eventually(lambda: alone.expo.calls > 0)
    ddb.delete_item(TableName="device-tokens", Key=key(user, "d"))
    eventually(lambda: b"is not a whole number" in alone.logged())
    begun = runs(alone)
    eventually(lambda: runs(alone) >= begun + 16)  # four rounds of each of four workers
    assert alone.logged().count(b"is not a whole number") == 1
    ddb.delete_item(TableName="gatehouse-events", Key=seq)
    await_counts(alone, made, {"skipped": 1})
    eventually(lambda: b"commits work again" in alone.logged())


# ---- no answer, and trying again ----


@pytest.mark.parametrize("message", [{"priority": "high"}, {"collapseId": "news"}, {"tag": "news"}, {"onUnknown": "retry"}])
def test_messages_that_may_be_sent_twice_are_sent_again_while_a_gateway_answers_502(alone, own, message):
    user = new_id()
    tokens = [register(alone, user, f"d{i}") for i in range(90)]
    own.weather = "gateway"
    made = notify(alone, user, {**HELLO, **message})
    assert made["onUnknown"] == "retry"
    eventually(lambda: own.steps["gateway"] >= 2)
    own.weather = None
    done = await_counts(alone, made, {"accepted": 90})
    assert dict(own.delivered) == {token: 1 for token in tokens} and done["resent"] >= 91 and done["counts"]["unknown"] == 0
    assert metric(alone, "gatehouse_push_resent_total") == done["resent"]
    assert max(len(body[0]["to"]) if isinstance(body[0]["to"], list) else 1 for _, _, body in own.requests[1:own.steps["gateway"]]) == 1


def test_after_no_answer_one_message_finds_out_whether_the_provider_is_back(alone, own):
    """So a broadcast that gives up loses the calls that were under way, and then one message per try."""
    user = new_id()
    for i in range(90):
        register(alone, user, f"d{i}")
    own.weather = "gateway"
    made = notify(alone, user)
    assert made["onUnknown"] == "give_up"
    await_counts(alone, made, {"unknown": 90})
    other = notify(alone, user)
    eventually(lambda: own.steps["gateway"] >= 3)
    own.weather = None
    done = await_counts(alone, other, {"queued": 0, "sending": 0})
    assert 1 <= done["counts"]["unknown"] <= own.steps["gateway"] - 1 and done["counts"]["accepted"] == 90 - done["counts"]["unknown"]


@pytest.mark.parametrize("setting, message, wanted", [
    ("retry", {}, "retry"), ("give_up", {"priority": "high"}, "give_up"), ("give_up", {"onUnknown": "retry"}, "retry"), ("auto", {}, "give_up"),
])
def test_the_identity_file_says_what_becomes_of_messages_that_do_not_say_so(own, setting, message, wanted):
    server = Pusher(own, on_unknown=setting)
    try:
        assert notify(server, new_id(), {**HELLO, **message})["onUnknown"] == wanted
    finally:
        server.close()


def test_a_message_that_never_gets_an_answer_is_sent_nine_times_and_then_unknown(timed, own):
    user = new_id()
    token = register(timed, user, "d")
    own.weather = "accepted_then_reset"
    made = notify(timed, user, {**HELLO, "onUnknown": "retry"})
    for tries in range(1, 9):
        eventually(lambda tries=tries: own.calls >= tries)
        timed.clock.passes(400)
        let_go(timed, own, rate=700 + tries)  # the gate's own patience
    timed.v1.close()  # idle for an hour, by the server's clock
    assert await_counts(timed, made, {"unknown": 1})["resent"] == 8
    assert own.delivered[token] == own.calls == 9


def test_a_kill_during_a_call_sends_again_what_may_be_sent_twice(alone, own):
    users = [new_id(), new_id()]
    tokens = [register(alone, user, "d") for user in users]
    own.stalls = set(tokens)
    made = [notify(alone, user, {**HELLO, "onUnknown": how}) for user, how in zip(users, ("retry", "give_up"))]
    eventually(lambda: own.steps["accepted_then_stalls"] >= 1 and queued(alone) == 2)
    eventually(lambda: sum(ok(alone, "GET", f"/v1/notifications/{one['id']}")["counts"]["sending"] for one in made) >= 1)
    sending = [ok(alone, "GET", f"/v1/notifications/{one['id']}")["counts"]["sending"] for one in made]
    alone.kill()
    own.stalls = set()
    alone.start()
    await_counts(alone, made[0], {"accepted": 1})
    await_counts(alone, made[1], {"unknown": 1} if sending[1] else {"accepted": 1})


def test_a_receipt_that_says_too_many_messages_has_the_message_sent_again(timed, own):
    user = new_id()
    tokens = [register(timed, user, f"d{i}") for i in range(3)]
    own.limited_later[tokens[1]] = 1
    made = notify(timed, user)
    await_counts(timed, made, {"accepted": 3})
    timed.clock.passes(901)
    await_counts(timed, made, {"delivered": 2, "queued": 1})
    timed.clock.passes(2)
    done = await_counts(timed, made, {"accepted": 1})
    assert dict(own.delivered) == {tokens[0]: 1, tokens[1]: 2, tokens[2]: 1} and done["counts"]["failed"] == 0
    timed.clock.passes(901)
    assert await_counts(timed, made, {"delivered": 3})["state"] == "done"
    assert "Hello" not in json.dumps(rows(timed)["gatehouse-push"])
