"""/v1/authz while the endpoint with the tables does not answer: tokens are judged by what is known, limits by their policies, and what a key is denied
stays denied, whatever a policy lets pass."""

import json
import subprocess
import time

import pytest

from conftest import program
from issuer import Issuer
from outages import PATIENCE_S, POLICIES, world
from test_clock import Clock
from test_engine_dynamodb import dynoxide  # noqa: F401: a fixture
from test_v1_access import EVERYTHING, policy

# Both are kept in tables. What they do without them is the opposite.
LIMITS = """
limits:
  lenient: {limit: 1000, per: day, engine: table, on_failure: open}
  strict: {limit: 1000, per: day, engine: table, on_failure: closed}
"""


def test_a_gateway_is_answered_from_what_is_known_of_the_token(dynoxide, tmp_path):  # noqa: F811
    issuer = Issuer()

    def ask(server, token, **more):
        status, answer, _ = server.call("/v1/authz", X_Gatehouse_Token="required", Authorization=f"Bearer {token}", **more)
        return status, answer

    try:
        with world(dynoxide, "--identity", str(issuer.identity(tmp_path))) as (server, proxy):
            good, suspended, unknown = issuer.token("good"), issuer.token("suspended"), issuer.token("unknown")
            deadline = time.monotonic() + PATIENCE_S
            while ask(server, good)[0] != 200:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert server.call("/v1/users", {"id": "suspended"})[0] == 201
            assert server.call("/v1/users/suspended/suspend", method="POST")[0] == 200
            assert ask(server, good)[0] == 200 and ask(server, suspended)[0] == 403
            proxy.gone()
            status, answer = ask(server, good)
            assert (status, answer["allowed"], answer["degraded"]) == (200, True, True), answer
            status, answer = ask(server, suspended)
            assert (status, answer["allowed"], answer["degraded"]) == (403, False, True), answer
            assert answer["token"]["reason"] == "user_suspended"
            status, answer = ask(server, unknown)
            assert (status, answer["type"]) == (503, "urn:gatehouse:problem:overloaded"), answer
            assert server.metric("gatehouse_spool_records") == 0
    finally:
        issuer.close()


AGE_S = 60  # --token-known-s, as shipped


def seen_once(server, issuer, *subjects):
    """Tokens of users, which the server has judged. The last user is suspended."""
    tokens = {subject: issuer.token(subject, exp=int(time.time()) + 3600) for subject in subjects}
    deadline = time.monotonic() + PATIENCE_S
    while server.call("/v1/tokens/verify", {"token": tokens[subjects[0]]})[1]["valid"] is not True:  # the issuer's keys are fetched
        assert time.monotonic() < deadline
        time.sleep(0.02)
    for subject in subjects:
        assert server.call("/v1/users", {"id": subject})[0] == 201
    assert server.call(f"/v1/users/{subjects[-1]}/suspend", method="POST")[0] == 200
    for subject in subjects:
        server.call("/v1/tokens/verify", {"token": tokens[subject]})
    return tokens


def both(server, token):
    """(status, answer, headers) of /v1/authz and of /v1/tokens/verify."""
    return [server.call("/v1/authz", X_Gatehouse_Token="required", Authorization=f"Bearer {token}"), server.call("/v1/tokens/verify", {"token": token})]


