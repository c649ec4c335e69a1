"""POST /v1/tokens/verify, and tokens in /v1/check: signed by jose, with keys from a real server on loopback."""

import base64
import collections
import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from cognito import PASSWORD, Cognito
from conftest import stop
from issuer import POOL, Issuer
from limited import fresh
from test_access import Guarded
from test_clock import Moved
from test_users import rows
from test_v1_access import call, policy
from v1 import V1, Server, attempt

pytestmark = pytest.mark.gatehouse_only

ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"]
WAIT_S = 70  # a fetch that fails is tried again 30 s later
TRIES = int(os.environ.get("GATEHOUSE_SUSPEND_TRIES", 4000))


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


def started(issuer, folder, *words, **settings):
    server = Server("--identity", str(issuer.identity(folder, **settings)), *words)
    wait_for_keys(server, issuer)
    return server


def wait_until(holds, what):
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)  # until the worker has fetched: there is nothing to wait on


def wait_for_keys(server, issuer):
    token = issuer.token()
    wait_until(lambda: verify(server, token)["verdict"] != "invalid_token", "the keys were not fetched")
    claims = {"iss": f"{issuer.url}/{POOL}", "aud": None, "client_id": "client-1", "token_use": "access"}
    pool = issuer.token(**claims)
    wait_until(lambda: verify(server, pool)["verdict"] != "invalid_token", "the pool's keys were not fetched")


@pytest.fixture(scope="module")
def server(issuer, tmp_path_factory):
    made = started(issuer, tmp_path_factory.mktemp("identity"))
    yield made
    made.close()


def verify(server, token, status=200, query="", **more):
    reply = server.v1.post("/v1/tokens/verify" + query, {"token": token, **more})
    assert reply.status == status, (reply.status, reply.body)
    return reply.json()


def user_of(server, **more):
    reply = server.v1.post("/v1/users", {"id": fresh("user"), **more})
    assert reply.status == 201, reply.body
    return reply.json()["id"]


def suspend(server, user):
    reply = server.v1.post(f"/v1/users/{user}/suspend", b"")
    assert reply.status == 200, reply.body


# ---- what is good ----


@pytest.mark.parametrize("alg", ALGORITHMS)
def test_tokens_of_each_algorithm_are_valid(server, issuer, alg):
    token = issuer.token("someone", alg, jti="j", client_id="web")
    answer = verify(server, token)
    assert answer["valid"] is True and answer["verdict"] == "allow" and answer["subject"] == "someone"
    assert answer["issuer"] == issuer.url and answer["client"] == "web"
    assert answer["issued_at"] < answer["expires_at"]
    assert set(answer) == {"valid", "verdict", "subject", "issuer", "client", "issued_at", "expires_at"}


@pytest.mark.parametrize("use, claims", [("access", {"client_id": "client-1", "aud": None}), ("id", {"aud": "client-1"})])
def test_cognitos_tokens_are_valid_for_its_clients_only(server, issuer, use, claims):
    pool = f"{issuer.url}/{POOL}"
    answer = verify(server, issuer.token(iss=pool, token_use=use, **claims))
    assert answer["valid"] is True and answer["client"] == "client-1" and answer["token_use"] == use
    other = {name: "client-2" for name, value in claims.items() if value}
    assert verify(server, issuer.token(iss=pool, token_use=use, **{**claims, **other}))["reason"] == "audience"
    assert verify(server, issuer.token(iss=pool, token_use="refresh", **claims))["reason"] == "token-use"


