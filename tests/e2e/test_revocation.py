"""Revoked tokens and users that are not active, over HTTP: each kind of revocation, how long it is kept, kills, clocks, policies and races."""
import json
import time
from pathlib import Path

import pytest

from test_clock import Moved
from test_users import call, new_id, new_user, ok, own, rows
from test_v1_access import EVERYTHING, deny, guarded, policy  # noqa: F401
from test_v1_access import call as call_as
from v1 import Crowd, Server, attempt, generous, request_bytes

pytestmark = pytest.mark.gatehouse_only
DAY_S, LEEWAY_S = 86400, 600
ISSUER = "https://login.example.com"
WAIT_S = 90


@pytest.fixture(scope="module")
def server():
    made = generous(Server())
    yield made
    made.close()


def seconds(text):
    return int(time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))) - time.timezone


def revocations(server, kind=None):
    found, cursor = [], ""
    while True:
        query = "&".join(filter(None, ["limit=3", kind and f"kind={kind}", cursor and f"cursor={cursor}"]))
        page = ok(server, "GET", f"/v1/revocations?{query}")
        found += page["revocations"]
        if not page["more"]:
            return found
        cursor = page["cursor"]


def row_of(server, key):
    return next((json.loads(row) for row in rows(server).get("gatehouse-revocations", []) if json.loads(row)["PK"]["S"] == key), None)


def job_ended(server, job):
    """The jobs' worker is another thread: ask until it is done."""
    until = time.monotonic() + WAIT_S
    while time.monotonic() < until:
        job = ok(server, "GET", f"/v1/jobs/{job['id']}")
        if job["state"] != "running":
            return job
        time.sleep(0.01)
    raise AssertionError(job)


def is_between(began, seconds_since_1970):
    """Is it a time since `began`? The store's clock may be a second off."""
    return int(began) - 1 <= seconds_since_1970 <= time.time() + 1


# ---- status ----


