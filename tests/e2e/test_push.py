"""Push messages over HTTP, with a stand-in for Expo (expo.py) that throttles, stalls, resets, refuses and dies; each request is compared
with what Expo's own client sends. Each live token gets its message once, or is reported as unknown, however often the server is killed."""
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path

import pytest

from conftest import program
from expo import Expo
from test_clock import Clock
from test_push_devices import ddb_of, literal_deactivate, literal_delete, literal_put, literal_refresh
from test_users import call, new_id, ok, rows
from v1 import V1, Server

pytestmark = pytest.mark.gatehouse_only

JS = Path(__file__).parent / "js"
END_S = 60
LONG = os.environ.get("GATEHOUSE_PUSH_LONG") is not None
HELLO = {"title": "Hello", "body": "There is news"}


class Pusher(Server):
    """A server with an identity file that names the stand-in."""

    def __init__(self, expo, *words, **settings):
        self.identity = Path(f"/tmp/gatehouse-push-{uuid.uuid4().hex}.yaml")
        self.write(url=expo.url, allow_private=True, **settings)
        super().__init__("--identity", str(self.identity), "--device-index", *words)

    def write(self, **settings):
        lines = [f"  {name}: {json.dumps(value)}\n" for name, value in settings.items()]
        self.identity.write_text("push:\n" + "".join(lines))

    def close(self):
        super().close()
        self.identity.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def shared():
    """One server for all tests that need none of their own, and its provider."""
    expo = Expo()
    server = Pusher(expo)
    yield server, expo
    server.close()
    expo.close()


@pytest.fixture
def server(shared):
    return shared[0]


@pytest.fixture
def expo(shared):
    """Of `server`, as new. Its queue is empty: a test waits for what it sent."""
    eventually(lambda: queued(shared[0]) == 0)
    shared[1].reset_all()
    return shared[1]


@pytest.fixture
def own():
    """A provider for a server of the test's own."""
    made = Expo()
    yield made
    made.close()


@pytest.fixture
def alone(own):
    """… and that server, with nobody's devices but the test's."""
    made = Pusher(own)
    made.expo = own
    yield made
    made.close()


def eventually(holds, end_s=END_S):
    """Waits; under load things take their time."""
    until = time.monotonic() + end_s
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.01)


def queued(server):
    """Messages that wait or are being sent, as the rows have it."""
    return sum(int(json.loads(row)["messages"]["N"]) for row in rows(server).get("gatehouse-push", ()) if '"COUNT"' in row)


def token_of(name):
    return f"ExponentPushToken[{name}]"


def register(server, user, device, platform="ios"):
    token = token_of(f"{user}-{device}")
    ok(server, "PUT", f"/v1/users/{user}/devices/{device}", {"platform": platform, "expoPushToken": token})
    return token


def notify(server, user, body=None, **headers):
    status, answer, _ = call(server, "POST", f"/v1/users/{user}/notify", body or HELLO, **headers)
    assert status == 202, answer
    return answer


def await_counts(server, notification, wanted, end_s=END_S):
    until = time.monotonic() + end_s
    while time.monotonic() < until:
        now = ok(server, "GET", f"/v1/notifications/{notification['id']}")
        assert sum(now["counts"].values()) == now["messages"], now
        if all(now["counts"][name] == number for name, number in wanted.items()):
            return now
        time.sleep(0.02)
    raise AssertionError(f"wanted {wanted}: {now}")


def is_active(server, user, device):
    return ok(server, "GET", f"/v1/users/{user}/devices/{device}")["isActive"]


# ---- one user ----


def test_all_active_devices_of_a_user_get_the_message_and_nobody_else(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}", ("ios", "android")[i % 2]) for i in range(3)]
    register(server, new_id(), "other")
    register(server, user, "off")
    ok(server, "POST", f"/v1/users/{user}/devices/off/deactivate")
    made = notify(server, user)
    assert made["messages"] == 3 and made["userId"] == user and made["state"] == "running"
    done = await_counts(server, made, {"accepted": 3})
    assert dict(expo.delivered) == {token: 1 for token in tokens}
    assert "Hello" not in json.dumps(done)
    listed = ok(server, "GET", "/v1/notifications?limit=1")
    assert listed["notifications"][0]["id"] == made["id"]


