"""Push messages over HTTP, with a stand-in for Expo: who gets one, and each request compared with what Expo's own client sends. What goes wrong is in
test_push_failures.py; broadcasts, kills and settings that change are in test_push_broadcasts.py."""

import json
import os
import subprocess
import time
import uuid

import pytest

from pusher import (  # noqa: F401: some are fixtures
    END_S, HELLO, JS, alone, await_counts, eventually, expo, guarded, held_back, is_active, let_go, notify, own, register, server, shared, timed,
    token_of,
)
from test_push_devices import ddb_of, literal_deactivate, literal_delete, literal_put, literal_refresh
from test_users import call, new_id, ok, rows
from v1 import Server

pytestmark = pytest.mark.gatehouse_only


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
    assert not any('"RATE"' in row for row in rows(server)["gatehouse-push"])  # nothing is shared, and nothing written for it
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


FCM, APNS = "f" * 40 + ":APA91b", "a1" * 32


def test_devices_that_get_nothing_are_counted_by_reason(server, expo):
    user = new_id()
    token = register(server, user, "expo")
    ok(server, "PUT", f"/v1/users/{user}/devices/fcm", {"platform": "android", "fcmToken": FCM + user})
    ok(server, "PUT", f"/v1/users/{user}/devices/apns", {"platform": "ios", "apnsToken": APNS})
    register(server, user, "off")
    ok(server, "POST", f"/v1/users/{user}/devices/off/deactivate")
    literal_put(ddb_of(server), "device-tokens", user, "literal", "no token")
    made = notify(server, user)
    assert (made["messages"], made["devices"]) == (1, 5)
    assert made["leftOut"] == {"noExpoToken": 2, "inactive": 1, "badExpoToken": 1}
    named = notify(server, user, {**HELLO, "devices": ["fcm", "gone"]})
    assert (named["devices"], named["leftOut"]) == (1, {"noExpoToken": 1, "notFound": 1})
    assert ok(server, "GET", f"/v1/notifications/{named['id']}")["leftOut"] == named["leftOut"]
    await_counts(server, made, {"accepted": 1})
    assert dict(expo.delivered) == {token: 1}
    nobody = notify(server, new_id())
    assert (nobody["messages"], nobody["devices"], nobody["leftOut"]) == (0, 0, {})


def test_a_broadcast_counts_devices_without_a_token_of_expos_also_in_a_dry_run(alone, own):
    register(alone, "ann", "d", "android")
    ok(alone, "PUT", "/v1/users/ann/devices/fcm", {"platform": "android", "fcmToken": FCM})
    for dry in (False, True):
        made = call(alone, "POST", "/v1/notifications", {**HELLO, "dryRun": dry})[1]
        eventually(lambda made=made: ok(alone, "GET", f"/v1/notifications/{made['id']}")["devices"] == 2)
        assert ok(alone, "GET", f"/v1/notifications/{made['id']}")["leftOut"] == {"noExpoToken": 1}
    await_counts(alone, call(alone, "POST", "/v1/notifications", HELLO)[1], {"accepted": 1})


def test_a_token_of_expos_may_be_a_uuid(server, expo):
    user, token = new_id(), str(uuid.uuid4())
    ok(server, "PUT", f"/v1/users/{user}/devices/d", {"platform": "ios", "expoPushToken": token})
    await_counts(server, notify(server, user), {"accepted": 1})
    assert expo.delivered[token] == 1
    feedback = ok(server, "POST", "/v1/devices/feedback", {"results": [{"token": token, "error": "DeviceNotRegistered"}]})
    assert feedback["outcomes"] == ["disabled"] and not is_active(server, user, "d")


def test_a_malformed_token_spoils_no_other_entry_of_feedback(server):
    user = new_id()
    token = register(server, user, "d")
    results = [{"token": one, "error": "DeviceNotRegistered"} for one in ("nonsense", token, "x" * 5000, "")]
    answer = ok(server, "POST", "/v1/devices/feedback", {"results": results})
    assert answer["outcomes"] == ["invalid", "disabled", "invalid", "invalid"] and not is_active(server, user, "d")


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


# ---- receipts, and the end of waiting: on a clock that is moved ----


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