def test_tokens_of_cognitos_emulator_are_valid_and_end_with_a_suspension(tmp_path):
    """A real sign-in at cognito-local, by the preset and an endpoint; the user has the id that Cognito gave."""
    emulator = Cognito("http://127.0.0.1:9")  # no trigger is called for a user whom an administrator makes
    try:
        emulator.api.admin_create_user(UserPoolId=emulator.pool, Username="ann", MessageAction="SUPPRESS")
        emulator.api.admin_set_user_password(UserPoolId=emulator.pool, Username="ann", Password=PASSWORD, Permanent=True)
        signed_in = emulator.api.initiate_auth(ClientId=emulator.client, AuthFlow="USER_PASSWORD_AUTH", AuthParameters={"USERNAME": "ann", "PASSWORD": PASSWORD})
        access, identity = (signed_in["AuthenticationResult"][name] for name in ("AccessToken", "IdToken"))
        claims = json.loads(base64.urlsafe_b64decode(access.split(".")[1] + "=="))
        endpoint = claims["iss"].rsplit("/", 1)[0]
        path = tmp_path / "identity.yaml"
        path.write_text(json.dumps({"issuers": [{"cognito": {"pool": emulator.pool, "clients": [emulator.client], "endpoint": endpoint}, "allow_private": True,
                                                 "max_age": 86400}]}))
        server = Server("--identity", str(path))
        try:
            wait_until(lambda: verify(server, access)["valid"], "the token of the emulator is not valid")
            answer = verify(server, access)
            assert (answer["subject"], answer["client"], answer["token_use"]) == (claims["sub"], emulator.client, "access")
            assert verify(server, identity)["reason"] == "token-use"  # access tokens alone, unless set
            assert server.v1.post("/v1/users", {"id": claims["sub"]}).status == 201
            suspend(server, claims["sub"])
            assert verify(server, access)["reason"] == "user_suspended"
        finally:
            server.close()
    finally:
        emulator.close()


def test_a_call_may_ask_for_one_more_audience(server, issuer):
    token = issuer.token(aud=["app", "orders"], client_id="web")
    assert all(verify(server, token, audience=name)["valid"] for name in ("app", "orders", "web"))
    assert verify(server, token, audience="billing")["reason"] == "audience"


# ---- what is not ----


def attacks(issuer):
    good = issuer.token()
    head, body, signature = good.split(".")
    flipped = signature[:-4] + ("A" if signature[-4] != "A" else "B") + signature[-3:]
    claims = json.dumps({**issuer.claims(), "sub": "admin"}).encode()
    forged = base64.urlsafe_b64encode(claims).rstrip(b"=").decode()
    return {
        "none": (issuer.token(header={"alg": "none"}), "malformed"),
        "the public key as a secret": (issuer.token(header={"alg": "HS256"}), "algorithm"),
        "another alg for the key": (issuer.token(header={"alg": "RS384"}), "key-algorithm"),
        "jku": (issuer.token(header={"jku": issuer.url + "/keys"}), "embedded-key"),
        "x5u": (issuer.token(header={"x5u": issuer.url}), "embedded-key"),
        "jwk": (issuer.token(header={"jwk": {"kty": "RSA"}}), "embedded-key"),
        "crit": (issuer.token(header={"crit": ["x"], "x": 1}), "critical"),
        "b64": (issuer.token(header={"b64": False}), "critical"),
        "typ": (issuer.token(header={"typ": "logout+jwt"}), "type"),
        "a changed signature": (f"{head}.{body}.{flipped}", "signature"),
        "changed claims": (f"{head}.{forged}.{signature}", "signature"),
        "no signature": (f"{head}.{body}.", "malformed"),
        "two parts": (f"{head}.{body}", "malformed"),
        "nothing": ("", "malformed"),
        "a member twice": (issuer.sign("RS256", '{"sub":"a","sub":"b","iss":"' + issuer.url + '"}'), "duplicate-member"),
        "another issuer": (issuer.token(iss="https://elsewhere.example"), "issuer"),
        "no issuer": (issuer.token(iss=None), "issuer"),
        "another audience": (issuer.token(aud="other"), "audience"),
        "no subject": (issuer.token(sub=None), "claim"),
        "expired": (issuer.token(iat=int(time.time()) - 900, exp=int(time.time()) - 600), "expired"),
        "no expiry": (issuer.token(exp=None), "claim"),
        "not yet": (issuer.token(nbf=int(time.time()) + 300), "not-yet-valid"),
        "from the future": (issuer.token(iat=int(time.time()) + 300), "issued-in-future"),
        "too old": (issuer.token(iat=int(time.time()) - 2 * 86400), "too-old"),
        "too large": (issuer.token(filler="x" * 16384), "too-large"),
    }


def test_each_known_attack_is_refused_and_told_by_name(server, issuer):
    for what, (token, reason) in attacks(issuer).items():
        answer = verify(server, token)
        assert (answer["valid"], answer["verdict"], answer["reason"]) == (False, "invalid_token", reason), what
        assert set(answer) <= {"valid", "verdict", "reason", "detail"}, what  # nothing of a token that nobody signed
        reply = server.v1.post("/v1/tokens/verify?enforce=status", {"token": token})
        assert reply.status == 401 and reply.headers["www-authenticate"].startswith('Bearer error="invalid_token"'), what
        assert reply.json() == answer