def test_listed_devices_alone_get_it_and_those_that_are_gone_are_skipped(server, expo):
    user = new_id()
    tokens = [register(server, user, f"d{i}") for i in range(3)]
    made = notify(server, user, {**HELLO, "devices": ["d1", "gone"]})
    await_counts(server, made, {"accepted": 1, "skipped": 1})
    assert dict(expo.delivered) == {tokens[1]: 1}


def test_a_user_without_devices_gets_nothing_and_it_is_done(server):
    made = notify(server, new_id())
    assert (made["messages"], made["state"]) == (0, "done")


def test_an_idempotency_key_sends_once(server, expo):
    user = new_id()
    token = register(server, user, "d")
    first = notify(server, user, Idempotency_Key="once-" + user)
    again = notify(server, user, Idempotency_Key="once-" + user)
    assert first["id"] == again["id"]
    await_counts(server, first, {"accepted": 1})
    assert expo.delivered[token] == 1


@pytest.mark.parametrize("what", ["suspend", "delete"])
def test_a_user_that_is_not_active_gets_nothing(server, expo, what):
    user = new_id()
    ok(server, "POST", "/v1/users", {"id": user})
    register(server, user, "d")
    if what == "suspend":
        ok(server, "POST", f"/v1/users/{user}/suspend")
    else:
        assert call(server, "DELETE", f"/v1/users/{user}")[0] in (200, 204)
    status, answer, _ = call(server, "POST", f"/v1/users/{user}/notify", HELLO)
    assert (status, answer["type"]) == (409, "urn:gatehouse:problem:wrong-state"), answer
    assert expo.calls == 0


LEAVING = {
    "suspended": lambda server, user: ok(server, "POST", f"/v1/users/{user}/suspend"),
    "erased": lambda server, user: call(server, "POST", f"/v1/users/{user}/erase"),
    "signed out": lambda server, user: ok(server, "POST", f"/v1/users/{user}/devices/d/deactivate"),
    "device deleted": lambda server, user: ok(server, "DELETE", f"/v1/users/{user}/devices/d"),
    "devices erased": lambda server, user: ok(server, "DELETE", f"/v1/users/{user}/devices"),
    "token moved": lambda server, user: ok(server, "PUT", f"/v1/users/{new_id()}/devices/d", {"platform": "ios", "expoPushToken": token_of(f"{user}-d")}),
    "signed out literally": lambda server, user: literal_deactivate(ddb_of(server), "device-tokens", user, "d"),
    "deleted literally": lambda server, user: literal_delete(ddb_of(server), "device-tokens", user, "d"),
}


def held_back(server, expo):
    """Expo asks for an hour's patience: nothing is sent until let_go."""
    expo.plan.append(lambda _tokens: (429, {"errors": [{"code": "TOO_MANY_REQUESTS"}]}, {"Retry-After": "3600"}))
    register(server, "decoy", "d")
    decoy = notify(server, "decoy")
    eventually(lambda: expo.calls == 1 and ok(server, "GET", f"/v1/notifications/{decoy['id']}")["counts"]["queued"] == 1)


def let_go(server, expo, **settings):
    """A section that changes is a new beginning."""
    server.write(url=expo.url, allow_private=True, **{"rate": 601, **settings})
    server.process.send_signal(signal.SIGHUP)


def test_one_who_leaves_while_the_message_waits_gets_nothing(alone, own):
    held_back(alone, own)
    waiting, stays = {}, new_id()
    for how in LEAVING:
        user = waiting[how] = new_id()
        ok(alone, "POST", "/v1/users", {"id": user})
        register(alone, user, "d")
    register(alone, stays, "d")
    made = {how: notify(alone, user) for how, user in waiting.items()}
    other = notify(alone, stays)
    for how, user in waiting.items():
        LEAVING[how](alone, user)
    let_go(alone, own)
    for how in LEAVING:
        await_counts(alone, made[how], {"skipped": 1})
    await_counts(alone, other, {"accepted": 1})
    assert set(own.delivered) <= {token_of(f"{stays}-d"), token_of("decoy-d")}


