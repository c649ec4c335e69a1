"""/v1/authz while the endpoint with the tables does not answer: tokens are judged by what is known, limits by their policies, and what a key is denied
stays denied, whatever a policy lets pass."""

import json
import subprocess
import time

from conftest import program
from issuer import Issuer
from outages import PATIENCE_S, POLICIES, world
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
            assert (status, answer["token"]["reason"]) == (403, "outage"), answer
            assert server.metric("gatehouse_spool_records") == 0
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
