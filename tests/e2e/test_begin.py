"""POST /v1/attempts/begin and /finish with the real server: parallel guesses cost hashes by the maximum, not by the number of
guesses; what begin reserved survives a kill; retries; what is refused; who may."""

import json
import time
import uuid
from datetime import datetime

import pytest
import yaml

from v1 import Crowd, Server, request_bytes
from wire import Wire

pytestmark = pytest.mark.gatehouse_only
CROWD, LIMIT, ROUNDS = 64, 6, 20


def begun(subject, kind="PASSWORD_ENTRY", **more):
    return {"subject": subject, "journey": "SIGN_IN", "type": kind, **more}


def begin(v1, subject, **more):
    reply = v1.post("/v1/attempts/begin", begun(subject, **more))
    assert reply.status == 200, reply.body
    return reply.json()


def finish(v1, answer, outcome, **headers):
    return v1.post("/v1/attempts/finish", {"attempt": answer["attempt"], "outcome": outcome}, **headers)


def check(v1, subject):
    reply = v1.post("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    return reply.json()["actions"]["PASSWORD_ENTRY"]


def test_of_64_that_begin_at_once_exactly_6_may_hash(endpoint):
    crowd = Crowd(endpoint, CROWD)
    for number in range(ROUNDS):
        crowd.send(request_bytes("/v1/attempts/begin", begun(f"race-{uuid.uuid4().hex}")))
        bodies = [json.loads(body) for _, body in crowd.answers()]
        allowed = [body for body in bodies if body["verdict"] == "allow"]
        assert len(allowed) == LIMIT, f"round {number}"
        assert len({body["attempt"] for body in allowed}) == LIMIT
        assert all(body["verdict"] == "locked" and "attempt" not in body and body["counted"] is False
                   for body in bodies if body not in allowed)
    crowd.close()


def test_the_right_one_among_parallel_guesses_is_let_in_and_the_lock_of_the_last_stays(v1, subject):
    answers = [begin(v1, subject) for _ in range(LIMIT)]
    done = [finish(v1, answer, "success" if i == 2 else "failure").json() for i, answer in enumerate(answers)]
    assert done[2]["verdict"] == "allow" and done[2]["counted"] is False
    assert [one["first_time"] for one in done] == [False] * 5 + [True]
    assert check(v1, subject)["verdict"] == "locked"


def test_the_owner_is_not_locked_out_by_the_right_password_at_the_maximum(v1, subject):
    v1.record(subject, times=LIMIT - 1)
    answer = begin(v1, subject)
    assert check(v1, subject)["verdict"] == "locked"
    assert finish(v1, answer, "success").json()["verdict"] == "allow"
    assert check(v1, subject) == {"verdict": "allow", "count": 0, "max": LIMIT, "remaining": LIMIT}


def test_what_was_begun_stays_a_failure_after_a_kill(subject):
    server = Server()
    try:
        answers = [begin(server.v1, subject) for _ in range(LIMIT - 1)]
        server.kill()
        server.start()
        assert check(server.v1, subject)["count"] == LIMIT - 1
        assert finish(server.v1, answers[0], "failure").json()["counted"] is True
        last = begin(server.v1, subject)
        server.kill()
        server.start()
        assert check(server.v1, subject)["verdict"] == "locked"
        assert finish(server.v1, last, "success").json()["verdict"] == "allow"  # it is still the one that began
        assert check(server.v1, subject)["verdict"] == "allow"
    finally:
        server.close()


def test_the_hundredth_in_a_row_that_was_begun_holds_after_a_kill_and_is_taken_back_by_the_right_password(subject):
    """A known device fails after the restart: its failures are in the same row."""
    server = Server()
    try:
        code = {**begun(subject, "MFA_CODE_ENTRY", method_type="SMS"), "outcome": "success"}
        device = {"context": {"device_token": server.v1.attempts(code).json()["device_token"]}}
        row = {"PK": {"S": subject}, "SK": {"S": "AUTHENTICATION#LOCK#CONSECUTIVE_FAILURES"}, "count": {"N": "0"},
               "ttl": {"N": str(int(time.time()) + 1000)}, "failures": {"M": {"SIGN_IN/PASSWORD_ENTRY": {"N": "97"}}}}
        assert Wire(server.endpoint).call("PutItem", {"TableName": "auth-state", "Item": row}).status == 200
        answers = [begin(server.v1, subject) for _ in range(3)]
        server.kill()
        server.start()
        assert begin(server.v1, subject)["reason"] == "too_many_failures"
        failed = server.v1.attempts({**begun(subject, **device), "outcome": "failure"}).json()
        assert failed["known_device"] and failed["counted"]
        server.kill()
        server.start()
        assert finish(server.v1, answers[2], "success").json()["verdict"] == "allow"
        assert check(server.v1, subject)["verdict"] == "allow"
        assert finish(server.v1, answers[0], "failure").json()["verdict"] == "allow"
        events = server.v1.send("GET", f"/v1/events?from=first&types=lock.*&subject={subject}").json()["events"]
        assert events == []
    finally:
        server.close()


def test_a_lapsed_attempt_clears_nothing(subject, tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text("attempts:\n  locks: {STANDARD: {duration: 900}}\n  journeys:\n    SIGN_IN:\n      types:\n"
                        "        PASSWORD_ENTRY: {max: 6, life: 900, lapse: 1}\n")
    server = Server("--policies", str(policies))
    try:
        answer = begin(server.v1, subject)
        ends = datetime.fromisoformat(answer["lapses_at"].replace("Z", "+00:00")).timestamp() + 1
        while time.time() < ends:
            time.sleep(0.05)
        late = finish(server.v1, answer, "success").json()
        assert (late["verdict"], late["reason"], late["counted"]) == ("lapsed", "lapsed", True)
        assert check(server.v1, subject)["count"] == 1
        enforced = server.v1.post("/v1/attempts/finish?enforce=status", {"attempt": answer["attempt"], "outcome": "success"})
        assert enforced.status == 409
    finally:
        server.close()


TYPES = """attempts:
  locks: {STANDARD: {duration: 900}}
  journeys:
    SIGN_IN:
      blocked_by: [AUTHENTICATION/SIGN_IN]
      types:
        %s: {max: 6, life: 900, clears: [%s, SESSION/ENTRY]}
    SESSION: {types: {ENTRY: {max: 6, life: 900}}}
    AUTHENTICATION: {locks: [SIGN_IN]}
"""


def put_types(v1, name):
    version = v1.send("GET", "/v1/policies/attempts").json()["version"]
    document = yaml.safe_load(TYPES.replace("%s", name))["attempts"]
    reply = v1.send("PUT", "/v1/policies/attempts", json.dumps(document).encode(),
                    {"Content-Type": "application/json", "If-Match": f'"{version}"'})
    assert reply.status == 200, reply.body


@pytest.mark.parametrize("begun_under", ["shipped", "put"])
def test_it_is_finished_under_the_policies_it_began_with_if_its_type_was_removed_since(subject, begun_under):
    server = Server()
    try:
        if begun_under == "put":
            put_types(server.v1, "PASSWORD_ENTRY")
        server.v1.record(subject)
        right, wrong, stopped = begin(server.v1, subject), begin(server.v1, subject), begin(server.v1, subject + "-stopped")
        put_types(server.v1, "OTHER_ENTRY")
        assert server.v1.attempts({**begun(subject), "outcome": "failure"}).status == 422  # the type is gone
        failed = finish(server.v1, wrong, "failure")
        assert failed.status == 200 and failed.json()["counted"] is True, failed.body
        done = finish(server.v1, right, "success")
        assert done.status == 200 and done.json()["verdict"] == "allow", done.body
        assert [row["count"] for row in done.json()["cleared"]] == [2]
        server.v1.send("PUT", f"/v1/subjects/{subject}-stopped/locks/AUTHENTICATION/SIGN_IN", b'{"kind": "STANDARD"}',
                       {"Content-Type": "application/json"})
        assert finish(server.v1, stopped, "success").json()["verdict"] == "locked"  # what people set still stops it
    finally:
        server.close()


def test_a_password_reset_ends_what_was_begun_before_it(v1, subject):
    answer = begin(v1, subject)
    assert v1.post(f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD"}).status == 200
    late = finish(v1, answer, "success").json()
    assert (late["verdict"], late["reason"]) == ("lapsed", "reset")
    assert finish(v1, begin(v1, subject), "success").json()["verdict"] == "allow"


def test_an_office_of_49_right_sign_ins_and_a_wrong_one_is_not_locked(v1, subject):
    office = {"context": {"ip": f"2001:db8:{uuid.uuid4().hex[:4]}:{uuid.uuid4().hex[:4]}::1"}}
    answers = [begin(v1, f"{subject}-{i}", **office) for i in range(50)]
    assert all("attempt" in answer for answer in answers)
    assert "attempt" not in begin(v1, f"{subject}-50", **office)  # fifty are open: the lock holds meanwhile
    assert finish(v1, answers[-1], "failure").status == 200
    for answer in answers[:-1]:
        assert finish(v1, answer, "success").json()["verdict"] == "allow"
    assert v1.attempts({**begun(f"{subject}-50", **office), "outcome": "success"}).json()["verdict"] == "allow"


def test_a_lock_is_published_when_its_attempt_fails_and_never_if_it_was_right(subject):
    def locks_of(name):
        page = server.v1.send("GET", f"/v1/events?from=first&types=lock.*&subject={name}").json()
        return [event["type"].rsplit("gatehouse.", 1)[-1] for event in page["events"]]

    server = Server()
    try:
        for name, outcome in ((subject + "-right", "success"), (subject + "-wrong", "failure")):
            server.v1.record(name, times=LIMIT - 1)
            answer = begin(server.v1, name)
            assert check(server.v1, name)["verdict"] == "locked"
            assert locks_of(name) == []
            finish(server.v1, answer, outcome)
        assert locks_of(subject + "-right") == []
        assert locks_of(subject + "-wrong") == ["lock.set"]
    finally:
        server.close()


def test_it_is_finished_once(v1, subject):
    answer = begin(v1, subject)
    assert finish(v1, answer, "failure").status == 200
    for outcome in ("failure", "success"):
        again = finish(v1, answer, outcome)
        assert again.status == 409 and again.json()["field"] == "attempt"
        assert again.json()["type"] == "urn:gatehouse:problem:attempt-finished"
        assert again.json()["detail"] == "attempt: already finished, as a failure"
    assert check(v1, subject)["count"] == 1


def test_retries_with_a_key_get_the_same_answers_and_no_id_or_token_is_stored(subject):
    server = Server()
    try:
        def steps():
            first = server.v1.post("/v1/attempts/begin", begun(subject, "MFA_CODE_ENTRY", method_id="p"), idempotency_key="b")
            return first, finish(server.v1, first.json(), "success", idempotency_key="f")

        (began, ended), (began_again, ended_again) = steps(), steps()
        assert began.body == began_again.body
        assert "device_token" in ended.json() and ended_again.json()["already_issued"] is True
        secrets = [began.json()["attempt"].split(".")[-1].encode(), ended.json()["device_token"][:40].encode()]
        server.kill()
        assert not any(secret in file for secret in secrets for file in server.stored())
        server.start()
    finally:
        server.close()


@pytest.mark.parametrize("path, body, status, field", [
    ("begin", {"outcome": "failure"}, 422, "outcome"),
    ("begin", {"type": "MFA_CODE_REQUEST", "notification_type": "MFA_SMS"}, 422, "type"),
    ("begin", {"journey": "NOWHERE"}, 422, "journey"),
    ("finish", {"attempt": "x", "outcome": "success"}, 422, "attempt"),
    ("finish", {"attempt": "SIGN_IN.NOTHING." + "a" * 32, "outcome": "success"}, 404, "attempt"),
    ("finish", {"attempt": "SIGN_IN.PASSWORD_ENTRY." + "a" * 32, "outcome": "success"}, 404, "attempt"),
    ("finish", {"attempt": "SIGN_IN.PASSWORD_ENTRY." + "a" * 32, "outcome": "sent"}, 422, "outcome"),
    ("finish", {"attempt": "SIGN_IN.PASSWORD_ENTRY." + "a" * 32}, 422, "outcome"),
    ("finish", {"outcome": "success"}, 422, "attempt"),
])
def test_what_is_refused_names_its_field_and_counts_nothing(v1, subject, path, body, status, field):
    whole = {**begun(subject), **body} if path == "begin" else body
    reply = v1.post(f"/v1/attempts/{path}", whole)
    assert (reply.status, reply.json()["field"]) == (status, field), reply.body
    assert check(v1, subject)["count"] == 0


def test_explain_shows_what_was_begun(v1, subject):
    begin(v1, subject)
    v1.record(subject)
    counts = v1.send("GET", f"/v1/subjects/{subject}/explain").json()["counts"]
    assert [one["outcome"] for one in counts[0]["attempts"]] == ["begun", "failure"]


def test_an_attempt_of_another_journey_cannot_be_made_of_an_id(v1, subject):
    answer = begin(v1, subject)
    forged = answer["attempt"].replace("SIGN_IN.", "REAUTHENTICATION.")
    assert finish(v1, {"attempt": forged}, "success").status == 404
    assert finish(v1, answer, "success").json()["verdict"] == "allow"
