"""One person, one budget: the user's id and its verified addresses are counted together, locked together and reset together, by
whatever name a call comes. What docs/login-flow.md promises under "One person, several ids"."""
import json
import os

import pytest

from test_users import call, new_user, ok, own
from v1 import Crowd, Server, attempt, generous, request_bytes

pytestmark = pytest.mark.gatehouse_only


@pytest.fixture(scope="module")
def server():
    made = generous(Server())
    yield made
    made.close()


def person(server, count=1):
    """(id, addresses)"""
    user = new_user(server)["id"]
    addresses = [f"a{i}.{user}@example.org" for i in range(count)]
    for address in addresses:
        own(server, user, address)
    return user, addresses


def email(address):
    return {"email": address}


def hashed(server, address):
    return ok(server, "POST", "/v1/subjects/lookup", {"subject": email(address)})["subject"]


def guess(server, subject, outcome="failure", kind="PASSWORD_ENTRY", **more):
    return ok(server, "POST", "/v1/attempts", attempt(subject, kind, outcome, **more))


def checked(server, subject, **more):
    return ok(server, "POST", "/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], **more})


def guesses_until_locked(server, names):
    """Guesses by each name in turn, as long as one is counted."""
    counted = 0
    for _ in range(8):
        for name in names:
            counted += guess(server, name)["counted"]
    return counted


# ---- counting ----


def test_an_account_has_one_budget_whatever_its_names(server):
    user, addresses = person(server, 3)
    names = [user, *map(email, addresses)]
    assert guesses_until_locked(server, names) == 6
    for name in [*names, hashed(server, addresses[1])]:
        assert checked(server, name)["verdict"] == "locked", name


def test_an_account_with_twenty_addresses_has_one_budget(server):
    user, addresses = person(server, 20)
    assert guesses_until_locked(server, [*map(email, addresses), user]) == 6
    assert {checked(server, name)["verdict"] for name in [user, *map(email, addresses)]} == {"locked"}


def test_an_account_with_more_addresses_than_are_read_has_one_budget():
    server = generous(Server())
    try:
        reply = server.v1.send("GET", "/v1/policies/users", b"", {})
        etag = next(value for name, value in reply.headers.items() if name.lower() == "etag")
        rules = {**reply.json()["document"], "emails": 40}
        assert server.v1.send("PUT", "/v1/policies/users", json.dumps(rules).encode(), {"If-Match": etag}).status == 200
        user, addresses = person(server, 30)
        assert guesses_until_locked(server, [*map(email, reversed(addresses)), user]) == 6
        assert {checked(server, name)["verdict"] for name in [user, *map(email, addresses)]} == {"locked"}
    finally:
        server.close()


def test_methods_are_counted_together_under_all_names(server):
    user, (address,) = person(server)
    for _ in range(3):
        for name in (user, email(address)):
            last = guess(server, name, kind="MFA_CODE_ENTRY", method_type="SMS")
    assert last["verdict"] == "locked"


def test_a_success_by_one_name_clears_what_was_counted_by_another(server):
    user, (address,) = person(server)
    for _ in range(5):
        guess(server, email(address))
    cleared = guess(server, user, "success")["cleared"]
    assert cleared == [{"subject": hashed(server, address), "key": "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY", "count": 5}]
    assert guess(server, email(address))["counts"]["PASSWORD_ENTRY"]["count"] == 1


def test_a_claim_that_nobody_proved_shares_nothing(server):
    user = new_user(server)["id"]
    address = f"claimed.{user}@example.org"
    ok(server, "POST", f"/v1/users/{user}/emails", {"email": address})
    for _ in range(6):
        guess(server, email(address))
    assert checked(server, user)["verdict"] == "allow"


def test_what_was_counted_stays_with_an_address_that_moves(server):
    first, (address, other) = person(server, 2)
    second, _ = person(server)
    for _ in range(5):
        guess(server, email(other))
    eid = next(e["id"] for e in ok(server, "GET", f"/v1/users/{first}/emails")["emails"] if e["email"] == other)
    assert call(server, "DELETE", f"/v1/users/{first}/emails/{eid}")[0] in (200, 204)
    assert guess(server, first)["counts"]["PASSWORD_ENTRY"]["count"] == 1
    own(server, second, other)
    assert guess(server, second)["verdict"] == "locked"


def test_parallel_guesses_by_all_names_count_exactly_six(server):
    user, addresses = person(server, 3)
    names = [user, *map(email, addresses)]
    crowds = [Crowd(server.endpoint, 8) for _ in names]
    for crowd, name in zip(crowds, names):
        crowd.send(request_bytes("/v1/attempts", attempt(name)))
    counted = sum(json.loads(body)["counted"] for crowd in crowds for _, body in crowd.answers())
    for crowd in crowds:
        crowd.close()
    assert counted == 6


def test_begin_and_finish_count_all_names_together(server):
    user, (address,) = person(server)
    begun = []
    for i in range(8):
        answer = ok(server, "POST", "/v1/attempts/begin", {"subject": [user, email(address)][i % 2], "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
        begun += [answer["attempt"]] if "attempt" in answer else []
    assert len(begun) == 6
    assert checked(server, user)["verdict"] == "locked"
    assert ok(server, "POST", "/v1/attempts/finish", {"attempt": begun[-1], "outcome": "success"})["verdict"] == "allow"
    assert checked(server, user)["verdict"] == checked(server, email(address))["verdict"] == "allow"


# ---- states, devices ----


def test_an_intervention_on_the_id_holds_for_every_name(server):
    user, (address,) = person(server)
    ok(server, "PUT", f"/v1/subjects/{user}/states/intervention", {"blocked": True, "applied_at": 1})
    for name in (user, email(address), hashed(server, address)):
        assert checked(server, name)["verdict"] == "blocked"
    assert guess(server, email(address), "success")["verdict"] == "blocked"


def test_a_device_that_is_known_by_one_name_is_known_by_all(server):
    user, (address,) = person(server)
    for issued_by in (user, email(address)):
        token = guess(server, issued_by, "success", "MFA_CODE_ENTRY", method_type="SMS")["device_token"]
        for used_by in (user, email(address), hashed(server, address)):
            assert guess(server, used_by, context={"device_token": token})["known_device"], (issued_by, used_by)


def test_a_device_of_ones_own_opens_no_lane_to_anothers_account(server):
    mine, (address,) = person(server)
    victim, (hers,) = person(server)
    token = guess(server, mine, "success", "MFA_CODE_ENTRY", method_type="SMS")["device_token"]
    for names in ([email(address), email(hers)], [victim, mine], [mine, victim], [email(hers)]):
        body = {"subjects": names, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure", "context": {"device_token": token}}
        assert not ok(server, "POST", "/v1/attempts", body)["known_device"]