@pytest.mark.parametrize("body, field", [
    ({**HELLO, "titel": "x"}, "titel"),
    ({}, "title"),
    ({**HELLO, "priority": "urgent"}, "priority"),
    ({**HELLO, "ttl": -1}, "ttl"),
    ({**HELLO, "ttl": 28 * 86400 + 1}, "ttl"),
    ({**HELLO, "badge": -1}, "badge"),
    ({**HELLO, "data": "text"}, "data"),
    ({**HELLO, "sound": 1}, "sound"),
    ({**HELLO, "richContent": {"image": "x", "video": "y"}}, "richContent.video"),
    ({**HELLO, "devices": []}, "devices"),
    ({**HELLO, "devices": ["a", "a"]}, "devices"),
    ({**HELLO, "devices": [str(i) for i in range(101)]}, "devices"),
])
def test_a_mistake_is_named_by_its_field(server, body, field):
    status, answer, _ = call(server, "POST", "/v1/users/u/notify", body)
    assert status in (400, 422) and field in answer["detail"], answer


def test_a_message_of_4096_bytes_is_taken_and_one_byte_more_is_not(server):
    room = 4096 - len(json.dumps({"title": "Hello", "body": ""}, separators=(",", ":")))
    assert call(server, "POST", "/v1/users/u/notify", {"title": "Hello", "body": "x" * room})[0] == 202
    status, answer, _ = call(server, "POST", "/v1/users/u/notify", {"title": "Hello", "body": "x" * (room + 1)})
    assert status == 413 and "4096" in answer["detail"], answer


def test_without_a_section_push_it_is_refused_clearly():
    server = Server()
    try:
        for path in ("/v1/users/u/notify", "/v1/notifications"):
            status, answer, _ = call(server, "POST", path, HELLO)
            assert status == 409 and "no section `push`" in answer["detail"], answer
        assert ok(server, "GET", "/v1/notifications")["notifications"] == []
    finally:
        server.close()


def test_a_row_that_somebody_else_wrote_gets_nothing_on_a_phone_that_another_has_registered_since(server, expo):
    pat, sam = new_id(), new_id()
    token = token_of("phone-" + pat)
    register(server, new_id(), "d")  # the first one makes the table
    literal_put(ddb_of(server), "device-tokens", pat, "phone", token, expires=int(time.time()) + 86400)
    await_counts(server, notify(server, pat), {"accepted": 1})
    ok(server, "PUT", f"/v1/users/{sam}/devices/phone", {"platform": "ios", "expoPushToken": token})
    await_counts(server, notify(server, pat), {"skipped": 1})
    await_counts(server, notify(server, sam), {"accepted": 1})
    later = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() + 60))
    literal_refresh(ddb_of(server), "device-tokens", pat, "phone", token, later)  # and back: seen later
    await_counts(server, notify(server, pat), {"accepted": 1})
    assert expo.delivered[token] == 3


