"""context.risk with the real server: what rules with at_risk answer, what is refused, what metrics count."""

import json

import pytest

from v1 import Server

pytestmark = pytest.mark.gatehouse_only

POLICY = """attempts:
  locks: {STANDARD: {duration: 900}}
  journeys:
    SIGN_IN:
      types:
        PASSWORD_ENTRY: {max: 6, life: 900, at_risk: [{from: 70, verdict: challenge}, {from: 95, verdict: blocked}]}
        PLAIN: {max: 6, life: 900}
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    policies = tmp_path_factory.mktemp("risk") / "policies.yaml"
    policies.write_text(POLICY)
    one = Server("--policies", str(policies))
    yield one
    one.close()


def attempt(server, subject, risk, outcome="success", path="/v1/attempts", **more):
    body = {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "context": {"risk": risk}, **more}
    if outcome is not None:
        body["outcome"] = outcome
    return server.v1.post(path, body)


def test_a_risky_attempt_needs_a_challenge_or_is_blocked(server, subject):
    answers = {risk: attempt(server, subject, risk).json() for risk in (0, 69, 70, 94, 95, 100)}
    assert [answer["verdict"] for answer in answers.values()] == [
        "allow", "allow", "challenge", "challenge", "blocked", "blocked"]
    assert answers[70]["reason"] == answers[100]["reason"] == "risk" and "until" not in answers[70]
    assert attempt(server, subject, 94, challenge="passed").json()["verdict"] == "allow"
    assert attempt(server, subject, 95, challenge="passed").json()["verdict"] == "blocked"
    assert attempt(server, subject, 100, type="PLAIN").json()["verdict"] == "allow"
    failed = attempt(server, subject, 80, "failure").json()
    assert failed["verdict"] == "challenge" and failed["counted"] is True
    enforced = attempt(server, subject, 80, path="/v1/attempts?enforce=status")
    assert enforced.status == 403


def test_begin_and_check_heed_it(server, subject):
    begun = attempt(server, subject, 70, None, "/v1/attempts/begin").json()
    assert begun["verdict"] == "challenge" and "attempt" not in begun and begun["counted"] is False
    body = {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY", "PLAIN"], "context": {"risk": 96}}
    checked = server.v1.post("/v1/check", body).json()
    assert checked["verdict"] == "blocked" and checked["reason"] == "risk"
    assert checked["actions"]["PLAIN"]["verdict"] == "allow"


def test_a_blocked_attempt_still_says_when_a_lock_ends(server, subject):
    for _ in range(6):
        locked = attempt(server, subject, 0, "failure").json()
    checked = {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "context": {"risk": 96}}
    blocked = [attempt(server, subject, 96).json(), attempt(server, subject, 96, None, "/v1/attempts/begin").json(), server.v1.post("/v1/check", checked).json()]
    for answer in blocked:
        assert (answer["verdict"], answer["reason"]) == ("blocked", "risk"), answer
        assert answer["until"] == answer["lock"]["until"] == locked["until"] and answer["lock"]["name"] == "PASSWORD_ENTRY"
        assert 0 < answer["retry_after"] <= 900


@pytest.mark.parametrize("risk", [-1, 101, 70.5, "70", True, [70]])
def test_another_score_is_refused_by_name(server, subject, risk):
    reply = attempt(server, subject, risk)
    assert reply.status in (400, 422) and reply.json()["field"] == "context.risk", reply.body


def test_metrics_say_how_many_were_because_of_it(server, subject):
    def counted(kind, name="PASSWORD_ENTRY"):
        wanted = f'gatehouse_risk_verdicts_total{{journey="SIGN_IN",type="{name}",verdict="{kind}"}} '
        lines = [line for line in text().splitlines() if line.startswith(wanted)]
        return int(lines[0].rsplit(" ", 1)[1]) if lines else None

    def text():
        return server.v1.send("GET", "/metrics").body.decode()

    before = counted("challenge"), counted("blocked")
    attempt(server, subject, 70)
    attempt(server, subject, 95)
    assert (counted("challenge"), counted("blocked")) == (before[0] + 1, before[1] + 1)
    assert counted("challenge", "PLAIN") is None  # it does not look at risk
    assert "risk" not in json.dumps(server.v1.send("GET", f"/v1/subjects/{subject}").json())  # nothing is kept
