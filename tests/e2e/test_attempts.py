"""POST /v1/attempts with the real server: the rows of the documents, read back with boto3; races; retries, also across a
kill; what is refused, and that then nothing is counted; and that nothing personal is stored or logged."""

import hashlib
import json
import os
import re
import socket
import time
import uuid
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest

from helpers import all_items, get, is_marker, n, s
from v1 import Crowd, Server, attempt, request_bytes

pytestmark = pytest.mark.gatehouse_only
ROUNDS = int(os.environ.get("RACE_ROUNDS", "1000"))
CROWD = 64
LIMIT = 6
TABLE = "auth-state"


@pytest.fixture
def own_server():
    """One whose process and files are this test's alone."""
    server = Server("--log-requests")
    yield server
    server.close()


def rows(ddb, subject):
    """All of a subject's, by sort key. "history" is Gatehouse's own, beside what the documents draw."""
    try:
        items = all_items(ddb.query, TableName=TABLE, ConsistentRead=True, KeyConditionExpression="PK = :p",
                          ExpressionAttributeValues={":p": s(subject)})
    except ddb.exceptions.ResourceNotFoundException:
        return {}
    return {item.pop("SK")["S"]: {name: value for name, value in item.items() if name != "history"}
            for item in items if not is_marker(item)}


# ---- the rows ----

MFA = "MFA_CODE_ENTRY"
CHANGE = "VERIFY_CHANGE_HOW_GET_SECURITY_CODES"

