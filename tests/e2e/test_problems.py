"""Errors under /v1, as a program sees them: a type to switch on, the field that is wrong, and nothing done.

Also what is no error: a number that is whole however it is spelt, and a retry that is the same request in other bytes.
"""
import json
import uuid

import pytest

from helpers import n
from v1 import V1, Server, attempt
from wire import Wire

pytestmark = pytest.mark.gatehouse_only

TYPE = "urn:gatehouse:problem:"


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def v1(server):
    connection = V1(server.endpoint)
    yield connection
    connection.close()


@pytest.fixture
def subject():
    return uuid.uuid4().hex


def counted(v1, subject):
    """How often this subject failed, as the server knows it."""
    return sum(row["count"] for row in v1.send("GET", f"/v1/subjects/{subject}").json()["counts"])


# ---- what was probably meant ----


@pytest.mark.parametrize("path, body, field, meant", [
    ("/v1/attempts", attempt("a", journey="SIGNIN"), "journey", "did you mean SIGN_IN?"),
    ("/v1/attempts", {**attempt("a"), "type": "PASWORD_ENTRY"}, "type", "did you mean PASSWORD_ENTRY?"),
    ("/v1/check", {"subject": "a", "journey": "SIGN_INN", "actions": ["PASSWORD_ENTRY"]}, "journey", "did you mean SIGN_IN?"),
    ("/v1/check", {"subject": "a", "journey": "SIGN_IN", "actions": ["MFA_CODE_ENTRI"]}, "actions", "did you mean MFA_CODE_ENTRY?"),
    ("/v1/attempts", {**attempt("a"), "jurney": "SIGN_IN"}, "jurney", "did you mean `journey`?"),
    ("/v1/attempts", {"subjct" if name == "subject" else name: value for name, value in attempt("a").items()}, "subject", "you sent `subjct`"),
    ("/v1/allow", {"polciy": "login-ip", "key": "k"}, "policy", "you sent `polciy`"),
    ("/v1/users", {"emial": "a@example.org"}, "emial", "did you mean `email`?"),
])
def test_a_mistyped_journey_type_or_field_is_answered_with_what_was_probably_meant(v1, path, body, field, meant):
    problem = v1.post(path, body)
    assert (problem.json()["field"], problem.json()["detail"].endswith(meant)) == (field, True), problem.json()


@pytest.mark.parametrize("path, body, field, remedy", [
    ("/v1/attempts", {**attempt("a"), "subject": None}, "subject", "send `subject`, or a list of `subjects`"),
    ("/v1/attempts", {**attempt("a"), "subject": None, "subjects": [None]}, "subjects", "each entry is an id, or an object like"),
    ("/v1/attempts", {**attempt("a"), "subject": None, "subjects": ["a", None]}, "subjects", "must not contain null"),
    ("/v1/subjects/a/reset", {"reset": "PASSWORD", "subjects": [None]}, "subjects", "must not contain null"),
    ("/v1/unlock", {"subjects": [None]}, "subjects", "must not contain null"),
    ("/v1/unlock", {"where": {"journey": "SIGN_IN", "name": "PASSWORD_ENTRY", "kind": "STANDARD", "set_by": "x", "a": 1}}, "where.a", "unknown field"),
    ("/v1/allow", {"key": "k", "per": "minute"}, "limit", "`per` needs the limit"),
    ("/v1/allow", {"key": "k"}, "policy", "name a policy, or send a `limit`"),
    ("/v1/allow", {"all": [{"key": "k", "per": "minute"}]}, "all[0].limit", "`per` needs the limit"),
    ("/v1/allow", {"policy": "custom", "key": "k", "per": "minute"}, "limit", "`per` needs the limit"),
])
def test_what_is_missing_or_null_is_named_with_what_to_send(v1, path, body, field, remedy):
    problem = v1.post(path, body)
    assert (problem.status, problem.json()["field"], remedy in problem.json()["detail"]) == (422, field, True), problem.json()


