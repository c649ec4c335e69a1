"""/v1/check and /v1/tokens/verify at an endpoint: a call is answered by what it read, never by what this process believed before it read. Two processes share
the tables; what one of them changes, the next answer of the other says."""

import time
import uuid

import pytest

from issuer import Issuer
from outages import PATIENCE_S, Server
from test_engine_dynamodb import dynoxide  # noqa: F401: a fixture

pytestmark = pytest.mark.gatehouse_only

# MFA is counted per method, and over all methods together.
POLICIES = """
attempts:
  locks: {STANDARD: {duration: 600}}
  journeys:
    SIGN_IN:
      types:
        STRICT: {max: 6, life: 900, lock: STANDARD, sets: [STRICT], clears: [STRICT]}
        MFA: {max: 11, max_each: 6, qualifier: method, life: 900, lock: STANDARD, sets: [MFA], clears: [MFA]}
  resets:
    PASSWORD: {counts: [SIGN_IN/STRICT], locks: [SIGN_IN/STRICT]}
"""


class Pair:
    """`here` is asked, `there` changes things meanwhile. `here` does not answer from refusals of the last second."""

    def __init__(self, url, identity):
        words = ("--table-prefix", f"pair-{uuid.uuid4().hex[:6]}-", "--denied-ms", "0", "--identity", str(identity))
        self.here = Server(url, *words, policies=POLICIES)
        self.there = Server(url, *words, policies=POLICIES, like=self.here)

    def close(self):
        self.here.close()
        self.there.close()


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pair(dynoxide, issuer, tmp_path_factory):  # noqa: F811
    made = Pair(dynoxide, issuer.identity(tmp_path_factory.mktemp("identity")))
    deadline = time.monotonic() + PATIENCE_S
    while made.here.call("/v1/tokens/verify", {"token": issuer.token("first")})[1]["valid"] is not True:  # the issuer's keys are fetched
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield made
    made.close()


@pytest.fixture(params=["check", "verify"])
def ask(request, pair, issuer):
    """Asks `here` about one action of a subject, by its name or by a token. (the whole answer's verdict, the action's answer)"""

    def by_name(subject, action="STRICT", **more):
        return pair.here.call("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": [action], **more})

    def by_token(subject, action="STRICT", **more):
        return pair.here.call("/v1/tokens/verify", {"token": issuer.token(subject), "journey": "SIGN_IN", "actions": [action], **more})

    def answer(subject, action="STRICT", **more):
        status, told, _ = (by_name if request.param == "check" else by_token)(subject, action, **more)
        assert status == 200, told
        return told, told["actions"][action]

    return answer


def some_id():
    return uuid.uuid4().hex


def locked(pair, ask):
    subject = some_id()
    for _ in range(6):
        assert pair.here.attempt(subject)[0] == 200
    told, action = ask(subject)
    assert told["verdict"] == action["verdict"] == "locked"
    return subject


def assert_allows(told, action):
    assert (told["verdict"], action["verdict"]) == ("allow", "allow"), told
    assert "until" not in told and "retry_after" not in told and "reason" not in told and "lock" not in told, told


def test_after_an_unlock_by_another_process(pair, ask):
    subject = locked(pair, ask)
    assert pair.there.call(f"/v1/subjects/{subject}/locks/SIGN_IN/STRICT", method="DELETE")[0] == 200
    assert_allows(*ask(subject))


def test_after_a_reactivation_by_another_process(pair, ask):
    subject = some_id()
    assert pair.here.call("/v1/users", {"id": subject})[0] == 201
    assert pair.here.call(f"/v1/users/{subject}/suspend", method="POST")[0] == 200
    told, action = ask(subject)
    assert told["verdict"] in ("blocked", "invalid_token") and action["verdict"] == "blocked"
    assert pair.there.call(f"/v1/users/{subject}/reactivate", method="POST")[0] == 200
    told, action = ask(subject)
    if told.get("revoked") is None:
        assert_allows(told, action)
    else:  # tokens from before the suspension stay void
        assert (told["verdict"], told["reason"], action["verdict"]) == ("invalid_token", "revoked", "allow"), told


def test_after_a_reset_by_another_process(pair, ask):
    subject = some_id()
    for _ in range(5):
        assert pair.here.attempt(subject)[0] == 200
    assert ask(subject)[1]["count"] == 5
    assert pair.there.call(f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD"})[0] == 200
    told, action = ask(subject)
    assert_allows(told, action)
    assert (action["count"], action["remaining"]) == (0, 6), action


def test_counts_of_several_methods_are_all_in_it(pair, ask):
    subject = some_id()
    for n in range(5):
        status, told, _ = pair.here.call("/v1/attempts", {"subject": subject, "journey": "SIGN_IN", "type": "MFA", "outcome": "failure", "method_id": f"phone-{n}"})
        assert status == 200, told
    told, action = ask(subject, "MFA", method_id="phone-9")
    assert (action["count"], action["max"]) == (5, 11), action