@pytest.mark.parametrize("body, field", [
    ({}, "token"), ({"token": 5}, "token"), ({"token": ["a"]}, "token"), ({"token": "a", "audience": 5}, "audience"),
    ({"token": "a", "audience": ""}, "audience"), ({"token": "a", "audience": "x" * 1025}, "audience"),
    ({"token": "a", "journey": "SIGN_IN"}, "actions"), ({"token": "a", "actions": ["PASSWORD_ENTRY"]}, "journey"),
    ({"token": "a", "journey": "NOWHERE", "actions": ["PASSWORD_ENTRY"]}, "journey"),
    ({"token": "a", "journey": "SIGN_IN", "actions": ["NOTHING"]}, "actions"), ({"token": "a", "subject": "b"}, "subject"),
])  # fmt: skip
def test_a_wrong_request_is_refused_by_field(server, body, field):
    before = rows(server)
    reply = server.v1.post("/v1/tokens/verify", body)
    assert reply.status in (400, 422) and reply.json()["field"] == field
    assert rows(server) == before


def test_no_part_of_a_token_is_kept_or_logged(issuer, tmp_path):
    server = started(issuer, tmp_path, "--log-requests")
    try:
        tokens = [issuer.token(fresh("who")), issuer.token(header={"alg": "HS256"}), f"{fresh()}.{fresh()}.{fresh()}"]
        for token in tokens:
            verify(server, token)
            server.v1.post("/v1/check", {"token": token, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}, idempotency_key=fresh())
            server.v1.send("GET", "/v1/authz", None, {"X-Gatehouse-Token": "required", "Authorization": "Bearer " + token})
        metrics = server.v1.send("GET", "/metrics").body
        server.process.terminate()
        server.process.wait()
        kept = [metrics, server.logged(), *server.stored()]
        for token in tokens:
            for part in token.split("."):
                assert not part or not any(part.encode() in each for each in kept)
    finally:
        server.close()


# ---- the account ----


def test_a_suspended_user_is_kept_out_at_once_and_comes_back(server, issuer):
    user = user_of(server)
    before = issuer.token(user)
    assert verify(server, before)["valid"]
    suspend(server, user)
    answer = verify(server, before)
    assert (answer["valid"], answer["verdict"], answer["reason"], answer["subject"]) == (False, "blocked", "user_suspended", user)
    reply = server.v1.post("/v1/tokens/verify?enforce=status", {"token": before})
    assert reply.status == 403 and reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["detail"] == "Account is not active" and reply.json()["type"].endswith(":account-not-active")
    assert server.v1.post(f"/v1/users/{user}/reactivate", b"").status == 200
    answer = verify(server, before)
    assert (answer["valid"], answer["reason"], answer["revoked"]) == (False, "revoked", "user")  # signed in before it was suspended
    assert verify(server, before, 401, "?enforce=status")["reason"] == "revoked"
    wait_until(lambda: verify(server, issuer.token(user))["valid"], "who signs in again gets in")


def job_done(server, job):
    wait_until(lambda: server.v1.send("GET", f"/v1/jobs/{job}", b"", {}).json()["state"] == "done", "the job did not end")


REVOKING = {
    "revoke-tokens": lambda server, user, client, email_id: server.v1.post(f"/v1/users/{user}/revoke-tokens", {}),
    "suspend": lambda server, user, client, email_id: (suspend(server, user), server.v1.post(f"/v1/users/{user}/reactivate", b"")),
    "client": lambda server, user, client, email_id: server.v1.post("/v1/tokens/revoke", {"client": client}),
    "revoke-users": lambda server, user, client, email_id: job_done(server, server.v1.post("/v1/revoke-users", {"users": [user], "reason": "x"}).json()["id"]),
    "address": lambda server, user, client, email_id: server.v1.send("DELETE", f"/v1/users/{user}/emails/{email_id}", b"", {}),
    "all": lambda server, user, client, email_id: server.v1.post("/v1/revoke-all", {"reason": "x"}),
}


