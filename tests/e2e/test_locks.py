"""Locks, states and resets under /v1: every LOCK and STATE row of the documents, written here and read back with
boto3, attribute by attribute; lists, bulk unlock with a dry run; and bad input, which names its field and writes
nothing."""

import json
import time
import urllib.error
import urllib.request
import uuid
from urllib.parse import quote

import pytest

from helpers import all_items, is_marker, n, s

pytestmark = pytest.mark.gatehouse_only

TABLE = "auth-state"
TIMEOUT_S = 30


@pytest.fixture(scope="module")
def call(endpoint):
    """call("PUT", "/v1/…", {…}) -> (status, answer)"""

    def send(method, path, body=None, **headers):
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(endpoint + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return send


@pytest.fixture(scope="module")
def ok(call):
    def send(*args, **more):
        status, answer = call(*args, **more)
        assert status == 200, (status, answer)
        return answer

    return send


@pytest.fixture
def rows(ddb):
    """What the table holds of a subject, by sort key, without the keys."""

    def read(subject):
        try:
            items = all_items(
                ddb.query,
                TableName=TABLE,
                KeyConditionExpression="PK = :p",
                ExpressionAttributeValues={":p": s(subject)},
            )
        except ddb.exceptions.ResourceNotFoundException:
            return {}
        return {i.pop("SK")["S"]: {k: v for k, v in i.items() if k != "PK"}
                for i in items if not is_marker(i)}

    return read


def assert_row(row, expected, since, lasts=None):
    """The row has exactly these attributes; its times lie between `since` and now."""
    row = dict(row)
    updated = int(row.pop("last_updated")["N"])
    assert since <= updated <= int(time.time()) + 1
    if lasts is not None:
        assert int(row.pop("ttl")["N"]) == updated + lasts
    assert row == expected


def lock_path(subject, lock):
    return f"/v1/subjects/{quote(subject, safe='')}/locks/{lock}"


def attempt(ok, subject, journey, kind, **more):
    body = {"subject": subject, "journey": journey, "type": kind, "outcome": "failure", **more}
    return ok("POST", "/v1/attempts", body)


# ---- every row of the documents ----


DOCUMENT_LOCKS = [
    ("SIGN_IN", "PASSWORD_RESET", "STANDARD", 900, None, None),
    ("SIGN_IN", "MFA_CODE_ENTRY", "STANDARD", 900, "MFA_SMS", "SMS"),
    ("ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", "REDUCED", 300, "VERIFY_CHANGE_HOW_GET_SECURITY_CODES", "AUTH_APP"),
    ("PASSWORD_RESET", "MFA_CODE_ENTRY", "STANDARD", 900, "RESET_PASSWORD", "SMS"),
]


@pytest.mark.parametrize("journey,name,kind,lasts,notification,method", DOCUMENT_LOCKS)
def test_a_lock_is_the_row_that_the_document_draws(ok, rows, subject, journey, name, kind, lasts, notification, method):
    since = int(time.time())
    body = {"kind": kind}
    expected = {"count": n(1), "block_type": s(kind), "block_duration": n(lasts), "set_by": s("an operator")}
    if notification:
        body.update(notification_type=notification, method_type=method)
        expected.update(notification_type=s(notification), mfa_method_type=s(method))
    answer = ok("PUT", lock_path(subject, f"{journey}/{name}"), body)
    assert answer["verdict"] == "locked" and answer["subject"] == subject
    assert lasts - 30 <= answer["retry_after"] <= lasts
    assert answer["lock"]["journey"] == journey and answer["lock"]["name"] == name
    assert answer["lock"]["kind"] == kind and answer["lock"]["until"] == answer["until"]
    held = rows(subject)
    assert list(held) == [f"{journey}#LOCK#{name}"]
    assert_row(held[f"{journey}#LOCK#{name}"], expected, since, lasts)
    assert ok("DELETE", lock_path(subject, f"{journey}/{name}")) == {"cleared": True}
    assert ok("DELETE", lock_path(subject, f"{journey}/{name}")) == {"cleared": False}
    assert rows(subject) == {}


def asked(ok, subject, journey="SIGN_IN"):
    answer = ok("POST", "/v1/check", {"subject": subject, "journey": journey, "actions": ["PASSWORD_ENTRY"]})
    return answer["verdict"], answer.get("retry_after")


def test_a_check_says_when_the_last_of_all_that_stands_against_her_ends(ok, subject):
    for _ in range(6):
        ok("POST", "/v1/attempts", {"subject": subject, "journey": "REAUTHENTICATION", "type": "PASSWORD_ENTRY", "outcome": "failure"})
    verdict, longest = asked(ok, subject, "REAUTHENTICATION")
    assert verdict == "signed_out" and longest > 600
    ok("PUT", f"/v1/subjects/{subject}/states/email_fraud", {"state": "DENY", "duration": 60})
    verdict, wait = asked(ok, subject, "REAUTHENTICATION")
    assert verdict == "blocked" and longest - 30 <= wait <= longest
    assert asked(ok, subject) == ("blocked", pytest.approx(60, abs=30))
    ok("PUT", lock_path(subject, "AUTHENTICATION/SIGN_IN"), {"kind": "PERMANENT"})
    assert asked(ok, subject) == ("blocked", None)


def test_a_check_is_asked_about_each_action_once(call, subject):
    body = {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY", "PASSWORD_ENTRY"]}
    status, problem = call("POST", "/v1/check", body)
    assert status == 422 and problem["field"] == "actions" and "twice" in problem["detail"]
    assert call("POST", "/v1/check", {**body, "actions": ["PASSWORD_ENTRY"], "limits": None})[0] == 200


def test_the_two_locks_of_the_second_document_one_held_and_one_open(ok, rows, subject):
    since = int(time.time())
    assert ok("PUT", lock_path(subject, "AUTHENTICATION/SIGN_IN"), {"kind": "PERMANENT"})["verdict"] == "locked_permanent"
    assert ok("PUT", lock_path(subject, "AUTHENTICATION/PASSWORD_RESET"), {"locked": False})["verdict"] == "allow"
    held = rows(subject)
    assert len(held) == 2
    assert_row(held["AUTHENTICATION#LOCK#SIGN_IN"], {"count": n(1), "block_type": s("PERMANENT"), "set_by": s("an operator")}, since)
    assert_row(held["AUTHENTICATION#LOCK#PASSWORD_RESET"], {"count": n(0)}, since)
    seen = ok("GET", f"/v1/subjects/{subject}")
    assert [lock["name"] for lock in seen["locks"]] == ["SIGN_IN"]


def test_a_blocked_account_is_the_row_that_the_document_draws(ok, rows, subject):
    since = int(time.time())
    answer = ok("PUT", f"/v1/subjects/{subject}/states/intervention", {"blocked": True, "applied_at": since})
    assert answer["applied"] is True
    assert answer["states"] == {"blocked": True, "suspended": False, "reprove_identity": False, "reset_password": False}
    drawn = {
        "count": n(1),
        "block_type": s("PERMANENT"),
        "intervention_state": s("BLOCKED"),
        "applied_at": n(since),
    }
    assert_row(rows(subject)["ACCOUNT_INTERVENTION#STATE#BLOCKED"], drawn, since)
    verdict = attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")
    assert (verdict["verdict"], verdict["reason"], verdict["counted"]) == ("blocked", "intervention_blocked", False)


def test_an_email_denied_for_fraud_is_the_row_that_the_document_draws(ok, rows, subject):
    since = int(time.time())
    answer = ok("PUT", f"/v1/subjects/{subject}/states/email_fraud", {"state": "DENY"})
    assert answer["state"] == "DENY" and 870 <= answer["retry_after"] <= 900 and answer["until"]
    drawn = {
        "count": n(1),
        "block_type": s("STANDARD"),
        "block_duration": n(900),
        "intervention_state": s("FRAUD_BLOCKED"),
    }
    held = rows(subject)
    assert list(held) == ["EMAIL_FRAUD#STATE#BLOCKED"]
    assert_row(held["EMAIL_FRAUD#STATE#BLOCKED"], drawn, since, 900)
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["reason"] == "email_fraud_denied"


# ---- locks ----


BARRED = [
    ("SIGN_IN", "PASSWORD_ENTRY", "PASSWORD_ENTRY", {}),
    ("SIGN_IN", "EMAIL_CODE_ENTRY", "EMAIL_CODE_ENTRY", {}),
    ("SIGN_IN", "MFA_CODE_ENTRY", "MFA_CODE_ENTRY", {"method_type": "SMS"}),
    ("SIGN_IN", "MFA_CODE_REQUEST", "MFA_CODE_REQUEST", {"outcome": "sent", "notification_type": "MFA_SMS"}),
    ("SIGN_IN", "PASSWORD_RESET", "PASSWORD_RESET_REQUEST", {"outcome": "sent"}),
    ("ACCOUNT_RECOVERY", "MFA_CODE_ENTRY", "MFA_CODE_ENTRY", {"method_type": "SMS"}),
    ("PASSWORD_RESET", "CODE_ENTRY", "CODE_ENTRY", {}),
]


@pytest.mark.parametrize("journey,lock,kind,more", BARRED)
def test_a_lock_set_by_hand_bars_what_it_is_for(ok, subject, journey, lock, kind, more):
    until = ok("PUT", lock_path(subject, f"{journey}/{lock}"), {"kind": "STANDARD", "duration": 4000})["until"]
    answer = attempt(ok, subject, journey, kind, **more)
    assert (answer["verdict"], answer["counted"], answer["until"]) == ("locked", False, until)
    ok("DELETE", lock_path(subject, f"{journey}/{lock}"))
    answer = attempt(ok, subject, journey, kind, **more)
    assert (answer["verdict"], answer["counted"]) == ("allow", True)


def test_a_lock_of_one_method_leaves_the_others(ok, rows, subject):
    path = lock_path(subject, "SIGN_IN/MFA_CODE_ENTRY")
    ok("PUT", path, {"kind": "STANDARD", "qualifier": "device 1/ä"})
    assert list(rows(subject)) == ["SIGN_IN#LOCK#MFA_CODE_ENTRY#device 1/ä"]
    assert attempt(ok, subject, "SIGN_IN", "MFA_CODE_ENTRY", method_id="device 1/ä")["verdict"] == "locked"
    assert attempt(ok, subject, "SIGN_IN", "MFA_CODE_ENTRY", method_id="device 2")["verdict"] == "allow"
    assert ok("DELETE", path) == {"cleared": False}
    assert ok("DELETE", path + "?qualifier=" + quote("device 1/ä", safe="")) == {"cleared": True}


def test_a_lock_is_set_once_however_often_the_request_is_repeated(ok, ddb, subject):
    path = lock_path(subject, "SIGN_IN/PASSWORD_ENTRY")
    key = uuid.uuid4().hex
    answers = [ok("PUT", path, {"kind": "GROWING"}, Idempotency_Key=key) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    level = {"PK": s(subject), "SK": s("SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY")}
    assert ddb.get_item(TableName=TABLE, Key=level, ConsistentRead=True)["Item"]["count"] == n(1)


def listed(ok, query, pages_max=50):
    """Every lock of a list, following the cursor."""
    found, cursor = [], ""
    for _ in range(pages_max):
        page = ok("GET", f"/v1/locks?{query}{cursor}")
        found += page["locks"]
        if not page["more"]:
            assert "cursor" not in page
            return found
        cursor = "&cursor=" + page["cursor"]
    raise AssertionError("the list has no end")


def test_locks_of_all_subjects_are_listed_page_by_page(ok, subject):
    mine = [f"{subject}-{i}" for i in range(7)]
    for one in mine:
        ok("PUT", lock_path(one, "ACCOUNT_MANAGEMENT/EMAIL_CODE_ENTRY"), {"kind": "REDUCED"})
    ok("PUT", lock_path(mine[0], "ACCOUNT_MANAGEMENT/PASSWORD_ENTRY"), {"kind": "PERMANENT"})
    found = [lock for lock in listed(ok, "journey=ACCOUNT_MANAGEMENT&limit=3") if lock["subject"].startswith(subject)]
    assert sorted((lock["subject"], lock["name"]) for lock in found) == sorted(
        [(one, "EMAIL_CODE_ENTRY") for one in mine] + [(mine[0], "PASSWORD_ENTRY")]
    )
    one = next(lock for lock in found if lock["subject"] == mine[1])
    assert set(one) == {"subject", "journey", "name", "lane", "kind", "set_by", "since", "until", "retry_after", "enforced"}
    assert one["kind"] == "REDUCED" and one["lane"] == "subject" and 0 < one["retry_after"] <= 300
    named = [lock for lock in listed(ok, "name=PASSWORD_ENTRY") if lock["subject"].startswith(subject)]
    assert [lock["kind"] for lock in named] == ["PERMANENT"]
    assert "until" not in named[0]


# ---- bulk unlock ----


def test_unlock_of_subjects_says_first_what_it_would_do(ok, rows, subject):
    source = {"ip": "192.0.2.9"}
    for _ in range(6):
        attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY", context=source)
    for _ in range(6):
        attempt(ok, subject, "SIGN_IN", "EMAIL_CODE_ENTRY")
    before = rows(subject)
    body = {"subjects": [subject, "nobody"], "dry_run": True}
    would = ok("POST", "/v1/unlock", body)
    assert rows(subject) == before
    assert would["dry_run"] is True and would["more"] is False
    lanes = sorted((lock["name"], lock["lane"]) for lock in would["unlocked"])
    assert lanes == [("EMAIL_CODE_ENTRY", "subject"), ("PASSWORD_ENTRY", "subject")]
    only = ok("POST", "/v1/unlock", {**body, "where": {"journey": "SIGN_IN", "name": "EMAIL_CODE_ENTRY"}})
    assert [lock["name"] for lock in only["unlocked"]] == ["EMAIL_CODE_ENTRY"]
    done = ok("POST", "/v1/unlock", {**body, "dry_run": False})
    assert [(k["name"], k["lane"], k["until"]) for k in done["unlocked"]] == [
        (k["name"], k["lane"], k["until"]) for k in would["unlocked"]
    ]
    assert not [key for key in rows(subject) if "LOCK" in key]
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY", context=source)["verdict"] == "allow"


def test_unlock_of_a_journey_goes_on_with_its_cursor(ok, rows, subject):
    mine = [f"{subject}-{i}" for i in range(5)]
    for one in mine:
        ok("PUT", lock_path(one, "AUTHENTICATION/SIGN_IN"), {"kind": "STANDARD"})
    body = {"where": {"journey": "AUTHENTICATION", "name": "SIGN_IN", "kind": "STANDARD"}, "limit": 2}
    for _ in range(50):
        page = ok("POST", "/v1/unlock", body)
        assert len(page["unlocked"]) <= 2
        if not page["more"]:
            break
        body["cursor"] = page["cursor"]
    assert not page["more"]
    assert all(rows(one) == {} for one in mine)


# ---- what a person set, a person lifts ----


def test_who_set_a_lock_and_why_is_kept_and_shown(ok, rows, subject):
    who, why = "x" * 128, "y" * 256
    answer = ok("PUT", lock_path(subject, LOCK), {"kind": "PERMANENT", "set_by": who, "reason": why})
    assert answer["set_by"] == who
    held = rows(subject)["SIGN_IN#LOCK#PASSWORD_ENTRY"]
    assert (held["set_by"], held["reason"]) == (s(who), s(why))
    listed_one = next(lock for lock in listed(ok, "journey=SIGN_IN") if lock["subject"] == subject)
    explained = ok("GET", f"/v1/subjects/{subject}/explain")["locks"][0]
    for shown in (listed_one, explained, ok("GET", f"/v1/subjects/{subject}")["locks"][0]):
        assert (shown["set_by"], shown["reason"]) == (who, why)
    assert explained["enforced"] is True
    assert 'POST /v1/subjects/{id}/reset {"reset": "PASSWORD", "operator_locks": true}' in explained["unlocked_by"]


def test_a_reset_leaves_a_lock_that_an_operator_set_unless_it_is_asked_to(ok, subject):
    ok("PUT", lock_path(subject, LOCK), {"kind": "PERMANENT"})
    reset = ok("POST", f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD"})
    assert reset["cleared"] == [] and reset["operator_locks_kept"] == 1 and reset["more"] is False
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "locked_permanent"
    reset = ok("POST", f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD", "operator_locks": True})
    assert [row["key"] for row in reset["cleared"]] == ["SIGN_IN#LOCK#PASSWORD_ENTRY"] and "operator_locks_kept" not in reset
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


@pytest.mark.parametrize("where", [{"set_by": "carol"}, {"kind": "PERMANENT"}, {"journey": "SIGN_IN", "kind": "PERMANENT", "set_by": "carol"}])
def test_a_bulk_unlock_leaves_a_lock_that_an_operator_set_unless_it_is_asked_to(ok, subject, where):
    for _ in range(6):
        attempt(ok, subject, "SIGN_IN", "EMAIL_CODE_ENTRY")
    ok("PUT", lock_path(subject, LOCK), {"kind": "PERMANENT", "set_by": "carol"})
    for body in ({"subjects": [subject], "dry_run": True}, {"subjects": [subject], "where": {"journey": "SIGN_IN"}}):
        unlocked = ok("POST", "/v1/unlock", body)
        assert [lock["name"] for lock in unlocked["unlocked"]] == ["EMAIL_CODE_ENTRY"]
        assert unlocked["operator_locks_kept"] == 1
    other = ok("POST", "/v1/unlock", {"subjects": [subject], "where": {**where, "set_by": "dave"}})
    assert other["unlocked"] == [] and "operator_locks_kept" not in other
    asked_to = ok("POST", "/v1/unlock", {"subjects": [subject], "where": where})
    assert [lock["name"] for lock in asked_to["unlocked"]] == ["PASSWORD_ENTRY"]
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


def test_a_lock_of_a_source_set_by_hand_stops_it_whatever_the_rules_count(ok, subject):
    address = f"198.51.100.{int(subject[-2:], 16)}"
    source = ok("POST", "/v1/subjects/lookup", {"subject": {"ip": address}})["subject"]
    ok("PUT", lock_path(source, "SIGN_IN/EMAIL_CODE_ENTRY"), {"kind": "PERMANENT"})
    assert ok("GET", f"/v1/subjects/{source}/explain")["locks"][0]["enforced"] is True
    here = attempt(ok, subject, "SIGN_IN", "EMAIL_CODE_ENTRY", context={"ip": address})
    assert (here["verdict"], here["counted"]) == ("locked_permanent", False)
    asked = {"subject": subject, "journey": "SIGN_IN", "actions": ["EMAIL_CODE_ENTRY"], "context": {"ip": address}}
    assert ok("POST", "/v1/check", asked)["verdict"] == "locked_permanent"
    assert attempt(ok, subject, "SIGN_IN", "EMAIL_CODE_ENTRY", context={"ip": "203.0.113.1"})["verdict"] == "allow"
    ok("DELETE", lock_path(source, "SIGN_IN/EMAIL_CODE_ENTRY"))
    ok("PUT", lock_path(source, "AUTHENTICATION/SIGN_IN"), {"kind": "PERMANENT"})
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY", context={"ip": address})["verdict"] == "locked_permanent"


# ---- states ----


def test_interventions_are_applied_in_the_order_of_applied_at(ok, subject):
    path = f"/v1/subjects/{subject}/states/intervention"
    assert ok("PUT", path, {"suspended": True, "applied_at": "2026-01-02T03:04:05Z"})["applied"] is True
    late = ok("PUT", path, {"suspended": False, "blocked": True, "applied_at": "2026-01-02T05:04:04+02:00"})
    assert late["applied"] is False and late["reason"] == "older_than_latest"
    assert late["latest_applied_at"] == "2026-01-02T03:04:05Z"
    assert late["states"]["suspended"] is True and late["states"]["blocked"] is False
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["reason"] == "intervention_suspended"
    assert ok("PUT", path, {"suspended": False, "applied_at": 1767323045})["states"]["suspended"] is False
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


def test_a_fraud_state_takes_the_place_of_another(ok, rows, subject):
    path = f"/v1/subjects/{subject}/states/email_fraud"
    for state, row in (("DENY", "BLOCKED"), ("PENDING", "PENDING"), ("ALLOW", "ALLOWED")):
        ok("PUT", path, {"state": state})
        assert list(rows(subject)) == [f"EMAIL_FRAUD#STATE#{row}"]
    assert ok("PUT", path, {"state": "DENY", "duration": 50})["retry_after"] <= 50
    assert ok("DELETE", path) == {"cleared": True, "states": ["DENY"]}
    assert ok("DELETE", path) == {"cleared": False, "states": []}
    assert rows(subject) == {}


# ---- resets ----


def test_a_password_reset_clears_counts_and_locks_and_ends_the_demand(ok, rows, subject):
    now = int(time.time())
    states = f"/v1/subjects/{subject}/states/intervention"
    for _ in range(6):
        attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")
    attempt(ok, subject, "REAUTHENTICATION", "PASSWORD_ENTRY")
    attempt(ok, subject, "SIGN_IN", "EMAIL_CODE_ENTRY")
    ok("PUT", states, {"reset_password": True, "reprove_identity": True, "applied_at": now - 100})
    answer = ok("POST", f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD"})
    assert answer == {
        "reset": "PASSWORD",
        "cleared": [
            {"subject": subject, "key": "SIGN_IN#LOCK#PASSWORD_ENTRY", "count": 1},
            {"subject": subject, "key": "SIGN_IN#LOCK_LEVEL#PASSWORD_ENTRY", "count": 1},
            {"subject": subject, "key": "AUTHENTICATION#LOCK#CONSECUTIVE_FAILURES", "count": 8},
            {"subject": subject, "key": "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY", "count": 1},
        ],
        "devices_forgotten": 0,
        "demand_ended": True,
        "more": False,
    }
    held = rows(subject)
    assert sorted(held) == [
        "ACCOUNT_INTERVENTION#APPLIED#LATEST",
        "ACCOUNT_INTERVENTION#RESET#PASSWORD",
        "ACCOUNT_INTERVENTION#STATE#REPROVE_IDENTITY",
        "ACCOUNT_MANAGEMENT#RESET#PASSWORD_ENTRY",
        "REAUTHENTICATION#RESET#PASSWORD_ENTRY",
        "SIGN_IN#ERROR_COUNT#EMAIL_CODE_ENTRY",
        "SIGN_IN#RESET#PASSWORD_ENTRY",
    ]
    reset_at = int(held["ACCOUNT_INTERVENTION#RESET#PASSWORD"]["reset_at"]["N"])
    late = ok("PUT", states, {"reset_password": True, "applied_at": reset_at - 1})
    assert late["applied"] is True and late["void"] == ["reset_password"]
    assert late["states"]["reset_password"] is False and late["states"]["reprove_identity"] is True
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


def signed_in(ok, subject):
    body = {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "success"}
    return ok("POST", "/v1/attempts", body)


@pytest.mark.parametrize("demand,reset", [("reset_password", "PASSWORD"), ("reprove_identity", "IDENTITY")])
def test_a_user_who_does_what_is_demanded_is_let_in(ok, subject, demand, reset):
    states = f"/v1/subjects/{subject}/states/intervention"
    applied = {"suspended": True, demand: True, "applied_at": int(time.time())}
    ok("PUT", states, applied)
    let_in_to_comply = signed_in(ok, subject)
    assert (let_in_to_comply["verdict"], let_in_to_comply["required"]) == ("allow", [demand])
    answer = ok("POST", f"/v1/subjects/{subject}/reset", {"reset": reset})
    assert answer["demand_ended"] is True and answer["suspension_ended"] is True
    after = signed_in(ok, subject)
    assert after["verdict"] == "allow" and "required" not in after
    again = ok("PUT", states, applied)  # told twice
    assert sorted(again["void"]) == sorted([demand, "suspended"]) and not any(again["states"].values())
    assert signed_in(ok, subject)["verdict"] == "allow"


def test_an_attempt_tells_what_a_check_tells_of_states(ok, subject):
    states = f"/v1/subjects/{subject}/states"
    ok("PUT", f"{states}/intervention", {"reset_password": True, "reprove_identity": True, "applied_at": int(time.time())})
    ok("PUT", f"{states}/email_fraud", {"state": "PENDING"})
    asked = ok("POST", "/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    for answer in (asked, signed_in(ok, subject), attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")):
        assert answer["required"] == ["reset_password", "reprove_identity"] and answer["email_fraud_pending"] is True


# ---- bad input ----

LOCK, STANDARD = "SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"}

BAD = [
    ("PUT", "locks/NO_JOURNEY/PASSWORD_ENTRY", STANDARD, 422, "journey"),
    ("PUT", "locks/sign_in/PASSWORD_ENTRY", STANDARD, 422, "journey"),
    ("PUT", "locks/SIGN_IN/NO_LOCK", STANDARD, 422, "name"),
    ("PUT", "locks/SIGN_IN/" + "A" * 65, STANDARD, 422, "name"),
    ("PUT", "locks/SIGN_IN/A%23B", STANDARD, 422, "name"),
    ("PUT", "locks/SIGN_IN/%F0%9F%94%92", STANDARD, 422, "name"),
    ("PUT", "locks/SIGN_IN/A%ZZ", STANDARD, 400, None),
    ("PUT", "locks/SIGN_IN/A%FF", STANDARD, 400, None),
    ("PUT", f"locks/{LOCK}", None, 400, None),
    ("PUT", f"locks/{LOCK}", [], 400, None),
    ("PUT", f"locks/{LOCK}", b'{"kind": ', 400, None),
    ("PUT", f"locks/{LOCK}", {}, 422, "kind"),
    ("PUT", f"locks/{LOCK}", {"kind": 5}, 400, "kind"),
    ("PUT", f"locks/{LOCK}", {"kind": "ETERNAL"}, 422, "kind"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "duration": "900"}, 400, "duration"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "duration": 0}, 422, "duration"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "duration": 10**12}, 422, "duration"),
    ("PUT", f"locks/{LOCK}", {"kind": "PERMANENT", "duration": 5}, 422, "duration"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "qualifier": "a#b"}, 422, "qualifier"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "qualifier": "x" * 129}, 422, "qualifier"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "method_type": "sms"}, 422, "method_type"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "until": 5}, 422, "until"),
    ("PUT", f"locks/{LOCK}", {"locked": False, "kind": "STANDARD"}, 422, "kind"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "locked": "no"}, 400, "locked"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "qualifier": "phone-1"}, 422, "qualifier"),
    ("PUT", "locks/AUTHENTICATION/SIGN_IN", {**STANDARD, "qualifier": "phone-1"}, 422, "qualifier"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "reason": "x" * 257}, 422, "reason"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "reason": "a\nb"}, 422, "reason"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "set_by": "x" * 129}, 422, "set_by"),
    ("PUT", f"locks/{LOCK}", {**STANDARD, "set_by": "a\tb"}, 422, "set_by"),
    ("DELETE", "locks/SIGN_IN/NO_LOCK", None, 422, "name"),
    ("DELETE", f"locks/{LOCK}?qualifier=", None, 422, "qualifier"),
    ("DELETE", f"locks/{LOCK}?qualifier=a%23b", None, 422, "qualifier"),
    ("DELETE", f"locks/{LOCK}?qualifier=%ZZ", None, 422, "qualifier"),
    ("DELETE", f"locks/{LOCK}", {}, 400, None),
    ("PUT", "states/intervention", {"applied_at": 5}, 422, None),
    ("PUT", "states/intervention", {"blocked": True}, 422, "applied_at"),
    ("PUT", "states/intervention", {"blocked": 1, "applied_at": 5}, 400, "blocked"),
    ("PUT", "states/intervention", {"blocked": True, "applied_at": -1}, 422, "applied_at"),
    ("PUT", "states/intervention", {"blocked": True, "applied_at": 5.5}, 422, "applied_at"),
    ("PUT", "states/intervention", {"blocked": True, "applied_at": "yesterday"}, 422, "applied_at"),
    ("PUT", "states/intervention", {"blocked": True, "applied_at": "2099-01-01T00:00:00Z"}, 422, "applied_at"),
    ("PUT", "states/intervention", {"blocked": True, "frozen": True, "applied_at": 5}, 422, "frozen"),
    ("PUT", "states/email_fraud", {}, 422, "state"),
    ("PUT", "states/email_fraud", {"state": "DENIED"}, 422, "state"),
    ("PUT", "states/email_fraud", {"state": True}, 400, "state"),
    ("PUT", "states/email_fraud", {"state": "PENDING", "duration": 5}, 422, "duration"),
    ("PUT", "states/email_fraud", {"state": "DENY", "duration": 0}, 422, "duration"),
    ("PUT", "states/weather", {"state": "DENY"}, 422, "family"),
    ("DELETE", "states/weather", None, 422, "family"),
    ("POST", "reset", {}, 422, "reset"),
    ("POST", "reset", {"reset": "EVERYTHING"}, 422, "reset"),
    ("POST", "reset", {"reset": "PASSWORD", "hard": True}, 422, "hard"),
    ("POST", "reset", {"reset": ["PASSWORD"]}, 400, "reset"),
    ("POST", "reset", {"reset": "PASSWORD", "operator_locks": "yes"}, 400, "operator_locks"),
]