def test_an_unknown_field_beside_all_known_ones_is_named(v1):
    context = {"ip": "192.0.2.1", "device_token": "x", "device_id": "y", "remember_device": True, "risk": 1, "a": 1, "b": 1, "c": 1, "d": 1}
    problem = v1.attempts({**attempt("a"), "context": context}).json()
    assert problem["field"] == "context.a" and "unknown field" in problem["detail"], problem


def test_a_name_that_is_close_to_none_is_answered_with_where_the_names_are(v1):
    assert "the policies list them" in v1.attempts(attempt("a", journey="ELSEWHERE")).json()["detail"]
    assert "has no type" in v1.attempts({**attempt("a"), "type": "ELSEWHERE"}).json()["detail"]


# ---- types ----


@pytest.mark.parametrize("method, path, body, headers, status, kind", [
    ("POST", "/v1/attempts", attempt("a", journey="NOWHERE"), {}, 422, "invalid-value"),
    ("POST", "/v1/attempts", b"{", {}, 400, "malformed-request"),
    ("POST", "/v1/attempts", attempt(7), {}, 400, "malformed-request"),
    ("POST", "/v1/attempts", b" " * 65537, {}, 413, "too-large"),
    ("GET", "/v1/nothing", None, {}, 404, "not-found"),
    ("GET", "/v1/policies/nothing", None, {}, 404, "not-found"),
    ("GET", "/v1/subjects/%", None, {}, 400, "malformed-request"),
    ("PATCH", "/v1/attempts", None, {}, 405, "method-not-allowed"),
    ("GET", "/nothing", None, {}, 404, "not-found"),
    ("PUT", "/v1/policies/attempts", {"journeys": {}}, {}, 428, "version-required"),
    ("PUT", "/v1/policies/attempts", {"journeys": {}}, {"If-Match": '"77"'}, 412, "stale-version"),
])
def test_an_error_has_a_type_of_its_own(v1, method, path, body, headers, status, kind):
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    reply = v1.send(method, path, raw, headers)
    problem = reply.json()
    assert (reply.status, problem["status"], problem["type"]) == (status, status, TYPE + kind), problem
    assert reply.headers["content-type"] == "application/problem+json"


def test_what_the_http_server_refuses_has_a_type_too(server):
    wire = Wire(server.endpoint)
    reply = wire.send("GET", "/v1/locks", headers={"Expect": "the-unexpected"})
    assert (reply.status, reply.json()["type"]) == (417, TYPE + "http")
    wire.close()


def test_what_is_too_large_for_the_http_server_is_a_problem_under_v1_and_dynamodbs_elsewhere(server):
    wire = Wire(server.endpoint)
    length = {"Content-Length": str(1 << 40)}
    reply = wire.send("POST", "/v1/attempts", headers=length)
    assert (reply.status, reply.json()["type"], reply.json()["status"]) == (413, TYPE + "too-large", 413)
    reply = wire.send("POST", "/", headers=length)
    assert (reply.status, reply.error) == (413, "RequestEntityTooLarge")
    wire.close()