@pytest.mark.parametrize("how", REVOKING)
def test_a_token_that_is_dated_ahead_does_not_survive_a_revocation(issuer, tmp_path, how):
    """Its issuer's clock is ahead, within the leeway. The token does not come back either when its time has come."""
    server = started(issuer, tmp_path)
    try:
        for ahead in (2,) if how == "all" else (1, 2, 30, 59):
            user, email, client = user_of(server), f"{fresh('ahead')}@example.org", fresh("client")
            prove(server, user, f"{fresh('first')}@example.org")
            email_id = prove(server, user, email)
            token = issuer.token(email if how == "address" else user, client_id=client, iat=int(time.time()) + ahead)
            assert verify(server, token)["valid"]
            REVOKING[how](server, user, client, email_id)
            until = time.time() + (2.5 if ahead < 3 else 0)
            answer = {"valid": False}
            while not answer["valid"] and time.time() < until + 0.1:
                answer = verify(server, token)
                assert (answer["valid"], answer["reason"]) == (False, "revoked"), (ahead, answer)
    finally:
        server.close()


def test_who_was_signed_out_can_sign_in_again_at_once(issuer, tmp_path):
    """In the second after the next at the latest, whatever was revoked, if the issuer's clock is right."""
    server = started(issuer, tmp_path)
    try:
        for how in ("revoke-tokens", "suspend", "all"):
            user, began = user_of(server), time.time()
            assert verify(server, issuer.token(user))["valid"]
            REVOKING[how](server, user, None, None)
            assert not verify(server, issuer.token(user))["valid"]
            wait_until(lambda: verify(server, issuer.token(user))["valid"], "the next sign-in")
            assert time.time() - began < 10, how  # and not after the leeway of a minute
    finally:
        server.close()


def test_a_subject_that_is_an_address_is_found_by_its_verified_owner(server, issuer):
    email = f"{fresh('ann')}@example.org"
    made = server.v1.post("/v1/users", {"email": email}).json()
    assert verify(server, issuer.token(email.upper()))["valid"]
    path = f"/v1/users/{made['id']}/emails/{made['claim']['id']}/verify"
    assert server.v1.post(path, {"code": made["claim"]["code"]}).json()["verified"]
    suspend(server, made["id"])
    assert verify(server, issuer.token(email.upper()))["reason"] == "user_suspended"


def prove(server, user, email):
    claim = server.v1.post(f"/v1/users/{user}/emails", {"email": email}).json()
    assert server.v1.post(f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]}).json()["verified"]
    return claim["id"]


@pytest.mark.parametrize("how", ["erased", "removed", "removed while suspended"])
def test_tokens_in_the_name_of_an_address_end_when_its_owner_loses_it(server, issuer, how):
    user, email = user_of(server), f"{fresh('lost')}@example.org"
    prove(server, user, f"{fresh('first')}@example.org")
    email_id = prove(server, user, email)
    token = issuer.token(email)
    assert verify(server, token)["valid"]
    if how == "erased":
        job = server.v1.post(f"/v1/users/{user}/erase", b"").json()["id"]
        wait_until(lambda: server.v1.send("GET", f"/v1/jobs/{job}", b"", {}).json()["state"] == "done", "the erasure did not end")
    else:
        if how == "removed while suspended":
            suspend(server, user)
        assert server.v1.send("DELETE", f"/v1/users/{user}/emails/{email_id}", b"", {}).status == 200
    answer = verify(server, token)
    assert (answer["valid"], answer["reason"], answer["revoked"]) == (False, "revoked", "user")
    prove(server, user_of(server), email)
    assert not verify(server, token)["valid"], "a token of the owner before passes for one of the next"
    wait_until(lambda: verify(server, issuer.token(email))["valid"], "the next owner's token")


def test_interventions_and_demands_are_told(server, issuer):
    subject = fresh("who")
    token = issuer.token(subject)
    state = f"/v1/subjects/{subject}/states/intervention"
    put = lambda **flags: server.v1.send("PUT", state, json.dumps({"applied_at": int(time.time()), **flags}).encode(), {})  # noqa: E731
    assert put(reset_password=True).status == 200
    answer = verify(server, token)
    assert answer["valid"] is True and answer["required"] == ["reset_password"]
    assert put(blocked=True).status == 200
    answer = verify(server, token)
    assert (answer["valid"], answer["verdict"], answer["reason"]) == (False, "blocked", "intervention_blocked")
    assert verify(server, token, 403, "?enforce=status")["reason"] == "intervention_blocked"