@pytest.mark.parametrize("method,path,body,status,field", BAD)
def test_bad_input_is_refused_by_name_and_writes_nothing(call, ok, rows, subject, method, path, body, status, field):
    ok("PUT", lock_path(subject, "AUTHENTICATION/SIGN_IN"), STANDARD)
    before = rows(subject)
    got, problem = call(method, f"/v1/subjects/{subject}/{path}", body)
    assert (got, problem["status"], problem.get("field")) == (status, status, field), problem
    assert rows(subject) == before


BAD_LISTS = [
    ("GET", "/v1/locks?journey=NO_JOURNEY", None, 422, "journey"),
    ("GET", "/v1/locks?journey=", None, 422, "journey"),
    ("GET", "/v1/locks?journey=SIGN_IN&name=NO_LOCK", None, 422, "name"),
    ("GET", "/v1/locks?name=NO_LOCK", None, 422, "name"),
    ("GET", "/v1/locks?limit=0", None, 422, "limit"),
    ("GET", "/v1/locks?limit=501", None, 422, "limit"),
    ("GET", "/v1/locks?limit=ten", None, 422, "limit"),
    ("GET", "/v1/locks?cursor=", None, 422, "cursor"),
    ("GET", "/v1/locks?cursor=nonsense", None, 422, "cursor"),
    ("GET", "/v1/locks?cursor=%ZZ", None, 422, "cursor"),
    ("POST", "/v1/unlock", {}, 422, "subjects"),
    ("POST", "/v1/unlock", {"subjects": []}, 422, "subjects"),
    ("POST", "/v1/unlock", {"subjects": "alice"}, 400, "subjects"),
    ("POST", "/v1/unlock", {"subjects": [5]}, 400, "subjects"),
    ("POST", "/v1/unlock", {"subjects": [str(i) for i in range(51)]}, 422, "subjects"),
    ("POST", "/v1/unlock", {"where": {}}, 422, "where.journey"),
    ("POST", "/v1/unlock", {"where": {"journey": "NO_JOURNEY"}}, 422, "where.journey"),
    ("POST", "/v1/unlock", {"where": {"journey": "SIGN_IN", "name": "NO_LOCK"}}, 422, "where.name"),
    ("POST", "/v1/unlock", {"where": {"journey": "SIGN_IN", "kind": "ETERNAL"}}, 422, "where.kind"),
    ("POST", "/v1/unlock", {"where": {"name": "SIGN_IN", "kind": "STANDARD"}}, 422, "where.journey"),
    ("POST", "/v1/unlock", {"where": {"set_by": "x" * 129}}, 422, "where.set_by"),
    ("POST", "/v1/unlock", {"subjects": ["a"], "limit": 46}, 422, "limit"),
    ("POST", "/v1/unlock", {"subjects": ["a"], "dry_run": "yes"}, 400, "dry_run"),
    ("POST", "/v1/unlock", {"subjects": ["a"], "cursor": "nonsense"}, 422, "cursor"),
]