def test_rows_that_others_wrote_wrongly_neither_get_messages_nor_keep_others_from_theirs(server, expo):
    user, ddb = new_id(), ddb_of(server)
    token, literal = register(server, user, "good"), str(uuid.uuid4())
    odd = {"no-token": {}, "a-number": {"expoPushToken": {"N": "1"}}, "a-list": {"expoPushToken": {"L": []}}, "a-word": {"expoPushToken": {"S": "token"}},
           "too-long": {"expoPushToken": {"S": f"ExponentPushToken[{'x' * 300000}]"}}, "twice": {"expoPushToken": {"S": token}},
           "as-text": {"expoPushToken": {"S": token_of("x")}, "isActive": {"S": "true"}}, "no-state": {"expoPushToken": {"S": token_of("y")}},
           "gone": {"expoPushToken": {"S": token_of("z")}, "isActive": {"BOOL": True}, "expiresAt": {"N": "1"}},
           "control\nx": {"expoPushToken": {"S": literal}}, "x" * 1000: {"expoPushToken": {"S": token_of("long-id-" + user)}}}
    for device, row in odd.items():
        state = {} if device in ("as-text", "no-state", "gone") else {"isActive": {"BOOL": True}}
        ddb.put_item(TableName="device-tokens", Item={"userId": {"S": user}, "deviceId": {"S": device}, **state, **row})
    done = await_counts(server, notify(server, user), {"queued": 0, "sending": 0})
    assert dict(expo.delivered) == {token: 1, literal: 1, token_of("long-id-" + user): 1}, done
    assert (done["counts"]["accepted"], done["counts"]["failed"], expo.calls) == (3, 0, 1)
    assert len(ok(server, "GET", f"/v1/users/{user}/devices?include=inactive")["devices"]) == len(odd)  # all but the one that has expired, and the good one
    page = ok(server, "GET", f"/v1/subjects/{user}")
    assert len(page["registered_devices"]) == len(odd)
    ok(server, "PUT", f"/v1/users/{user}/devices/a-word", {"platform": "ios", "expoPushToken": token_of("mended-" + user)})
    assert is_active(server, user, "a-word")
    ok(server, "DELETE", f"/v1/users/{user}/devices")
    assert ok(server, "GET", f"/v1/users/{user}/devices?include=inactive")["devices"] == []


# ---- what Expo gets ----


def sdk(expo, **what):
    done = subprocess.run(["node", "push.mjs"], cwd=JS, input=json.dumps(what), capture_output=True, text=True, check=False,
                          env={**os.environ, "EXPO_BASE_URL": expo.url})
    assert done.returncode == 0, done.stderr


def compared(request):
    """What must be alike."""
    path, headers, body = request
    named = {name.lower(): value for name, value in headers.items()}
    return path, named.get("authorization"), named["content-type"], named["accept"], named.get("content-encoding"), body


FIELDS = {"title": "Hello", "subtitle": "a", "body": "Ünïcode \"quoted\" \\ 🚀", "data": {"n": 1, "x": [1.5, None, True, {"y": "z"}]}, "sound": "default",
          "ttl": 2000, "expiration": 4102444800, "priority": "high", "badge": 3, "channelId": "c", "categoryId": "k", "collapseId": "q",
          "mutableContent": True, "interruptionLevel": "time-sensitive", "richContent": {"image": "https://example.org/i.png"}, "tag": "t", "icon": "i",
          "_contentAvailable": True}
MESSAGES = {"plain": (HELLO, 1), "all fields": (FIELDS, 1), "no sound": ({**HELLO, "sound": None}, 1), "data": ({"data": {"only": "data"}}, 2),
            "gzip": ({**HELLO, "body": "long " * 300}, 1), "hundred": (HELLO, 100),
            "critical": ({**HELLO, "sound": {"critical": True, "name": "a", "volume": 0.5}}, 1)}


@pytest.fixture
def guarded(tmp_path):
    """A project that demands an access token."""
    expo = Expo(token="secret-1")
    (tmp_path / "expo.token").write_text("secret-1\n")
    made = Pusher(expo, access_token_file=str(tmp_path / "expo.token"))
    made.expo = expo
    yield made
    made.close()
    expo.close()


def test_each_request_is_what_expos_own_client_sends_for_the_same_message(guarded):
    expo, sets = guarded.expo, []
    for message, devices in MESSAGES.values():
        user = new_id()
        tokens = sorted(register(guarded, user, f"d{i:03}") for i in range(devices))
        await_counts(guarded, notify(guarded, user, message), {"accepted": devices})
        sets.append([{"to": tokens if devices > 1 else tokens[0], **message}])
    sdk(expo, sets=sets, accessToken="secret-1")
    ours, theirs = expo.requests[:len(sets)], expo.requests[len(sets):]
    assert len(theirs) == len(sets)
    for name, (message, devices), mine, other in zip(MESSAGES, MESSAGES.values(), map(compared, ours), map(compared, theirs)):
        if devices > 1:
            mine[-1][0]["to"].sort()
        if "ttl" in message:  # what is left of it
            assert 0 <= message["ttl"] - mine[-1][0]["ttl"] <= END_S
            mine[-1][0]["ttl"] = message["ttl"]
        assert mine == other, name