@pytest.mark.parametrize("mode", ["closed", "open"])
def test_a_token_passes_on_old_knowledge_for_so_long_and_no_longer(dynoxide, tmp_path, mode):  # noqa: F811
    """Another process may have suspended the user meanwhile: this one cannot know."""
    issuer, clock = Issuer(), Clock()
    policies = POLICIES.replace("attempts:", f"attempts:\n  on_failure: {mode}", 1)
    try:
        with world(dynoxide, "--identity", str(issuer.identity(tmp_path)), policies=policies, clock=clock) as (server, proxy):
            tokens = seen_once(server, issuer, "good", "suspended")
            assert [(status, "X-Gatehouse-Degraded" in headers) for status, _, headers in both(server, tokens["good"])] == [(200, False)] * 2
            proxy.gone()
            clock.passes(AGE_S - 15)
            for status, answer, headers in both(server, tokens["good"]):
                assert (status, answer["degraded"], headers["X-Gatehouse-Degraded"]) == (200, True, "true"), answer
            clock.passes(20)
            for status, answer, headers in both(server, tokens["good"]):
                if mode == "closed":
                    assert (status, answer["type"]) == (503, "urn:gatehouse:problem:overloaded"), answer
                    assert int(headers["Retry-After"]) > 0 and "older than 60 s" in answer["detail"], answer
                else:
                    assert (status, answer["degraded"], headers["X-Gatehouse-Degraded"]) == (200, True, "true"), answer
            authz, verified = both(server, tokens["suspended"])  # what is known to stand against it still does
            assert authz[0] == 403 and authz[1]["token"]["reason"] == "user_suspended"
            assert verified[1]["valid"] is False and verified[1]["reason"] == "user_suspended"
            assert authz[2]["X-Gatehouse-Degraded"] == verified[2]["X-Gatehouse-Degraded"] == "true"
            told = server.call("/v1/check", {"token": tokens["good"], "journey": "SIGN_IN", "actions": ["COUNTED"]})[1]["token"]
            assert told["verdict"] == ("blocked" if mode == "closed" else "allow"), told
    finally:
        issuer.close()


def test_the_age_of_what_is_known_is_a_setting(dynoxide, tmp_path):  # noqa: F811
    issuer = Issuer()
    try:
        with world(dynoxide, "--identity", str(issuer.identity(tmp_path)), "--token-known-s", "0") as (server, proxy):
            tokens = seen_once(server, issuer, "good", "suspended")
            proxy.gone()
            assert [status for status, _, _ in both(server, tokens["good"])] == [503, 503]
    finally:
        issuer.close()


def key_of(server, name, *statements):
    done = subprocess.run([program(), "key", "create", name, "--policy", "-", "--data", server.data], input=json.dumps(policy(*statements)), text=True,
                          capture_output=True, timeout=120, check=True)
    return ".".join(line.split("=", 1)[1] for line in done.stdout.splitlines())


def test_what_a_key_is_denied_stays_denied(dynoxide, tmp_path):  # noqa: F811
    issuer = Issuer()
    with_token = {"X_Gatehouse_Token": "required;from=x-client-authorization"}

    def ask(server, key, **headers):
        status, answer, _ = server.call("/v1/authz", Authorization=f"Bearer {key}", X_Client_Authorization=f"Bearer {token}", X_Gatehouse_Key="k", **headers)
        return status, answer

    def limit(name):
        return {"X_Gatehouse_Policy": name}

    try:
        with world(dynoxide, "--identity", str(issuer.identity(tmp_path)), policies=POLICIES + LIMITS, no_auth=False) as (server, proxy):
            token = issuer.token("good")
            allowed = key_of(server, "allowed", EVERYTHING)
            no_authz = key_of(server, "no-authz", EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:Authorize", "Resource": "*"})
            no_lenient = key_of(server, "no-lenient", EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:limit/lenient"})
            questions = (with_token, limit("lenient"), limit("strict"), {**with_token, **limit("lenient")}, {**with_token, **limit("strict")})
            deadline = time.monotonic() + PATIENCE_S
            while ask(server, allowed, **with_token)[0] != 200:  # the issuer's keys are fetched, and the token becomes known
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert [ask(server, allowed, **q)[0] for q in questions] == [200] * 5
            denied = [(no_authz, q) for q in questions] + [(no_lenient, q) for q in questions if "lenient" in q.get("X_Gatehouse_Policy", "")]
            before = [ask(server, key, **q) for key, q in denied]
            assert {status for status, _ in before} == {403}
            proxy.gone()
            assert [ask(server, allowed, **q)[0] for q in questions] == [200, 200, 503, 200, 503]
            assert ask(server, allowed, **limit("lenient"))[1]["degraded"]
            for (key, q), (_, refusal) in zip(denied, before):
                status, answer = ask(server, key, **q)
                assert status == 403 and answer["type"] == refusal["type"] and answer["detail"] == refusal["detail"], answer
                assert "allowed" not in answer and "degraded" not in answer
            assert ask(server, "nobody.nothing", **limit("lenient"))[0] == 401
    finally:
        issuer.close()