@pytest.mark.parametrize("method,path,body,status,field", BAD_LISTS)
def test_bad_lists_are_refused_by_name(call, method, path, body, status, field):
    got, problem = call(method, path, body)
    assert (got, problem["status"], problem.get("field")) == (status, status, field), problem


def test_fifty_subjects_and_five_hundred_locks_are_not_too_many(ok):
    assert ok("POST", "/v1/unlock", {"subjects": [f"nobody-{i}" for i in range(50)]})["unlocked"] == []
    ok("GET", "/v1/locks?limit=500")


# ---- failures in a row ----


def streak_put(ddb, subject, failures):
    ddb.put_item(TableName=TABLE, Item={"PK": s(subject), "SK": s("AUTHENTICATION#LOCK#CONSECUTIVE_FAILURES"), "count": n(0),
                                        "failures": {"M": {"SIGN_IN/PASSWORD_ENTRY": n(failures)}}, "ttl": n(int(time.time()) + 1000)})


def test_the_hundredth_failure_in_a_row_locks_until_an_operator_clears_it(ok, ddb, subject):
    attempt(ok, "someone-else", "SIGN_IN", "PASSWORD_ENTRY")  # makes the table
    streak_put(ddb, subject, 99)
    answer = attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")
    assert (answer["verdict"], answer["reason"], answer["first_time"]) == ("locked_permanent", "too_many_failures", True)
    lock = next(l for l in listed(ok, "journey=AUTHENTICATION&name=CONSECUTIVE_FAILURES") if l["subject"] == subject)
    assert (lock["journey"], lock["name"], lock["kind"]) == ("AUTHENTICATION", "CONSECUTIVE_FAILURES", "PERMANENT")
    assert lock["cause"] == "SIGN_IN/PASSWORD_ENTRY"
    explained = ok("GET", f"/v1/subjects/{subject}/explain")["locks"][0]
    assert explained["enforced"] and any("PASSWORD" in way for way in explained["unlocked_by"])
    ok("DELETE", lock_path(subject, "AUTHENTICATION/CONSECUTIVE_FAILURES"))
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