def test_the_request_for_receipts_is_what_expos_own_client_sends(timed, own):
    user = new_id()
    for i in range(3):
        register(timed, user, f"d{i}")
    made = notify(timed, user)
    await_counts(timed, made, {"accepted": 3})
    timed.clock.passes(901)
    await_counts(timed, made, {"delivered": 3})
    sdk(own, receipts=sorted(own.receipts))
    ours, theirs = (compared(request) for request in own.requests if request[0].endswith("getReceipts"))
    ours[-1]["ids"].sort()
    assert ours == theirs


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


def stopped(server):
    server.v1.close()
    server.process.terminate()
    assert server.process.wait(END_S) == 0
    server.process.stdout.close()


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


def metric(server, name):
    text = server.v1.send("GET", "/metrics").body.decode()
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " ") or line.startswith(name + "{"))


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


# ---- receipts, and the end of waiting: on a clock that is moved ----


@pytest.fixture
def timed(own):
    clock = Clock()
    os.environ["GATEHOUSE_TEST_CLOCK"] = clock.path
    try:
        server = Pusher(own)
    finally:
        del os.environ["GATEHOUSE_TEST_CLOCK"]
    server.clock = clock
    yield server
    server.close()


def receipts_asked(expo):
    return sum(path.endswith("getReceipts") for path, _, _ in expo.requests)


def test_receipts_come_after_15_minutes_and_disable_dead_tokens(timed, own):
    user = new_id()
    tokens = [register(timed, user, f"d{i}") for i in range(4)]
    own.dead_later.add(tokens[1])
    own.not_ready.add(tokens[2])
    made = notify(timed, user)
    await_counts(timed, made, {"accepted": 4})
    assert receipts_asked(own) == 0
    timed.clock.passes(901)
    done = await_counts(timed, made, {"delivered": 2, "failed": 1, "accepted": 1})
    assert done["errors"] == {"DeviceNotRegistered": 1}
    own.not_ready.clear()
    timed.clock.passes(901)
    assert await_counts(timed, made, {"delivered": 3, "failed": 1})["state"] == "done"
    eventually(lambda: not is_active(timed, user, "d1"))
    assert is_active(timed, user, "d0")


def test_a_receipt_that_never_comes_is_given_up_after_a_day(timed, own):
    user = new_id()
    own.not_ready.add(register(timed, user, "d"))
    made = notify(timed, user)
    await_counts(timed, made, {"accepted": 1})
    timed.clock.passes(86400)
    assert await_counts(timed, made, {"unconfirmed": 1})["state"] == "done"


def test_what_could_not_be_sent_in_its_time_has_expired(timed, own):
    user = new_id()
    token = register(timed, user, "d")
    own.plan.append("throttle")
    made = notify(timed, user, {**HELLO, "ttl": 60})
    eventually(lambda: own.calls > 0)
    timed.clock.passes(61)
    await_counts(timed, made, {"expired": 1})
    assert own.delivered[token] == 0


# ---- erasing ----


def test_after_an_erase_nothing_of_the_user_is_left_in_the_queue(alone):
    server = alone
    user, other = new_id(), new_id()
    register(server, user, "d")
    register(server, other, "d")
    done = await_counts(server, notify(server, user), {"accepted": 1})
    made = call(server, "POST", "/v1/notifications", HELLO)[1]
    await_counts(server, made, {"accepted": 2})
    job = call(server, "POST", f"/v1/users/{user}/erase")[1]
    eventually(lambda: ok(server, "GET", f"/v1/jobs/{job['id']}")["state"] == "done")
    for table, found in rows(server).items():  # `user.erased` is for those who have to erase theirs
        assert table == "gatehouse-revocations" or not [row for row in found if user in row and '"user.erased"' not in row], table
    assert "userId" not in ok(server, "GET", f"/v1/notifications/{done['id']}")
    assert ok(server, "GET", f"/v1/notifications/{made['id']}")["counts"]["accepted"] == 2