# journey, type, how many, notification_type, mfa_method_type, sort key, life of the count
SEED_000 = [
    ("SIGN_IN", MFA, 2, "MFA_SMS", "SMS", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 900),
    ("REAUTHENTICATION", "PASSWORD_ENTRY", 1, None, None, "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY", 3600),
    ("ACCOUNT_CREATION", MFA, 3, "MFA_SMS", "SMS", "ACCOUNT_CREATION#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 3600),
    ("PASSWORD_RESET", "CODE_ENTRY", 2, "RESET_PASSWORD", "EMAIL", "PASSWORD_RESET#ERROR_COUNT#CODE_ENTRY", 900),
    ("ACCOUNT_RECOVERY", MFA, 4, CHANGE, "AUTH_APP", "ACCOUNT_RECOVERY#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP", 900),
    ("SIGN_IN", MFA, 1, "MFA_SMS", "AUTH_APP", "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#AUTH_APP", 900),
    ("PASSWORD_RESET_MFA", MFA, 2, "MFA_SMS", "SMS", "PASSWORD_RESET_MFA#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 900),
    ("REAUTHENTICATION", MFA, 3, "MFA_SMS", "SMS", "REAUTHENTICATION#ERROR_COUNT#MFA_CODE_ENTRY#SMS", 3600),
]
SEED_001 = [
    ("REAUTHENTICATION", "EMAIL_ENTRY", 1, None, None, "REAUTHENTICATION#ERROR_COUNT#EMAIL_ENTRY", 3600),
    ("REAUTHENTICATION", "PASSWORD_ENTRY", 2, None, None, "REAUTHENTICATION#ERROR_COUNT#PASSWORD_ENTRY", 3600),
    ("REAUTHENTICATION", "SECURITY_CODE_ENTRY", 3, None, None, "REAUTHENTICATION#ERROR_COUNT#SECURITY_CODE_ENTRY", 3600),
]


def details(notification, method):
    more = {"notification_type": notification, "method_type": method}
    return {name: value for name, value in more.items() if value}


def assert_times(row, began, life):
    """Takes the times out of a row, after comparing them with ours."""
    last, ends = int(row.pop("last_updated")["N"]), int(row.pop("ttl")["N"])
    assert began - 2 <= last <= time.time() + 2
    assert began - 2 + life <= ends <= last + life


@pytest.mark.parametrize("table", [SEED_000, SEED_001], ids=["seed_000", "seed_001"])
def test_every_count_of_the_example_tables_is_written_as_it_is_drawn(v1, ddb, subject, table):
    began = int(time.time())
    for journey, kind, count, notification, method, _, _ in table:
        v1.record(subject, kind, count, journey=journey, **details(notification, method))
    found = rows(ddb, subject)
    assert set(found) == {row[5] for row in table}
    for _, _, count, notification, method, key, life in table:
        row = found[key]
        assert_times(row, began, life)
        drawn = {"PK": s(subject), "count": n(count)}
        if notification:
            drawn["notification_type"] = s(notification)
        if method:
            drawn["mfa_method_type"] = s(method)
        assert row == drawn


def test_the_count_of_a_device_has_its_id_in_the_key(v1, ddb, subject):
    """The document's access paths: two devices of one subject, 3 and 2."""
    v1.record(subject, MFA, 3, method_id="EF444945-A8A9-4CBD-8E71-552C735E78A0", method_type="SMS")
    answer = v1.record(subject, MFA, 2, method_id="72CB4E28-CD8D-48A0-9899-02601480CE10", method_type="SMS")
    counts = answer["counts"][MFA]  # the one that is nearest to its maximum
    assert (counts["count"], counts["max"], counts["remaining"]) == (2, 6, 4)
    found = rows(ddb, subject)
    prefix = "SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY#"
    assert found[prefix + "EF444945-A8A9-4CBD-8E71-552C735E78A0"]["count"] == n(3)
    assert found[prefix + "72CB4E28-CD8D-48A0-9899-02601480CE10"]["count"] == n(2)


# journey, type, outcome, methods in the order they are tried, notification, sort key of the lock, kind, duration
LOCKS = [
    ("SIGN_IN", "PASSWORD_RESET_REQUEST", "sent", [None] * 6, None, "SIGN_IN#LOCK#PASSWORD_RESET", "STANDARD", 900),
    ("SIGN_IN", MFA, "failure", ["SMS", "AUTH_APP"] * 5 + ["SMS"], "MFA_SMS", "SIGN_IN#LOCK#MFA_CODE_ENTRY", "STANDARD", 900),
    ("PASSWORD_RESET", MFA, "failure", ["SMS"] * 6, "RESET_PASSWORD", "PASSWORD_RESET#LOCK#MFA_CODE_ENTRY", "STANDARD", 900),
    ("ACCOUNT_RECOVERY", MFA, "failure", ["SMS"] * 6, CHANGE, "ACCOUNT_RECOVERY#LOCK#MFA_CODE_ENTRY", "REDUCED", 300),
]


@pytest.mark.parametrize("journey,kind,outcome,methods,notification,key,block_type,duration", LOCKS,
                         ids=[lock[5] for lock in LOCKS])
def test_a_lock_of_the_example_table_is_written_as_it_is_drawn(v1, ddb, subject, journey, kind, outcome, methods,
                                                               notification, key, block_type, duration):
    began = int(time.time())
    for method in methods:
        answer = v1.record(subject, kind, outcome=outcome, journey=journey, **details(notification, method))
    assert answer["verdict"] == "locked" and answer["first_time"] and answer["counted"]
    assert answer["lock"]["kind"] == block_type and 0 < answer["retry_after"] <= duration
    found = rows(ddb, subject)
    assert set(found) == {key}  # it has taken the place of its counts
    row = found[key]
    assert int(row["ttl"]["N"]) == int(row["last_updated"]["N"]) + duration
    assert_times(row, began, duration)
    drawn = {"PK": s(subject), "count": n(1), "block_type": s(block_type), "block_duration": n(duration)}
    if methods[-1]:
        drawn["mfa_method_type"] = s(methods[-1])
    if notification:
        drawn["notification_type"] = s(notification)
    drawn["cause"], drawn["policy_version"] = s(f"{journey}/{kind}"), row["policy_version"]
    assert row == drawn


def test_code_requests_are_counted_by_notification_type(v1, ddb, subject):
    for journey, kind, notification in [("SIGN_IN", "MFA_CODE_REQUEST", "MFA_SMS"),
                                        ("SIGN_IN", "EMAIL_CODE_REQUEST", "VERIFY_EMAIL"),
                                        ("ACCOUNT_CREATION", "MFA_CODE_REQUEST", "VERIFY_PHONE_NUMBER"),
                                        ("PASSWORD_RESET", "EMAIL_CODE_REQUEST", "RESET_PASSWORD_WITH_CODE"),
                                        ("ACCOUNT_RECOVERY", "EMAIL_CODE_REQUEST", CHANGE)]:
        v1.record(subject, kind, 2, outcome="sent", journey=journey, notification_type=notification)
        row = rows(ddb, subject)[f"{journey}#REQUEST_COUNT#{kind}#{notification}"]
        assert row["count"] == n(2) and row["notification_type"] == s(notification)


def test_the_table_can_be_queried_by_prefix_as_the_documents_do(v1, ddb, subject):
    v1.record(subject, MFA, 2, method_type="SMS")
    v1.record(subject, MFA, 3, method_type="AUTH_APP")
    v1.record(subject, "EMAIL_CODE_ENTRY", 1)
    items = all_items(ddb.query, TableName=TABLE, KeyConditionExpression="PK = :p AND begins_with(SK, :s)",
                      ExpressionAttributeValues={":p": s(subject), ":s": s("SIGN_IN#ERROR_COUNT#MFA_CODE_ENTRY")})
    assert sum(int(item["count"]["N"]) for item in items) == 5


# ---- answers ----


def test_success_returns_what_it_cleared(v1, ddb, subject):
    v1.record(subject, times=5)
    answer = v1.record(subject, outcome="success")
    assert answer["verdict"] == "allow" and not answer["counted"]
    assert answer["cleared"] == [{"subject": subject, "key": "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY", "count": 5}]
    assert rows(ddb, subject) == {}


def test_enforce_status_turns_a_verdict_into_a_status(v1, subject):
    for number in range(1, 8):
        reply = v1.post("/v1/attempts?enforce=status", attempt(subject))
        assert reply.status == (200 if number < LIMIT else 423), reply.body
        assert reply.json()["counted"] == (number <= LIMIT)
    for _ in range(7):
        reply = v1.post("/v1/attempts?enforce=status", attempt(subject, journey="REAUTHENTICATION"))
    assert reply.status == 403 and reply.json()["verdict"] == "signed_out"


# ---- races ----


def verdicts_of(answers):
    bodies = [json.loads(body) for head, body in answers]
    assert all(head.startswith(b"HTTP/1.1 200 ") for head, _ in answers), answers[0]
    return bodies


def test_of_64_guesses_at_once_exactly_6_are_counted_in_every_round(endpoint, ddb):
    crowd = Crowd(endpoint, CROWD)
    for number in range(ROUNDS):
        subject = f"race-{uuid.uuid4().hex}"
        crowd.send(request_bytes("/v1/attempts", attempt(subject)))
        bodies = verdicts_of(crowd.answers())
        assert sum(body["counted"] for body in bodies) == LIMIT, f"round {number}"
        assert sum(body["first_time"] for body in bodies) == 1
        assert sorted(body["counts"]["PASSWORD_ENTRY"]["count"] for body in bodies if body["counted"]) == [1, 2, 3, 4, 5, 6]
        assert sum(body["verdict"] == "locked" for body in bodies) == CROWD - LIMIT + 1
        assert len({body["until"] for body in bodies if body["verdict"] == "locked"}) == 1
        if number % 50 == 0:
            assert set(rows(ddb, subject)) == {"SIGN_IN#LOCK#PASSWORD_ENTRY"}
    crowd.close()


def test_of_64_guesses_by_several_methods_exactly_11_are_counted(endpoint, ddb):
    """The sum over devices is as exact as one count."""
    crowd = Crowd(endpoint, CROWD)
    for _ in range(20):
        subject = f"race-{uuid.uuid4().hex}"
        for number, peer in enumerate(crowd.peers):
            peer.sendall(request_bytes("/v1/attempts", attempt(subject, MFA, method_id=f"device-{number % 16}")))
        bodies = verdicts_of(crowd.answers())
        assert sum(body["counted"] for body in bodies) == 11
        assert set(rows(ddb, subject)) == {"SIGN_IN#LOCK#MFA_CODE_ENTRY"}
    crowd.close()


# ---- retries ----


def storm_is_one(answers):
    """All the same answer, of which one is not a repetition."""
    assert all(head.startswith(b"HTTP/1.1 200 ") for head, _ in answers)
    assert len({body for _, body in answers}) == 1
    return sum(b"idempotency-replayed: true" not in head.lower() for head, _ in answers)


def test_a_storm_of_retries_counts_once(endpoint, ddb):
    crowd = Crowd(endpoint, CROWD)
    for _ in range(20):
        subject = f"storm-{uuid.uuid4().hex}"
        request = request_bytes("/v1/attempts", attempt(subject), Idempotency_Key=subject)
        crowd.send(request)
        assert storm_is_one(crowd.answers()) == 1
        crowd.send(request)
        assert storm_is_one(crowd.answers()) == 0
        assert rows(ddb, subject)["SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"]["count"] == n(1)
    crowd.close()


def count_of(server, subject):
    """Through DynamoDB's protocol, as the tests of tables do: a signature is not asked for here."""
    reply = server.v1.call("GetItem", {"TableName": TABLE, "ConsistentRead": True, "Key": {
        "PK": s(subject), "SK": s("SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY")}})
    return int(reply.json()["Item"]["count"]["N"])


def test_a_retry_after_a_kill_gets_the_first_answer_and_counts_once(own_server):
    first = own_server.v1.attempts(attempt("alice"), idempotency_key="one")
    assert first.status == 200 and "idempotency-replayed" not in first.headers
    own_server.kill()
    own_server.start()
    again = own_server.v1.attempts(attempt("alice"), idempotency_key="one")
    assert again.status == 200 and again.headers["idempotency-replayed"] == "true"
    assert again.body == first.body
    assert count_of(own_server, "alice") == 1
    other = own_server.v1.attempts(attempt("bob"), idempotency_key="one")
    assert other.status == 422 and other.json()["field"] == "Idempotency-Key"


def test_a_storm_that_a_kill_interrupts_counts_once(own_server):
    for number in range(5):
        subject = f"storm-{number}"
        request = request_bytes("/v1/attempts", attempt(subject), Idempotency_Key=subject)
        crowd = Crowd(own_server.endpoint, CROWD)
        crowd.send(request)
        Crowd.read(crowd.peers[0])  # at least one was answered: that one must last
        own_server.kill()
        crowd.close()
        own_server.start()
        crowd = Crowd(own_server.endpoint, CROWD)
        crowd.send(request)
        assert storm_is_one(crowd.answers()) == 0
        crowd.close()
        assert count_of(own_server, subject) == 1


def test_a_locked_answer_is_kept_like_any_other(v1, subject):
    v1.record(subject, times=5)
    first = v1.post("/v1/attempts?enforce=status", attempt(subject), idempotency_key=subject)
    assert first.status == 423 and first.json()["first_time"]
    again = v1.post("/v1/attempts?enforce=status", attempt(subject), idempotency_key=subject)
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (423, first.body, "true")


# ---- what is refused ----

LONG = "x" * 257
BAD = [
    # what is wrong, status, field
    ({"journey": "NOWHERE"}, 422, "journey"),
    ({"journey": None}, 422, "journey"),
    ({"journey": "sign_in"}, 422, "journey"),
    ({"journey": 7}, 400, "journey"),
    ({"journey": "A" * 65}, 422, "journey"),
    ({"type": "NOTHING"}, 422, "type"),
    ({"type": "SIGN_IN#LOCK"}, 422, "type"),
    ({"type": ["PASSWORD_ENTRY"]}, 400, "type"),
    ({"outcome": "maybe"}, 422, "outcome"),
    ({"outcome": "sent"}, 422, "outcome"),
    ({"outcome": None}, 422, "outcome"),
    ({"outcome": True}, 400, "outcome"),
    ({"type": "MFA_CODE_REQUEST", "outcome": "failure", "notification_type": "MFA_SMS"}, 422, "outcome"),
    ({"type": "MFA_CODE_REQUEST", "outcome": "sent"}, 422, "notification_type"),
    ({"type": "MFA_CODE_REQUEST", "outcome": "sent", "notification_type": "VERIFY_EMAIL"}, 422, "notification_type"),
    ({"type": "MFA_CODE_REQUEST", "outcome": "sent", "notification_type": "a#b"}, 422, "notification_type"),
    ({"subject": None}, 422, "subject"),
    ({"subject": ""}, 422, "subject"),
    ({"subject": LONG}, 422, "subject"),
    ({"subject": 7}, 400, "subject"),
    ({"subject": "email:someone@example.org"}, 422, "subject"),
    ({"subject": {"email": "nobody"}}, 422, "subject"),
    ({"subject": {"passport": "1"}}, 422, "subject"),
    ({"subjects": ["other"]}, 422, "subjects"),
    ({"subject": None, "subjects": []}, 422, "subjects"),
    ({"subject": None, "subjects": ["SUBJECT", "SUBJECT"]}, 422, "subjects"),
    ({"subject": None, "subjects": ["SUBJECT"] + [f"other-{i}" for i in range(8)]}, 422, "subjects"),
    ({"subject": None, "subjects": ["SUBJECT", 7]}, 400, "subjects"),
    ({"subject": None, "subjects": ["SUBJECT", None]}, 422, "subjects"),
    ({"subject": None, "subjects": "SUBJECT"}, 400, "subjects"),
    ({"method_id": "a#b"}, 422, "method_id"),
    ({"method_id": "a\n"}, 422, "method_id"),
    ({"method_id": "a" * 129}, 422, "method_id"),
    ({"method_type": "sms"}, 422, "method_type"),
    ({"context": {"ip": "not an address"}}, 422, "context.ip"),
    ({"context": {"ip": "1.2.3.4", "referrer": "x"}}, 422, "context.referrer"),
    ({"context": {"device": "cookie"}}, 422, "context.device"),
    ({"context": {"device_token": ""}}, 422, "context.device_token"),
    ({"context": {"device_token": "a" * 1025}}, 422, "context.device_token"),
    ({"context": {"device_token": 7}}, 400, "context.device_token"),
    ({"context": []}, 400, "context"),
    ({"times": 2}, 422, "times"),
]


def with_subject(value, subject):
    if value == "SUBJECT":
        return subject
    return [with_subject(one, subject) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("wrong,status,field", BAD, ids=[json.dumps(case[0])[:60] for case in BAD])
def test_what_is_wrong_is_named_and_nothing_is_counted(v1, ddb, subject, wrong, status, field):
    body = {**attempt(subject), **{name: with_subject(value, subject) for name, value in wrong.items()}}
    reply = v1.attempts(body)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"].startswith("application/problem+json")
    problem = reply.json()
    assert problem["field"] == field and field in problem["detail"] and problem["status"] == status
    assert rows(ddb, subject) == {}
    assert v1.record(subject)["counts"]["PASSWORD_ENTRY"]["count"] == 1


NOT_JSON = [b"", b"{", b"null", b"[]", b"7", b'"text"', b"\xff\xfe", b'{"journey":"SIGN_IN","subject":"a","subject":"a"}', b"{}{}", b"[" * 5000,
            b'{"a":' * 200 + b"1" + b"}" * 200, b'{"subject":"\\ud800"}', b'{"subject":1e999}']


@pytest.mark.parametrize("body", NOT_JSON, ids=[repr(body[:20]) for body in NOT_JSON])
def test_what_is_no_object_is_refused_as_malformed(v1, body):
    reply = v1.attempts(body)
    assert reply.status == 400, reply.body
    assert reply.headers["content-type"].startswith("application/problem+json")
    assert reply.json()["detail"]


def test_a_body_may_have_64_KB_and_no_more(v1, ddb, subject):
    room = 64 * 1024 - len(json.dumps(attempt(subject)))
    raw = json.dumps(attempt(subject)).encode()
    assert v1.attempts(raw + b" " * room).status == 200
    reply = v1.attempts(raw + b" " * (room + 1))
    assert reply.status == 413 and reply.json()["title"] == "Content Too Large"
    assert rows(ddb, subject)["SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"]["count"] == n(1)


def test_an_idempotency_key_has_1_to_255_bytes(v1, ddb, subject):
    assert v1.attempts(attempt(subject), idempotency_key="k" * 255).status == 200
    for key in ("", "k" * 256):
        reply = v1.attempts(attempt(subject), idempotency_key=key)
        assert reply.status == 422 and reply.json()["field"] == "Idempotency-Key", reply.body
    assert rows(ddb, subject)["SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"]["count"] == n(1)


def test_a_refused_request_leaves_its_key_free(v1, subject):
    key = uuid.uuid4().hex
    assert v1.attempts(attempt(subject, journey="NOWHERE"), idempotency_key=key).status == 422
    assert v1.attempts(attempt(subject), idempotency_key=key).status == 200


def test_subjects_that_are_the_same_person_once_normalised_are_one(v1, subject):
    emails = [{"email": f"{subject}@example.org"}, {"email": f"{subject.upper()}@EXAMPLE.org"}]
    body = attempt(None, subjects=emails)
    del body["subject"]
    reply = v1.attempts(body)
    assert reply.status == 422 and reply.json()["field"] == "subjects"


def test_other_methods_and_paths_are_answered_as_such(v1):
    assert v1.send("GET", "/v1/attempts").status == 405
    assert v1.send("GET", "/v1/attempts").headers["allow"] == "POST"
    assert v1.send("POST", "/v1/", b"{}").status == 404


def test_requests_sent_together_on_one_connection_follow_each_other_at_once(own_server):
    """Each waits for the one before it, and none for a clock that goes by once a second."""
    count, parts, received = 20, urlsplit(own_server.endpoint), b""
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as peer:
        began = time.monotonic()
        peer.sendall(b"".join(request_bytes("/v1/attempts", attempt(f"together-{i}")) for i in range(count)))
        while received.count(b'"counted":true') < count:
            more = peer.recv(65536)
            assert more, received
            received += more
    assert time.monotonic() - began < 6


@pytest.mark.parametrize("method, path, status", [("GET", "/v1/attempts", 405), ("GET", "/v1/nothing", 404), ("GET", "/v1/subjects/%zz", 400),
                                                  ("GET", "/nothing", 404), ("PUT", "/livez", 405)])
def test_what_no_route_takes_has_a_request_id_of_its_own_too(v1, method, path, status):
    replies = [v1.send(method, path) for _ in range(2)]
    assert [reply.status for reply in replies] == [status] * 2
    assert all(re.fullmatch("[A-Z0-9]{52}", reply.headers["x-request-id"]) for reply in replies)
    assert replies[0].headers["x-request-id"] != replies[1].headers["x-request-id"]


# ---- policies of one's own ----


def test_a_new_journey_needs_no_more_than_a_line_in_the_policies(tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("attempts:\n  locks: {STANDARD: {duration: 60}}\n  journeys:\n"
                        "    TRANSFER: {types: {PIN_ENTRY: {max: 2, life: 60}}}\n")
    server = Server("--policies", str(policies))
    try:
        answer = server.v1.record("a", "PIN_ENTRY", 2, journey="TRANSFER")
        assert answer["verdict"] == "locked" and answer["lock"]["name"] == "PIN_ENTRY"
        assert server.v1.attempts(attempt("a")).json()["field"] == "journey"
    finally:
        server.close()


# ---- nothing personal is stored or logged ----

EMAIL, PHONE, ADDRESS, DEVICE = "zaphod.b@example.org", "+442079460958", "203.0.113.77", "device-of-zaphod"
PERSONAL = [EMAIL, EMAIL.upper(), PHONE, PHONE[1:], ADDRESS, DEVICE]


def test_no_email_phone_address_or_device_reaches_a_row_a_log_or_an_error(own_server):
    v1, context = own_server.v1, {"ip": ADDRESS, "device_token": DEVICE}
    body = attempt({"email": EMAIL}, context=context)
    raw = json.dumps(body).encode()
    texts = [v1.attempts(raw, idempotency_key="k").body]
    for subject in ({"email": EMAIL}, {"phone": PHONE}, {"ip": ADDRESS}, {"device": DEVICE}):
        for outcome in ["failure"] * 7 + ["success"]:
            texts.append(v1.attempts(attempt(subject, outcome=outcome, context=context)).body)
    for wrong in ({"subject": f"email:{EMAIL}"}, {"subject": {"ip": EMAIL}}, {"subject": {"phone": EMAIL}},
                  {"context": {"ip": EMAIL}}, {"journey": EMAIL}, {"type": EMAIL}, {"outcome": EMAIL}, {"method_type": EMAIL},
                  {"notification_type": EMAIL}):
        reply = v1.attempts({**body, **wrong})
        assert reply.status == 422
        texts.append(reply.body)
    own_server.kill()  # so that what is in the log of the store stays there
    stored = list(own_server.stored())
    assert any(b"IDEMPOTENCY#" in file for file in stored) and any(b"email:" in file for file in stored)
    for what in PERSONAL:
        for text in [*texts, *stored, own_server.logged()]:
            assert what.encode() not in text, what
    # nor may someone who has the files try emails out: the digest of a request is keyed
    digests = [hashlib.sha256(prefix + raw).hexdigest().encode() for prefix in (b"2 /v1/attempts\n", b"/v1/attempts\n", b"")]
    assert not any(digest in file for digest in digests for file in stored)
    own_server.start()


def test_a_status_is_enforced_with_when_to_come_back_and_a_typo_is_refused(endpoint):
    body = json.dumps({"subject": "enforced", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}).encode()

    def post(query):
        try:
            return urllib.request.urlopen(urllib.request.Request(endpoint + "/v1/attempts" + query, body, method="POST"), timeout=10)
        except urllib.error.HTTPError as refused:
            return refused

    assert [post("?enforce=status").status for _ in range(6)] == [200] * 5 + [423]
    locked = post("?enforce=status")
    assert locked.status == 423 and 0 < int(locked.headers["Retry-After"]) <= 900
    assert post("").status == 200
    wrong = post("?enforce=yes")
    assert (wrong.status, json.load(wrong)["field"]) == (422, "enforce")