def test_the_hundredth_that_is_only_begun_and_was_right_locks_nobody(ok, ddb, subject):
    attempt(ok, "someone-else", "SIGN_IN", "PASSWORD_ENTRY")
    streak_put(ddb, subject, 99)
    begun = ok("POST", "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    refused = ok("POST", "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    assert refused["reason"] == "too_many_failures"
    assert ok("POST", "/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": "success"})["verdict"] == "allow"
    assert attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["verdict"] == "allow"


def test_an_operators_lock_by_the_name_of_failures_in_a_row_is_permanent_and_leaves_the_count(ok, call, ddb, subject):
    attempt(ok, "someone-else", "SIGN_IN", "PASSWORD_ENTRY")
    streak_put(ddb, subject, 97)
    path = lock_path(subject, "AUTHENTICATION/CONSECUTIVE_FAILURES")
    status, problem = call("PUT", path, {"kind": "STANDARD"})
    assert (status, problem["field"]) == (422, "kind"), problem
    ok("PUT", path, {"kind": "PERMANENT"})
    assert ok("DELETE", path)["cleared"]
    told = attempt(ok, subject, "SIGN_IN", "PASSWORD_ENTRY")["counts"]["PASSWORD_ENTRY"]
    assert (told["count"], told["max"], told["remaining"], told["of"]) == (98, 100, 2, "AUTHENTICATION/CONSECUTIVE_FAILURES")
    checked = ok("POST", "/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    assert checked["actions"]["PASSWORD_ENTRY"]["of"] == "AUTHENTICATION/CONSECUTIVE_FAILURES"