def test_after_all_devices_were_erased_no_message_holds_them_and_what_waits_goes_to_nobody(server, expo):
    user, other = new_id(), new_id()
    token, others = register(server, user, "d"), register(server, other, "d")
    await_counts(server, notify(server, user), {"accepted": 1})
    expo.plan.append("throttle")
    waits, stays = notify(server, user), notify(server, other)
    answer = ok(server, "DELETE", f"/v1/users/{user}/devices")
    eventually(lambda: ok(server, "GET", f"/v1/jobs/{answer['receipt']}")["state"] == "done")
    for table, found in rows(server).items():
        assert table == "gatehouse-events" or not [row for row in found if user in row or token in row], table
    done = await_counts(server, waits, {"queued": 0, "sending": 0})
    assert done["counts"]["skipped"] + done["counts"]["accepted"] == 1  # it may have been under way
    await_counts(server, stays, {"accepted": 1})
    assert expo.delivered[token] == 1 + done["counts"]["accepted"] and expo.delivered[others] == 1


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


def test_a_cancelled_broadcast_is_shown_so_in_the_list_too_and_sends_the_rest_once_when_resumed(alone, own):
    server, expo = alone, own
    tokens = register_many(server, 1200)
    made = call(server, "POST", "/v1/notifications", {**HELLO, "rate": 1})[1]
    eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["messages"] > 0)
    ok(server, "POST", f"/v1/jobs/{made['jobId']}/cancel")
    shown = ok(server, "GET", f"/v1/notifications/{made['id']}")
    listed = next(one for one in ok(server, "GET", "/v1/notifications")["notifications"] if one["id"] == made["id"])
    assert (shown["state"], listed["state"]) == ("cancelled", "cancelled") and shown["messages"] < 1200
    await_counts(server, made, {"accepted": shown["messages"]})
    server.kill()
    server.start()
    ok(server, "POST", f"/v1/jobs/{made['jobId']}/resume")
    eventually(lambda: ok(server, "GET", f"/v1/notifications/{made['id']}")["messages"] > shown["messages"])
    now = ok(server, "GET", f"/v1/notifications/{made['id']}")
    await_counts(server, made, {"accepted": now["messages"]})
    assert set(expo.delivered) <= set(tokens) and max(expo.delivered.values()) == 1


def test_a_full_queue_refuses_what_does_not_fit_and_a_broadcast_goes_on_once_there_is_room(own):
    server = Pusher(own, queue=1000)
    try:
        tokens = register_many(server, 900)
        several = [register(server, "several", f"d{i}") for i in range(60)]
        held_back(server, own)
        made = call(server, "POST", "/v1/notifications", HELLO)[1]
        eventually(lambda: queued(server) > 500)  # the next page of 500 does not fit
        taken = 0
        while taken < 20:
            status, answer, headers = call(server, "POST", "/v1/users/several/notify", HELLO)
            if status != 202:
                break
            taken += 1
        assert status == 503 and "retry-after" in {name.lower() for name in headers}, (status, answer)
        before = queued(server)
        assert call(server, "POST", "/v1/users/several/notify", HELLO)[0] == 503 and queued(server) == before <= 1000
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
    server = Pusher(expo, rate=50)
    try:
        fill_rate(server, expo)
        pat, sam = new_id(), new_id()
        token = register(server, pat, "phone")
        made = notify(server, pat)
        ok(server, "PUT", f"/v1/users/{sam}/devices/phone", {"platform": "ios", "expoPushToken": token})
        await_counts(server, made, {"skipped": 1})
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