@pytest.mark.parametrize("by", ["id", "email"])
def test_a_suspended_user_is_blocked_everywhere_and_nothing_counts(server, by):
    user, email = new_user(server)["id"], f"{new_id()}@example.org"
    own(server, user, email)
    subject = user if by == "id" else {"email": email.upper()}
    begun = ok(server, "POST", "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    began = time.time()
    suspended = ok(server, "POST", f"/v1/users/{user}/suspend")
    assert is_between(began, seconds(suspended["tokensNotBefore"]))
    before = rows(server)
    for outcome in ("failure", "success"):
        answer = ok(server, "POST", "/v1/attempts", attempt(subject, outcome=outcome))
        assert (answer["verdict"], answer["reason"], answer["counted"]) == ("blocked", "user_suspended", False)
    answer = ok(server, "POST", "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    assert answer["verdict"] == "blocked" and "attempt" not in answer
    answer = ok(server, "POST", "/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": "success"})
    assert answer["reason"] == "user_suspended"
    answer = ok(server, "POST", "/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY", "MFA_CODE_ENTRY"]})
    assert (answer["verdict"], answer["reason"]) == ("blocked", "user_suspended")
    assert "until" not in answer
    status, _, _ = call(server, "POST", "/v1/check?enforce=status", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    assert status == 403
    assert rows(server) == before
    active = ok(server, "POST", f"/v1/users/{user}/reactivate")
    assert active["tokensNotBefore"] == suspended["tokensNotBefore"]
    assert ok(server, "POST", "/v1/attempts", attempt(subject, outcome="success"))["verdict"] == "allow"


def test_a_deleted_user_is_blocked_and_its_tokens_are_revoked(server):
    user = new_user(server)["id"]
    deleted = ok(server, "DELETE", f"/v1/users/{user}")
    assert row_of(server, f"USER#{user}")["notBefore"]["N"] == str(seconds(deleted["tokensNotBefore"]))
    assert ok(server, "POST", "/v1/attempts", attempt(user))["reason"] == "user_deleted"


def test_an_unproved_claim_blocks_nobody(server):
    user, email = new_user(server)["id"], f"{new_id()}@example.org"
    ok(server, "POST", f"/v1/users/{user}/emails", {"email": email})
    ok(server, "POST", f"/v1/users/{user}/suspend")
    assert ok(server, "POST", "/v1/attempts", attempt({"email": email}))["verdict"] == "allow"


def test_suspension_reactivation_and_attempts_at_once(server):
    user = new_user(server)["id"]
    crowd = Crowd(server.endpoint, 12)
    try:
        for _ in range(20):
            for n, peer in enumerate(crowd.peers):
                path = f"/v1/users/{user}/" + ("suspend" if n % 3 == 0 else "reactivate")
                peer.sendall(request_bytes("/v1/attempts", attempt(user)) if n % 3 == 2 else request_bytes(path, None).replace(b"null", b"").replace(b"Content-Length: 4", b"Content-Length: 0"))
            for n, (head, body) in enumerate(crowd.answers()):
                assert b" 200 " in head.split(b"\r\n", 1)[0], (head, body)
                if n % 3 == 2 and json.loads(body)["verdict"] == "blocked":
                    assert not json.loads(body)["counted"]
            ok(server, "POST", f"/v1/users/{user}/suspend")
            assert ok(server, "POST", "/v1/attempts", attempt(user))["reason"] == "user_suspended"  # acknowledged is in force
            ok(server, "POST", f"/v1/users/{user}/reactivate")
            ok(server, "POST", f"/v1/subjects/{user}/reset", {"reset": "PASSWORD"})
    finally:
        crowd.close()


# ---- each kind ----


def test_one_token_is_kept_as_a_hash_until_it_expires(server):
    ends = int(time.time()) + 3600
    answer = ok(server, "POST", "/v1/tokens/revoke", {"jti": "secret-jti-1", "issuer": ISSUER, "expires_at": ends, "reason": "logged out"})
    assert answer["kind"] == "token" and seconds(answer["expires_at"]) == ends + LEEWAY_S
    again = ok(server, "POST", "/v1/tokens/revoke", {"jti": "secret-jti-1", "issuer": ISSUER, "expires_at": ends - 1000})
    assert again["hash"] == answer["hash"] and again["expires_at"] == answer["expires_at"]
    assert ok(server, "POST", "/v1/tokens/revoke", {"jti": "secret-jti-1", "issuer": ISSUER + "/"})["hash"] != answer["hash"]
    assert not any("secret-jti-1" in row for table in rows(server).values() for row in table)
    assert b"secret-jti-1" not in server.logged()


def test_a_users_a_clients_and_everyones_tokens(server):
    user, began = new_id(), time.time()  # no user of ours
    answer = ok(server, "POST", f"/v1/users/{user}/revoke-tokens")
    now = seconds(answer["tokensNotBefore"])
    assert is_between(began, now) and seconds(answer["expiresAt"]) == now + DAY_S + LEEWAY_S
    later = ok(server, "POST", "/v1/tokens/revoke", {"user": user, "not_before": now + 300, "reason": "clock ahead"})
    assert seconds(later["not_before"]) == now + 300
    assert seconds(ok(server, "POST", f"/v1/users/{user}/revoke-tokens", {"notBefore": 1})["tokensNotBefore"]) == now + 300  # only rises
    client = new_id()
    assert ok(server, "POST", "/v1/tokens/revoke", {"client": client})["client"] == client
    assert row_of(server, "ALL") is None
    shown = ok(server, "POST", "/v1/revoke-all", {"reason": "drill", "dry_run": True})
    assert shown["dry_run"] and row_of(server, "ALL") is None
    everyone = ok(server, "POST", "/v1/revoke-all", {"reason": "drill"})
    assert not everyone["dry_run"] and row_of(server, "ALL")["notBefore"]["N"] == str(seconds(everyone["not_before"]))
    listed = revocations(server)
    assert {"user", "client", "all"} <= {each["kind"] for each in listed}
    assert [each["client"] for each in revocations(server, "client")].count(client) == 1


def test_an_idempotency_key_revokes_once(server):
    user = new_id()
    first = ok(server, "POST", f"/v1/users/{user}/revoke-tokens", {"reason": "a"}, Idempotency_Key=user)
    assert ok(server, "POST", f"/v1/users/{user}/revoke-tokens", {"reason": "a"}, Idempotency_Key=user) == first
    assert call(server, "POST", f"/v1/users/{user}/revoke-tokens", {"reason": "b"}, Idempotency_Key=user)[0] == 422


BAD = [
    ("/v1/tokens/revoke", {}, None),
    ("/v1/tokens/revoke", {"jti": "a"}, "issuer"),
    ("/v1/tokens/revoke", {"jti": "", "issuer": ISSUER}, "jti"),
    ("/v1/tokens/revoke", {"jti": "a" * 1025, "issuer": ISSUER}, "jti"),
    ("/v1/tokens/revoke", {"jti": "a", "issuer": "i" * 1025}, "issuer"),
    ("/v1/tokens/revoke", {"jti": "a", "issuer": ISSUER, "user": "u"}, None),
    ("/v1/tokens/revoke", {"jti": "a", "issuer": ISSUER, "not_before": 5}, "not_before"),
    ("/v1/tokens/revoke", {"jti": "a", "issuer": ISSUER, "expires_at": "tomorrow"}, "expires_at"),
    ("/v1/tokens/revoke", {"jti": "a", "issuer": ISSUER, "expires_at": 1 << 40}, "expires_at"),
    ("/v1/tokens/revoke", {"user": "a b"}, "user"),
    ("/v1/tokens/revoke", {"user": "x", "issuer": ISSUER}, "issuer"),
    ("/v1/tokens/revoke", {"client": 5}, "client"),
    ("/v1/tokens/revoke", {"client": "c" * 1025}, "client"),
    ("/v1/tokens/revoke", {"client": "c", "reason": "r" * 257}, "reason"),
    ("/v1/tokens/revoke", {"client": "c", "reason": "a\nb"}, "reason"),
    ("/v1/tokens/revoke", {"client": "c", "reasons": "x"}, "reasons"),
    ("/v1/revoke-all", {}, "reason"),
    ("/v1/revoke-all", {"reason": "x", "not_before": 0}, "not_before"),
    ("/v1/revoke-all", {"reason": "x", "not_before": -1}, "not_before"),
    ("/v1/revoke-all", {"reason": "x", "dry_run": "yes"}, "dry_run"),
    ("/v1/users/u-1/revoke-tokens", {"not_before": 5}, "not_before"),
    ("/v1/users/u-1/revoke-tokens", {"notBefore": True}, "notBefore"),
    ("/v1/revoke-users", {"reason": "x"}, "users"),
    ("/v1/revoke-users", {"status": "active"}, "reason"),
    ("/v1/revoke-users", {"status": "gone", "reason": "x"}, "status"),
    ("/v1/revoke-users", {"users": [], "reason": "x"}, "users"),
    ("/v1/revoke-users", {"users": ["a b"], "reason": "x"}, "users"),
    ("/v1/revoke-users", {"users": ["a"] * 1001, "reason": "x"}, "users"),
    ("/v1/revoke-users", {"status": "active", "reason": "x", "rate": 0}, "rate"),
    ("/v1/revoke-users", {"createdBefore": "then", "reason": "x"}, "createdBefore"),
]


def test_bad_input_is_refused_by_field_and_changes_nothing(server):
    before = rows(server)
    for path, body, field in BAD:
        status, answer, _ = call(server, "POST", path, body)
        assert status in (400, 422) and answer.get("field") == field, (path, body, answer)
    ahead = int(time.time()) + LEEWAY_S + 60
    status, answer, _ = call(server, "POST", "/v1/revoke-all", {"reason": "x", "not_before": ahead})
    assert (status, answer["field"]) == (422, "not_before")
    for query, field in (("kind=none", "kind"), ("limit=0", "limit"), ("limit=501", "limit"), ("cursor=%23", "cursor"), ("kinds=all", "kinds")):
        status, answer, _ = call(server, "GET", f"/v1/revocations?{query}")
        assert (status, answer["field"]) == (422, field)
    assert rows(server) == before


# ---- many ----


def test_mass_revocation_shows_first_and_then_revokes_those_that_fit(server):
    users = [new_user(server)["id"] for _ in range(45)]
    ok(server, "POST", f"/v1/users/{users[0]}/suspend")
    stranger = new_id()
    status, job, _ = call(server, "POST", "/v1/revoke-users", {"users": [*users, stranger], "reason": "breach", "dryRun": True})
    assert status == 202
    done = job_ended(server, job)
    assert (done["state"], done["progress"]) == ("done", {"examined": 46, "matched": 46, "unknown": 1})
    assert row_of(server, f"USER#{users[1]}") is None
    _, job, _ = call(server, "POST", "/v1/revoke-users", {"users": [*users, stranger], "status": "active", "reason": "breach", "rate": 100000})
    done = job_ended(server, job)
    assert (done["state"], done["progress"]["revoked"], done["progress"]["unknown"]) == ("done", 44, 1)
    assert {row_of(server, f"USER#{user}")["notBefore"]["N"] for user in users[1:]} == {str(done["args"]["notBefore"])}
    assert row_of(server, f"USER#{stranger}") is None
    _, job, _ = call(server, "POST", "/v1/revoke-users", {"status": "active", "reason": "breach", "dryRun": True})
    assert job_ended(server, job)["progress"]["matched"] >= 44


# ---- durability and time ----


def test_a_revocation_that_was_acknowledged_outlives_a_kill():
    server = Server()
    try:
        users = []
        for _ in range(10):
            user = new_user(server)["id"]
            ok(server, "POST", f"/v1/users/{user}/suspend")
            ok(server, "POST", "/v1/tokens/revoke", {"client": user})
            everyone = ok(server, "POST", "/v1/revoke-all", {"reason": "drill"})
            users.append(user)
            server.kill()
            server.start()
            kept = rows(server)["gatehouse-revocations"]
            assert all(any(f'"{kind}#{each}"' in row for row in kept) for each in users for kind in ("USER", "CLIENT"))
            assert int(row_of(server, "ALL")["notBefore"]["N"]) >= seconds(everyone["not_before"])
            assert ok(server, "POST", "/v1/attempts", attempt(user))["reason"] == "user_suspended"
    finally:
        server.close()


def test_a_revocation_ends_when_its_tokens_are_too_old():
    server = Moved()
    try:
        user = new_id()
        ok(server, "POST", f"/v1/users/{user}/revoke-tokens")
        ok(server, "POST", "/v1/tokens/revoke", {"jti": "a", "issuer": ISSUER, "expires_at": int(time.time()) + 60})
        assert len(revocations(server)) == 2
        server.clock.passes(60 + LEEWAY_S + 2)
        assert [each["kind"] for each in revocations(server)] == ["user"]
        server.clock.passes(DAY_S - 120)
        assert [each["kind"] for each in revocations(server)] == ["user"]
        server.clock.passes(120)
        assert revocations(server) == []
    finally:
        server.close()


def test_a_clock_that_is_set_back_takes_no_revocation_back():
    server = Moved()
    try:
        user = new_id()
        first = ok(server, "POST", f"/v1/users/{user}/revoke-tokens")
        server.clock.is_set(-3600)
        again = ok(server, "POST", f"/v1/users/{user}/revoke-tokens")
        assert seconds(again["tokensNotBefore"]) >= seconds(first["tokensNotBefore"])
        assert seconds(again["expiresAt"]) >= seconds(first["expiresAt"])
        server.kill()
        server.start()  # with the clock an hour behind the last commit
        again = ok(server, "POST", f"/v1/users/{user}/revoke-tokens")
        assert seconds(again["tokensNotBefore"]) >= seconds(first["tokensNotBefore"])
        assert len(revocations(server)) == 1
    finally:
        server.close()


# ---- keys ----


def test_a_denied_user_or_client_is_denied_on_every_way_to_it(guarded):  # noqa: F811
    admin = guarded.make("revoker", policy(EVERYTHING))
    denied = guarded.make("no-vip", policy(EVERYTHING, deny("arn:aws:gatehouse:*:*:user/vip", "arn:aws:gatehouse:*:*:client/vip-app",
                                                            "arn:aws:gatehouse:*:*:issuer/https://vip.example")))
    for path, body in (("/v1/users/vip/revoke-tokens", {}), ("/v1/tokens/revoke", {"user": "vip"}), ("/v1/tokens/revoke", {"client": "vip-app"}),
                       ("/v1/tokens/revoke", {"jti": "a", "issuer": "https://vip.example"}), ("/v1/revoke-all", {"reason": "x"}),
                       ("/v1/revoke-users", {"users": ["vip"], "reason": "x"}), ("/v1/revoke-users", {"status": "active", "reason": "x"})):
        assert call_as(guarded, denied, "POST", path, body)[0] == 403, path
    assert call_as(guarded, admin, "GET", "/v1/revocations")[1]["revocations"] == []
    for body in ({"user": "vip"}, {"client": "vip-app"}, {"user": "other"}):
        assert call_as(guarded, admin, "POST", "/v1/tokens/revoke", body)[1]["revoked_by"] == admin[0]
    assert len(call_as(guarded, admin, "GET", "/v1/revocations")[1]["revocations"]) == 3
    assert [each["user"] for each in call_as(guarded, denied, "GET", "/v1/revocations")[1]["revocations"]] == ["other"]
    only = guarded.make("only-suspends", policy({"Effect": "Allow", "Action": "gatehouse:SuspendUser", "Resource": "*"}))
    assert call_as(guarded, only, "POST", "/v1/revoke-all", {"reason": "x"})[0] == 403


def test_a_key_that_is_denied_a_user_is_denied_what_changes_many(guarded):  # noqa: F811
    may = guarded.make("changes-many", policy(EVERYTHING))
    denied = guarded.make("changes-many-but-one", policy(EVERYTHING, deny("arn:aws:gatehouse:*:*:user/vip")))
    for path in ("/v1/users/adopt", "/v1/sync/dead-letters/redrive", "/v1/sync/reconcile"):
        for body in ({"dryRun": True}, {}):
            status, problem = call_as(guarded, denied, "POST", path, body)
            assert status == 403 and "deny it nowhere" in problem["detail"], path
        assert call_as(guarded, may, "POST", path, {"dryRun": True})[0] != 403, path


def test_a_dry_run_of_revoking_all_is_no_change_in_the_audit_log(guarded):  # noqa: F811
    key = guarded.make("dry-runner", policy(EVERYTHING))
    for dry in (True, False):
        status, answer = call_as(guarded, key, "POST", "/v1/revoke-all", {"reason": "drill", "dry_run": dry}, Idempotency_Key=f"drill-{dry}")
        assert (status, answer["dry_run"], answer["kind"]) == (200, dry, "all")
        kinds = [each["kind"] for each in call_as(guarded, key, "GET", "/v1/revocations")[1]["revocations"]]
        assert ("all" in kinds) == (not dry)
    path = Path(guarded.data, "audit.log")
    end = time.monotonic() + WAIT_S
    while not (lines := [line for line in path.read_text().splitlines() if key[0] in line and "RevokeAllTokens" in line]):
        assert time.monotonic() < end, "nothing was written"
        time.sleep(0.01)
    assert len(lines) == 1


# ---- what is told ----


def test_a_subject_shows_its_users_status_and_revocation(server):
    user = new_user(server)["id"]
    assert ok(server, "GET", f"/v1/subjects/{user}")["user"] == {"status": "active"}
    assert "user" not in ok(server, "GET", f"/v1/subjects/{new_id()}")
    suspended = ok(server, "POST", f"/v1/users/{user}/suspend")
    for path in (f"/v1/subjects/{user}", f"/v1/subjects/{user}/explain"):
        told = ok(server, "GET", path)["user"]
        assert (told["status"], told["blocked"], told["tokens_not_before"]) == ("suspended", "user_suspended", suspended["tokensNotBefore"])
        assert told["tokens_revoked_for"] == "suspended"
    assert "user" not in ok(server, "GET", f"/v1/subjects/{user}?prefix=SIGN_IN")


def test_a_token_that_cannot_be_verified_revokes_nothing(server):
    before = rows(server)
    for token in ("a.b.c", "eyJhbGciOiJub25lIn0.eyJqdGkiOiJ4IiwiaXNzIjoiaHR0cHM6Ly9sb2dpbi5leGFtcGxlLmNvbSJ9."):
        status, answer, _ = call(server, "POST", "/v1/tokens/revoke", {"token": token})
        assert (status, answer["field"]) == (422, "token")
        assert token not in json.dumps(answer)
    assert call(server, "POST", "/v1/tokens/revoke", {"token": "a" * 16385})[1]["field"] == "token"
    assert rows(server) == before
