"""A server whose tables are at an endpoint that refuses as AWS documents (aws_like.py): to meet another request is no outage, and a request that was refused after one
that got no answer may have been done."""

import time

import pytest

from aws_like import AwsLike
from issuer import Issuer
from outages import PATIENCE_S, POLICIES, Server

pytestmark = pytest.mark.gatehouse_only
CODES = """
    EMAIL_VERIFICATION:
      types:
        USER_CODE_REQUEST: {counts: sent, max: 30, life: 3600, clears: []}
        CODE_REQUEST: {counts: sent, max: 6, life: 3600}
        CODE_ENTRY: {max: 10, life: 3600}
"""
IN_THE_WAY = (1, 3, 50)  # one transaction met; several in a row; a subject that is written all the time


@pytest.fixture(scope="module")
def world(endpoint, tmp_path_factory):
    """(server, proxy, issuer)"""
    issuer = Issuer()
    with AwsLike(endpoint, hold_us=0) as proxy:
        server = Server(proxy.url, "--table-prefix", "met-", "--email-claims", "added", "--identity", str(issuer.identity(tmp_path_factory.mktemp("identity"))),
                        policies=POLICIES + CODES)
        server.attempt("first", "COUNTED", Idempotency_Key="first")  # makes the tables
        server.call("/v1/users", {"id": "first"})
        deadline = time.monotonic() + PATIENCE_S
        while ask(server, issuer.token("good"))[0] != 200:  # the issuer's keys are fetched
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield server, proxy, issuer
        server.close()
    issuer.close()


def ask(server, token):
    return server.call("/v1/authz", X_Gatehouse_Token="required", Authorization=f"Bearer {token}")[:2]


# ---- reads ----


@pytest.mark.parametrize("times", IN_THE_WAY)
def test_a_check_that_meets_a_write_is_decided_as_always(world, times):
    server, proxy, _ = world
    server.attempt(f"known-{times}")
    for subject, failures in ((f"unknown-{times}", 0), (f"known-{times}", 1)):
        proxy.set(refuse={"TransactGetItems": times})
        status, answer = server.check(subject)
        proxy.set(refuse={"TransactGetItems": 0})
        assert status == 200 and answer["verdict"] == "allow" and "degraded" not in answer, answer
        assert answer["actions"]["STRICT"]["count"] == failures, answer


@pytest.mark.parametrize("times", IN_THE_WAY)
def test_a_token_that_meets_a_write_is_judged_as_always(world, times):
    server, proxy, issuer = world
    for name, path in ((f"verified-{times}", "/v1/tokens/verify"), (f"passed-{times}", "/v1/authz")):
        token = issuer.token(name)
        proxy.set(refuse={"TransactGetItems": times})
        status, answer = ask(server, token) if path == "/v1/authz" else server.call(path, {"token": token})[:2]
        refused = proxy.set(refuse={"TransactGetItems": 0})["operations"]["TransactGetItems"]["refused"]
        assert refused > 0 and status == 200 and "degraded" not in answer, answer


def test_a_lookup_that_meets_a_write_is_answered(world):
    server, proxy, _ = world
    server.call("/v1/users", {"id": "looked"})
    added = server.call("/v1/users/looked/emails", {"email": "looked@example.com"})
    assert added[0] == 201, added
    before = proxy.set(refuse={"TransactGetItems": 2})["operations"]["TransactGetItems"]["refused"]
    status, answer = server.call("/v1/users/lookup", {"email": "looked@example.com"})[:2]
    refused = proxy.set(refuse={"TransactGetItems": 0})["operations"]["TransactGetItems"]["refused"]
    assert refused == before + 2 and status == 200 and answer["user"]["id"] == "looked", answer