def test_two_conflicts_are_told_apart(tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("limits: {few: {limit: 5, per: day}}\n")
    server = Server("--policies", str(policies))
    reply = server.v1.send("PUT", "/v1/policies/limits", b"{}", {"If-Match": '"0"'})
    assert (reply.status, reply.json()["type"]) == (409, TYPE + "policies-from-file")
    server.v1.call("CreateTable", {"TableName": "auth-state", "BillingMode": "PAY_PER_REQUEST",
                                   "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
                                   "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]})
    reply = server.v1.attempts(attempt("a"))
    assert (reply.status, reply.json()["type"]) == (409, TYPE + "table-has-other-keys")
    server.close()


# ---- query parameters ----


@pytest.mark.parametrize("method, path, name", [
    ("POST", "/v1/attempts?enforced=status", "enforced"),
    ("POST", "/v1/check?enforce=status&verbose", "verbose"),
    ("GET", "/v1/locks?journy=SIGN_IN", "journy"),
    ("POST", "/v1/unlock?dry_run=true", "dry_run"),
    ("DELETE", "/v1/subjects/a/locks/SIGN_IN/PASSWORD_ENTRY?journey=SIGN_IN", "journey"),
    ("GET", "/v1/subjects/a/explain?prefix=A", "prefix"),
    ("GET", "/v1/limits/top?maximum=5", "maximum"),
    ("GET", "/v1/authz?policy=login-ip&key=a&ip=192.0.2.1", "ip"),
    ("GET", "/v1/locks?Journey=SIGN_IN", "Journey"),
    ("GET", "/v1/locks?journey=SIGN_IN&journey=REAUTHENTICATION", "journey"),
    ("GET", "/v1/locks?=SIGN_IN", ""),
])
def test_an_unknown_query_parameter_is_refused_by_name(v1, method, path, name):
    reply = v1.send(method, path, json.dumps(attempt("a")).encode() if method == "POST" else None)
    problem = reply.json()
    assert (reply.status, problem["type"], problem.get("field", "")) == (422, TYPE + "invalid-value", name), problem
    assert "?" + name in problem["detail"]


def test_a_call_with_an_unknown_query_parameter_does_nothing(v1, subject):
    assert v1.post("/v1/attempts?enforced=status", attempt(subject)).status == 422
    assert counted(v1, subject) == 0


def test_the_query_that_a_proxy_passes_on_is_the_clients_own_business(v1):
    asked = {"X-Gatehouse-Policy": "login-ip", "X-Gatehouse-Key": "a"}
    assert v1.send("GET", "/v1/authz/page?any=thing&any=thing", headers=asked).status == 200


# ---- numbers ----


@pytest.mark.parametrize("spelling", ["1", "1.0", "1e0", "10e-1"])
def test_a_whole_number_may_be_spelt_in_any_way(v1, subject, spelling):
    reply = v1.post("/v1/allow", b'{"policy": "login-ip", "key": "%s", "cost": %s}' % (subject.encode(), spelling.encode()))
    assert reply.status == 200 and reply.json()["results"][0]["remaining"] == 19, reply.body


@pytest.mark.parametrize("cost, status, text", [
    ("1.5", 422, "cost: must be a whole number from 0 to 1000000000"),
    ("18446744073709551615", 422, "cost: must be a whole number from 0 to 1000000000"),
    ("-1.0", 422, "cost: must be from 0 to 1000000000, not -1"),
    ('"1"', 400, "cost: must be a whole number, not a string"),
])
def test_a_number_that_will_not_do_is_told_why(v1, cost, status, text):
    reply = v1.post("/v1/allow", b'{"policy": "login-ip", "key": "k", "cost": %s}' % cost.encode())
    assert (reply.status, reply.json()["detail"], reply.json()["field"]) == (status, text, "cost")


# ---- retries ----


def test_a_retry_in_other_bytes_is_the_same_request(v1, subject):
    first = (f'{{"subject":"{subject}","journey":"SIGN_IN","type":"PASSWORD_ENTRY","outcome":"failure",'
             f'"method_id":"d","context":{{"ip":"192.0.2.1"}}}}').encode()
    again = (f'{{ "context" : {{"ip": "192.0.2.1"}}, "method_id": "\\u0064",\n "outcome": "failure", "type": "PASSWORD_ENTRY", '
             f'"journey": "SIGN_\\u0049N", "subject": "{subject}" }}').encode()
    one, two = (v1.attempts(raw, idempotency_key=subject) for raw in (first, again))
    assert one.status == two.status == 200 and one.body == two.body
    assert two.headers["idempotency-replayed"] == "true"
    assert counted(v1, subject) == 1


def test_a_number_in_another_spelling_is_the_same_request(v1, subject):
    bodies = [b'{"policy": "login-ip", "key": "%s", "cost": %s}' % (subject.encode(), cost) for cost in (b"2", b"2.0", b"20e-1")]
    replies = [v1.post("/v1/allow", body, idempotency_key=subject) for body in bodies]
    assert [reply.headers.get("idempotency-replayed") for reply in replies] == [None, "true", "true"]
    other = v1.post("/v1/allow", {"policy": "login-ip", "key": subject, "cost": 3}, idempotency_key=subject)
    assert (other.status, other.json()["type"]) == (422, TYPE + "idempotency-key-reused")


def test_an_idempotency_key_is_not_stored_as_it_was_sent():
    server = Server()
    key = "order-of-ann@example.org"
    assert server.v1.attempts(attempt("a"), idempotency_key=key).status == 200
    assert server.v1.attempts(attempt("a"), idempotency_key=key).headers["idempotency-replayed"] == "true"
    rows = server.v1.call("Scan", {"TableName": "gatehouse-idempotency"}).json()["Items"]
    assert len(rows) == 1 and rows[0]["status"] == n(200)
    server.v1.close()
    server.process.terminate()
    server.process.wait(30)
    assert not any(key.encode() in content for content in server.stored())
    server.v1 = V1(server.endpoint)
    server.close()


# ---- what is personal ----


PHONE, E164 = "+44 7700 900123", "+447700900123"


def code_entry(subject, **more):
    return attempt(subject, "MFA_CODE_ENTRY", method_type="SMS", **more)


def test_a_method_id_that_is_personal_on_its_face_is_refused_and_its_hash_is_taken(v1, subject):
    for text in (PHONE, "07700900123", "ann@example.org", "192.0.2.1"):
        reply = v1.attempts(code_entry(subject, method_id=text))
        assert (reply.status, reply.json()["field"]) == (422, "method_id") and "send {" in reply.json()["detail"], reply.body
        assert text not in reply.json()["detail"]
    assert v1.attempts(code_entry(subject, method_id={"phone": PHONE})).json()["field"] == "method_id"  # one phone is one text
    for _ in range(2):
        assert v1.attempts(code_entry(subject, method_id={"phone": E164})).status == 200
    (row,) = v1.send("GET", f"/v1/subjects/{subject}").json()["counts"]
    assert row["qualifier"].startswith("phone:") and row["count"] == 2 and "7700" not in row["key"]
    assert v1.attempts(code_entry(subject, method_id=row["qualifier"])).status == 200  # what was answered may be sent
    assert counted(v1, subject) == 3


def test_a_lock_of_a_phone_is_set_and_cleared_by_its_number_without_storing_it(v1, subject):
    path = f"/v1/subjects/{subject}/locks/SIGN_IN/MFA_CODE_ENTRY"
    reply = v1.send("PUT", path, json.dumps({"kind": "STANDARD", "qualifier": PHONE}).encode())
    assert (reply.status, reply.json()["field"]) == (422, "qualifier")
    reply = v1.send("PUT", path, json.dumps({"kind": "STANDARD", "qualifier": {"phone": E164}}).encode())
    assert reply.status == 200, reply.body
    hashed = reply.json()["lock"]["qualifier"]
    assert v1.send("DELETE", path + "?qualifier=%2B447700900123").json()["field"] == "qualifier"
    assert v1.send("DELETE", f"{path}?qualifier={hashed}").json() == {"cleared": True}


def test_a_plain_subject_that_is_personal_on_its_face_is_refused(v1):
    for text in (PHONE, "ann@example.org", "192.0.2.1"):
        reply = v1.attempts(attempt(text))
        assert (reply.status, reply.json()["field"]) == (422, "subject") and "send {" in reply.json()["detail"], reply.body
    reply = v1.send("GET", "/v1/subjects/ann%40example.org")
    assert reply.status == 422 and "lookup" in reply.json()["detail"]
    assert v1.attempts(attempt("1234567890")).status == 200  # the number of a row