def test_strangers_failures_void_nobodys_tokens_unless_the_call_asks(server, issuer):
    subject = fresh("victim")
    token = issuer.token(subject)
    assert server.v1.record(subject, times=6)["verdict"] == "locked"
    assert verify(server, token)["valid"] is True
    asked = verify(server, token, journey="SIGN_IN", actions=["PASSWORD_ENTRY"])
    assert (asked["valid"], asked["verdict"], asked["actions"]["PASSWORD_ENTRY"]["verdict"]) == (False, "locked", "locked")
    assert asked["retry_after"] > 0
    reply = server.v1.post("/v1/tokens/verify?enforce=status", {"token": token, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    assert reply.status == 423 and int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize("lock", ["AUTHENTICATION/SIGN_IN", "SIGN_IN/PASSWORD_ENTRY"])
def test_a_lock_that_a_person_set_counts(server, issuer, lock):
    subject = fresh("who")
    reply = server.v1.send("PUT", f"/v1/subjects/{subject}/locks/{lock}", b'{"kind": "STANDARD"}', {})
    assert reply.status == 200, reply.body
    answer = verify(server, issuer.token(subject))
    assert (answer["valid"], answer["verdict"], answer["lock"]["name"]) == (False, "locked", lock.split("/")[1])


# ---- whose users an issuer speaks for ----


def test_an_issuer_speaks_for_the_users_of_its_provider_only(issuer, tmp_path):
    """`sub` means something only with `iss`: of two issuers, each could act as every user."""
    server = started(issuer, tmp_path, provider="staff")
    try:
        ours, theirs, local, email = fresh("staff"), fresh("pool"), user_of(server), f"{fresh('pool')}@example.org"
        synced = lambda provider, user, **more: server.v1.post("/v1/sync/users", {"provider": provider, "id": user, **more}).status  # noqa: E731
        assert synced("staff", ours) == 201 and synced(POOL, theirs, email=email, emailVerified=True) == 201
        of_pool = lambda sub: issuer.token(sub, iss=f"{issuer.url}/{POOL}", aud=None, client_id="client-1", token_use="access")  # noqa: E731
        assert verify(server, issuer.token(ours))["valid"] and verify(server, of_pool(theirs))["valid"] and verify(server, of_pool(email))["valid"]
        suspend(server, theirs)
        for token in (issuer.token(theirs), issuer.token(local), issuer.token(email), of_pool(ours), of_pool(local)):
            answer = verify(server, token)  # nothing of the user is told, not even that it is suspended
            assert (answer["valid"], answer["verdict"], answer["reason"]) == (False, "invalid_token", "provider")
            refused = server.v1.post("/v1/tokens/verify?enforce=status", {"token": token})
            assert refused.status == 401 and "does not speak for this user" in refused.headers["www-authenticate"]
            checked = server.v1.post("/v1/check", {"token": token, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}).json()
            assert checked["verdict"] == "invalid_token" and checked["reason"] == "provider"
        assert verify(server, of_pool(theirs))["reason"] == "user_suspended"
        assert verify(server, issuer.token(fresh("nobody")))["valid"]  # no user of Gatehouse: nothing stands against it
    finally:
        server.close()


# ---- revocation ----


def test_tokens_are_revoked_one_by_one_by_user_by_client_and_all(issuer, tmp_path):
    server = started(issuer, tmp_path)
    try:
        post = lambda path, **body: server.v1.post(path, body)  # noqa: E731
        made = lambda sub="someone", client="web", ago=5: issuer.token(sub, jti=fresh("jti"), client_id=client, iat=int(time.time()) - ago)  # noqa: E731
        jti = fresh("jti")
        one = issuer.token("someone", jti=jti)
        assert post("/v1/tokens/revoke", issuer=issuer.url, jti=jti).status == 200
        assert verify(server, one)["revoked"] == "token" and verify(server, made())["valid"]
        assert verify(server, issuer.token("someone", jti=jti, iss=f"{issuer.url}/{POOL}", aud=None, client_id="client-1", token_use="access"))["valid"]
        user = user_of(server)
        token = made(user)
        assert post(f"/v1/users/{user}/revoke-tokens").status == 200
        answer = verify(server, token)
        assert (answer["valid"], answer["verdict"], answer["reason"], answer["revoked"]) == (False, "invalid_token", "revoked", "user")
        reply = server.v1.post("/v1/tokens/verify?enforce=status", {"token": token})
        assert reply.status == 401 and "revoked" in reply.headers["www-authenticate"]
        refused = metric(server, 'gatehouse_tokens_total{outcome="revoked"}')
        assert refused == 3
        token = made(client="mobile")
        assert post("/v1/tokens/revoke", client="mobile").status == 200
        assert verify(server, token)["revoked"] == "client" and verify(server, made())["valid"]
        assert verify(server, issuer.token("someone", azp="mobile"))["revoked"] == "client"
        assert post("/v1/revoke-all", reason="a key leaked").status == 200
        assert verify(server, made())["revoked"] == "all"
        assert metric(server, 'gatehouse_tokens_total{outcome="revoked"}') == 6
        wait_until(lambda: verify(server, made(user, ago=0))["valid"], "issued later")
    finally:
        server.close()


def test_a_token_that_verifies_is_revoked_as_it_is(issuer, tmp_path):
    server = started(issuer, tmp_path)
    try:
        one, other = (issuer.token("someone", jti=fresh("jti")) for _ in range(2))
        posted = server.v1.post("/v1/tokens/revoke", {"token": one})
        assert posted.status == 200, posted.body
        assert verify(server, one)["revoked"] == "token" and verify(server, other)["valid"]
        without = server.v1.post("/v1/tokens/revoke", {"token": issuer.token("someone")})
        assert without.status == 422 and "no jti" in without.json()["detail"]
        expired = server.v1.post("/v1/tokens/revoke", {"token": issuer.token("someone", jti="j", exp=int(time.time()) - 3600)})
        assert (expired.status, expired.json()["field"]) == (422, "token")
        stranger = issuer.token("another")
        assert server.v1.post("/v1/revoke-all", {"reason": "drill", "dry_run": True}).status == 200
        assert verify(server, stranger)["valid"]
    finally:
        server.close()


# ---- keys ----


def test_a_new_key_is_fetched_on_demand_and_a_flood_of_unknown_kids_costs_one_fetch(tmp_path):
    issuer = Issuer()
    server = Server("--identity", str(issuer.identity(tmp_path)))
    try:
        wait_for_keys(server, issuer)
        issuer.control(make={"alg": "RS256", "kid": "made-up"}, publish=["kid-RS256", "made-up"])
        issuer.control(make={"alg": "RS256", "kid": "unpublished"})
        unknown = issuer.token(kid="unpublished")
        # once per 30 seconds, by the server's clock, which does not stand still: so a few, not 300
        began, before = time.monotonic(), issuer.fetches()
        for _ in range(300):
            assert server.v1.post("/v1/tokens/verify?enforce=status", {"token": unknown}).json()["reason"] == "key"
        assert issuer.fetches() - before <= 1 + (time.monotonic() - began) // 30
    finally:
        server.close()
        issuer.close()


def test_an_issuer_that_is_down_leaves_the_last_good_keys(tmp_path):
    """By a clock that the test moves: a key is wanted again after 30 seconds, all are fetched after ten minutes."""
    issuer = Issuer()
    server = Moved("--identity", str(issuer.identity(tmp_path)))
    try:
        wait_for_keys(server, issuer)
        now = int(time.time())
        token = lambda **more: issuer.token(iat=now, exp=now + 3600, **more)  # noqa: E731
        issuer.control(answer=500, make={"alg": "RS256", "kid": "newer"}, publish=["newer"])
        server.clock.passes(40)
        refused = server.v1.post("/v1/tokens/verify?enforce=status", {"token": token(kid="newer")})
        assert refused.status == 503 and refused.headers["retry-after"] == "1" and refused.json()["reason"] == "key"
        name = f'gatehouse_token_key_failures_total{{issuer="{issuer.url}"}}'
        wait_until(lambda: metric(server, name) == 1, "it did not try")
        assert verify(server, token())["valid"]  # by the key that it still has
        assert verify(server, token(kid="newer"))["retry_after"] > 1  # asked again too early
        issuer.control(answer=200)
        server.clock.passes(40)
        wait_until(lambda: verify(server, token(kid="newer"))["valid"], "the new key did not come")
        assert verify(server, token())["reason"] == "key"  # the old one is gone
        assert metric(server, name) == 1
        fetches = issuer.fetches()
        server.clock.passes(601)
        wait_until(lambda: issuer.fetches() > fetches, "the keys were not fetched again by age")
    finally:
        server.close()
        issuer.close()


def metric(server, name):
    for line in server.v1.send("GET", "/metrics").body.decode().splitlines():
        if line.startswith(name + " "):
            return float(line.rsplit(" ", 1)[1])
    return None


def test_discovery_finds_the_keys(issuer, tmp_path):
    server = started(issuer, tmp_path, jwks_url=None, discovery=True)
    try:
        assert verify(server, issuer.token())["valid"]
    finally:
        server.close()


def test_a_changed_identity_file_takes_effect_and_keys_stay(issuer, tmp_path):
    server = started(issuer, tmp_path)
    try:
        before = issuer.fetches()
        assert verify(server, issuer.token(aud="new"))["reason"] == "audience"
        issuer.identity(tmp_path, audiences=["app", "new"])
        wait_until(lambda: verify(server, issuer.token(aud="new"))["valid"], "the file was not read again")
        assert issuer.fetches() == before
        (tmp_path / "identity.yaml").write_text("issuers:\n  - nonsense: 1\n")
        wait_until(lambda: b"identity file was not reloaded" in server.logged(), "the mistake was not told")
        assert b"line 2" in server.logged() and verify(server, issuer.token(aud="new"))["valid"]
    finally:
        server.close()


def test_tokens_that_live_long_are_warned_of_once_per_issuer(issuer, tmp_path):
    server = started(issuer, tmp_path)
    try:
        for _ in range(3):
            verify(server, issuer.token(exp=int(time.time()) + 7200))
        assert server.logged().count(b"tokens that live longer than 60 minutes") == 1
        assert metric(server, f'gatehouse_token_long_lived{{issuer="{issuer.url}"}}') == 1
    finally:
        server.close()


# ---- /v1/check ----


def test_check_takes_a_token_and_its_subject(server, issuer):
    subject = fresh("who")
    asked = {"token": issuer.token(subject), "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}
    answer = server.v1.post("/v1/check", asked).json()
    assert answer["verdict"] == "allow" and answer["token"]["valid"] and answer["token"]["subject"] == subject
    server.v1.record(subject, times=6)
    assert server.v1.post("/v1/check", asked).json()["verdict"] == "locked"
    for token in ("x.y.z", issuer.token(aud="other")):
        answer = server.v1.post("/v1/check", {**asked, "token": token}).json()
        assert answer["verdict"] == "invalid_token" and answer["token"]["valid"] is False and answer["actions"] == {}
        reply = server.v1.post("/v1/check?enforce=status", {**asked, "token": token, "subject": "someone-else"})
        assert reply.status == 401 and "error=" in reply.headers["www-authenticate"]
        assert "PASSWORD_ENTRY" in reply.json()["actions"]
    user = user_of(server)
    suspend(server, user)
    answer = server.v1.post("/v1/check", {**asked, "subject": fresh("other"), "token": issuer.token(user)}).json()
    assert (answer["verdict"], answer["reason"]) == ("blocked", "user_suspended")


# ---- who may ask ----


def test_policies_decide_who_may_verify_whose_tokens(issuer, tmp_path):
    server = Guarded("--identity", str(issuer.identity(tmp_path)))
    try:
        allow = {"Effect": "Allow", "Action": "gatehouse:VerifyToken", "Resource": "*"}
        deny = [{"Effect": "Deny", "Action": "gatehouse:*", "Resource": f"arn:aws:gatehouse:*:*:{name}"} for name in ("user/boss*", "journey/SIGN_IN")]
        may, but = server.make("may", policy(allow)), server.make("but", policy(allow, *deny))
        neither = server.make("neither", policy({**allow, "Action": "gatehouse:Check"}))
        ask = lambda key, token, **more: call(server, key, "POST", "/v1/tokens/verify", {"token": token, **more})  # noqa: E731
        wait_until(lambda: ask(may, issuer.token("boss-1"))[1].get("valid"), "no keys")
        assert ask(but, issuer.token("clerk"))[1]["valid"] is True
        status, problem = ask(but, issuer.token("boss-1"))
        assert status == 403 and problem["type"].endswith(":forbidden") and "boss" not in problem["detail"]
        admin = server.make("admin", policy({**allow, "Action": "gatehouse:*"}))
        made = call(server, admin, "POST", "/v1/users", {"id": "boss-2", "email": "the.boss@example.org"})[1]["claim"]
        assert call(server, admin, "POST", f"/v1/users/boss-2/emails/{made['id']}/verify", {"code": made["code"]})[1]["verified"]
        status, problem = ask(but, issuer.token("the.boss@example.org"))  # by the address
        assert status == 403 and "boss" not in problem["detail"]
        assert ask(may, issuer.token("the.boss@example.org"))[1]["valid"] is True
        assert ask(but, "x.y.z")[1]["reason"] == "malformed"
        assert ask(but, issuer.token("clerk"), journey="SIGN_IN", actions=["PASSWORD_ENTRY"])[0] == 403
        assert ask(neither, issuer.token("clerk"))[0] == 403 and ask(None, issuer.token("clerk"))[0] == 401
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


def test_a_token_is_revoked_only_by_a_key_that_may_revoke_its_users_whether_its_subject_is_an_id_or_an_address(issuer, tmp_path):
    server = Guarded("--identity", str(issuer.identity(tmp_path)))
    try:
        allow = {"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"}
        users = "arn:aws:gatehouse:*:*:user/"
        admin = server.make("admin", policy(allow))
        but = server.make("but", policy(allow, {"Effect": "Deny", "Action": "gatehouse:RevokeToken", "Resource": users + "boss"}))
        issuers = server.make("issuers", policy({"Effect": "Allow", "Action": "gatehouse:RevokeToken", "Resource": "arn:aws:gatehouse:*:*:issuer/*"}))
        wait_until(lambda: call(server, admin, "POST", "/v1/tokens/verify", {"token": issuer.token()})[1].get("valid"), "no keys")
        made = call(server, admin, "POST", "/v1/users", {"id": "boss", "email": "the.boss@example.org"})[1]["claim"]
        assert call(server, admin, "POST", f"/v1/users/boss/emails/{made['id']}/verify", {"code": made["code"]})[1]["verified"]
        revoke = lambda key, subject: call(server, key, "POST", "/v1/tokens/revoke", {"token": issuer.token(subject, jti=fresh("jti"))})  # noqa: E731
        for key in (but, issuers):
            for subject in ("boss", "the.boss@example.org", "The.Boss@EXAMPLE.org"):
                status, problem = revoke(key, subject)
                assert status == 403 and "@" not in problem["detail"], (subject, problem)
        assert revoke(issuers, "stranger@example.org")[0] == 403
        assert call(server, admin, "GET", "/v1/revocations")[1]["revocations"] == []
        for key, subject in ((but, "clerk"), (but, "stranger@example.org"), (admin, "boss"), (admin, "the.boss@example.org")):
            assert revoke(key, subject)[0] == 200, subject
        assert len(call(server, admin, "GET", "/v1/revocations")[1]["revocations"]) == 4
        audit = (Path(server.data) / "audit.log").read_text()
        assert "example.org" not in audit
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


# ---- suspended while verifying ----


def test_no_verify_answers_valid_once_the_suspend_was_acknowledged(server, issuer):
    """Connections verify without a pause; as soon as one of them knows that the suspend was answered, no answer may be `valid`. Each goes on until it has asked often enough after that.
    GATEHOUSE_SUSPEND_TRIES=100000 is the long campaign."""
    rounds, threads = max(2, TRIES // 2000), 4
    share = TRIES // rounds // threads
    counts = collections.Counter()
    for _ in range(rounds):
        user = user_of(server)
        token = issuer.token(user)
        acknowledged, busy, seen, failed = threading.Event(), threading.Barrier(threads + 1, timeout=WAIT_S), collections.Counter(), []

        def ask():
            v1 = V1(server.endpoint)
            try:
                for n in range(share // 4):
                    seen[False, v1.post("/v1/tokens/verify", {"token": token}).json()["valid"]] += 1
                busy.wait()
                done = 0
                while done < share - share // 4:
                    after = acknowledged.is_set()  # before it is sent
                    valid = v1.post("/v1/tokens/verify", {"token": token}).json()["valid"]
                    seen[after, valid] += 1
                    done += after
            except Exception as error:  # noqa: BLE001: told below
                failed.append(error)
            finally:
                v1.close()

        crowd = [threading.Thread(target=ask) for _ in range(threads)]
        for each in crowd:
            each.start()
        busy.wait()  # in the middle of the load
        suspend(server, user)
        acknowledged.set()
        for each in crowd:
            each.join()
        assert not failed, failed
        assert seen[True, True] == 0 and seen[False, True] > 0 and seen[True, False] == threads * (share - share // 4), seen
        counts += seen
    print({f"after={after} valid={valid}": count for (after, valid), count in counts.items()})
