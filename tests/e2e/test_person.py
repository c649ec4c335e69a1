"""One person, one budget: the user's id and its verified addresses are counted together, locked together and reset together, by
whatever name a call comes. What docs/login-flow.md promises under "One person, several ids"."""
import json
import os
import time

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


# ---- one lock: one group of rows, one event ----


def end_of(server):
    return ok(server, "GET", "/v1/events?from=last")["after"]


def lock_events(server, after):
    """(type, subject, other subjects) of each lock.* since."""
    found = []
    while True:
        page = ok(server, "GET", f"/v1/events?after={after}&types=lock.*&limit=1000")
        found += [(e["type"].removeprefix("lock."), e["subject"], e["data"].get("otherSubjects")) for e in page["events"]]
        after = page["after"]
        if not page["more"]:
            return found


def lock_rows(server, *ids):
    return [row for i in ids for row in ok(server, "GET", f"/v1/subjects/{i}?prefix=SIGN_IN%23LOCK")["locks"] if row.get("subject", i) == i]


def several(server, names, times=6):
    body = {"subjects": names, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    for _ in range(times):
        answer = ok(server, "POST", "/v1/attempts", body)
    return answer


def fresh(*names):
    return [f"{name}.{os.urandom(8).hex()}" for name in names]


def test_a_lock_over_several_ids_is_one_event_and_a_reset_of_one_frees_all(server):
    a, b, c = fresh("a", "b", "c")
    after = end_of(server)
    assert several(server, [a, b, c])["verdict"] == "locked"
    assert len(lock_rows(server, a, b, c)) == 3
    assert lock_events(server, after) == [("set", a, [b, c])]
    answer = ok(server, "POST", f"/v1/subjects/{b}/reset", {"reset": "PASSWORD"})
    assert {row["subject"] for row in answer["cleared"]} == {b}  # the lock, and how often there was one
    assert lock_rows(server, a, b, c) == []
    assert lock_events(server, after) == [("set", a, [b, c]), ("cleared", a, [b, c])]


def test_a_reset_takes_further_ids_of_the_person(server):
    a, b, c = fresh("a", "b", "c")
    for name in (a, b, c):
        guess(server, name)
    answer = ok(server, "POST", f"/v1/subjects/{a}/reset", {"reset": "PASSWORD", "subjects": [b, c, a]})
    assert sorted({row["subject"] for row in answer["cleared"]}) == [a, b, c]
    status, problem, _ = call(server, "POST", f"/v1/subjects/{a}/reset", {"reset": "PASSWORD", "subjects": fresh(*"bcdefghi")})
    assert status == 422 and problem["field"] == "subjects"


@pytest.mark.parametrize("how", ["delete", "unlock", "finish", "reset", "erase"])
def test_whoever_clears_one_row_of_a_lock_clears_the_lock_and_says_so_once(server, how):
    a, b = fresh("a", "b")
    after = end_of(server)
    several(server, [a, b], 5)
    if how == "finish":
        begun = ok(server, "POST", "/v1/attempts/begin", {"subjects": [a, b], "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})["attempt"]
        ok(server, "POST", "/v1/attempts/finish", {"attempt": begun, "outcome": "success"})
    else:
        several(server, [a, b], 1)
    if how == "delete":
        assert ok(server, "DELETE", f"/v1/subjects/{b}/locks/SIGN_IN/PASSWORD_ENTRY")["cleared"]
    if how == "unlock":
        ok(server, "POST", "/v1/unlock", {"subjects": [b, a]})
    if how == "reset":
        ok(server, "POST", f"/v1/subjects/{b}/reset", {"reset": "PASSWORD", "subjects": [a]})
    if how == "erase":
        job = call(server, "POST", f"/v1/users/{b}/erase")[1]
        while ok(server, "GET", f"/v1/jobs/{job['id']}")["state"] not in ("done", "failed"):
            pass
    assert lock_rows(server, a) == []
    assert checked(server, a)["verdict"] == "allow"
    told = lock_events(server, after)
    assert [what for what, _, _ in told] == ([] if how == "finish" else ["set", "cleared"])
    assert {subject for _, subject, _ in told} <= {a}
    if how == "erase":
        assert b not in json.dumps(told)


def test_a_persons_lock_on_one_id_of_a_group_is_on_all_and_stays_the_persons(server):
    a, b = fresh("a", "b")
    after = end_of(server)
    several(server, [a, b])
    ok(server, "PUT", f"/v1/subjects/{b}/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "PERMANENT", "set_by": "pat", "reason": "seen"})
    assert [row["set_by"] for row in lock_rows(server, a, b)] == ["pat", "pat"]
    answer = ok(server, "POST", f"/v1/subjects/{a}/reset", {"reset": "PASSWORD"})
    assert answer["operator_locks_kept"] == 1 and checked(server, a)["verdict"] == "locked_permanent"
    assert ok(server, "DELETE", f"/v1/subjects/{a}/locks/SIGN_IN/PASSWORD_ENTRY")["cleared"]
    assert lock_rows(server, a, b) == []
    assert lock_events(server, after) == [("set", a, [b]), ("set", a, [b]), ("cleared", a, [b])]


def test_a_lock_of_a_user_is_told_of_the_user_and_any_name_frees_it(server):
    user, (address, other) = person(server, 2)
    after = end_of(server)
    for _ in range(6):
        guess(server, email(address))
    assert lock_events(server, after) == [("set", user, [hashed(server, address)])]
    answer = ok(server, "POST", f"/v1/subjects/{hashed(server, other)}/reset", {"reset": "PASSWORD"})
    assert {row["subject"] for row in answer["cleared"]} == {user, hashed(server, address)}
    assert lock_events(server, after) == [("set", user, [hashed(server, address)]), ("cleared", user, [hashed(server, address)])]
    for _ in range(6):
        guess(server, user)
    assert ok(server, "DELETE", f"/v1/subjects/{hashed(server, other)}/locks/SIGN_IN/PASSWORD_ENTRY")["cleared"]
    for _ in range(6):
        guess(server, user)
    assert ok(server, "POST", "/v1/unlock", {"subjects": [email(other)]})["unlocked"]
    assert checked(server, user)["verdict"] == "allow"


def test_a_persons_lock_on_an_address_stays_with_the_user_when_the_address_goes(server):
    user, (_, address) = person(server, 2)
    ok(server, "PUT", f"/v1/subjects/{hashed(server, address)}/locks/AUTHENTICATION/SIGN_IN", {"kind": "PERMANENT", "set_by": "pat"})
    eid = next(e["id"] for e in ok(server, "GET", f"/v1/users/{user}/emails")["emails"] if e["email"] == address)
    assert call(server, "DELETE", f"/v1/users/{user}/emails/{eid}")[0] in (200, 204)
    assert checked(server, user)["verdict"] == "locked_permanent"


def test_what_is_shown_of_one_name_is_the_persons(server):
    user, (address, other) = person(server, 2)
    a, b = hashed(server, address), hashed(server, other)
    guess(server, user), guess(server, email(address)), guess(server, email(other))
    for i in (user, a, b):
        seen = ok(server, "GET", f"/v1/subjects/{i}?prefix=SIGN_IN")
        assert sorted([i, *seen["other_subjects"]]) == sorted([user, a, b])
        assert sorted(row.get("subject", i) for row in seen["counts"]) == sorted([user, a, b])
        assert ok(server, "GET", f"/v1/subjects/{i}/sum?prefix=SIGN_IN%23ERROR_COUNT")["sum"] == 3
    for _ in range(3):
        guess(server, email(address))
    explained = ok(server, "GET", f"/v1/subjects/{b}/explain")["locks"]
    assert sorted(lock["subject"] for lock in explained) == sorted([user, a]) and all(lock["enforced"] for lock in explained)


# ---- begin and finish: the lock of a group waits as one ----


def begin(server, subject):
    return ok(server, "POST", "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})


def finish(server, begun, outcome):
    return ok(server, "POST", "/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": outcome})


def begin_at_the_maximum(server, subject, others=()):
    for i in range(5):
        guess(server, [subject, *others][i % (1 + len(others))])
    return begin(server, subject)


def test_the_lock_of_what_was_begun_by_one_address_holds_for_all_names_and_a_right_password_lifts_it_untold(server):
    user, addresses = person(server, 3)
    names = [user, *map(email, addresses)]
    after = end_of(server)
    begun = begin_at_the_maximum(server, email(addresses[0]), names)
    assert {checked(server, name)["verdict"] for name in names} == {"locked"}
    assert len(lock_rows(server, user, hashed(server, addresses[0]))) == 2
    assert finish(server, begun, "success")["verdict"] == "allow"
    assert {checked(server, name)["verdict"] for name in names} == {"allow"}
    assert lock_rows(server, user, hashed(server, addresses[0])) == []
    assert lock_events(server, after) == []


def test_a_failure_of_what_was_begun_by_an_address_tells_of_one_lock(server):
    user, (address, other) = person(server, 2)
    after = end_of(server)
    begun = begin_at_the_maximum(server, email(address))
    assert lock_events(server, after) == []
    assert finish(server, begun, "failure")["verdict"] == "locked"
    told = [("set", user, [hashed(server, address)])]
    assert lock_events(server, after) == told
    assert ok(server, "DELETE", f"/v1/subjects/{hashed(server, other)}/locks/SIGN_IN/PASSWORD_ENTRY")["cleared"]
    assert lock_events(server, after) == told + [("cleared", user, [hashed(server, address)])]


def test_a_lapse_of_what_was_begun_by_an_address_tells_of_one_lock():
    server = generous(Server())
    try:
        reply = server.v1.send("GET", "/v1/policies/attempts", b"", {})
        etag = next(value for name, value in reply.headers.items() if name.lower() == "etag")
        rules = reply.json()["document"]
        rules["journeys"]["SIGN_IN"]["types"]["PASSWORD_ENTRY"]["lapse"] = 1
        assert server.v1.send("PUT", "/v1/policies/attempts", json.dumps(rules).encode(), {"If-Match": etag}).status == 200
        user, (address,) = person(server)
        after = end_of(server)
        begin_at_the_maximum(server, email(address))
        end = time.time() + 20
        while not lock_events(server, after) and time.time() < end:
            time.sleep(0.05)
        assert lock_events(server, after) == [("set", user, [hashed(server, address)])]
        assert checked(server, user)["verdict"] == "locked"
    finally:
        server.close()


@pytest.mark.parametrize("reset_by", ["user", "address", "other", "stranger"])
@pytest.mark.parametrize("begun_by", ["user", "address"])
def test_a_reset_by_whatever_name_ends_what_was_begun_before_it(server, begun_by, reset_by):
    user, (address, other) = person(server, 2)
    path = {"user": user, "address": hashed(server, address), "other": hashed(server, other), "stranger": fresh("pairwise")[0]}[reset_by]
    more = {"subjects": [email(other)]} if reset_by == "stranger" else {}
    name = user if begun_by == "user" else email(address)
    after = end_of(server)
    begun = begin_at_the_maximum(server, name)
    ok(server, "POST", f"/v1/subjects/{path}/reset", {"reset": "PASSWORD", **more})
    assert checked(server, name)["verdict"] == "allow"
    late = finish(server, begun, "success")
    assert (late["verdict"], late["reason"]) == ("lapsed", "reset")
    assert finish(server, begin(server, name), "success")["verdict"] == "allow"
    assert lock_events(server, after) == []


def test_a_reset_of_one_of_several_ids_ends_what_was_begun_by_all_of_them(server):
    a, b, c = fresh("a", "b", "c")
    begun = ok(server, "POST", "/v1/attempts/begin", {"subjects": [a, b], "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    ok(server, "POST", f"/v1/subjects/{c}/reset", {"reset": "PASSWORD", "subjects": [b]})
    late = finish(server, begun, "success")
    assert (late["verdict"], late["reason"]) == ("lapsed", "reset")


def test_a_reset_of_more_ids_and_types_than_a_call_can_note_is_refused_and_changes_nothing(tmp_path):
    types = [f"ENTRY_{i}" for i in range(5)]
    policies = tmp_path / "policies.yaml"
    policies.write_text(json.dumps({"attempts": {
        "locks": {"STANDARD": {"duration": 900}},
        "journeys": {"SIGN_IN": {"types": {name: {"max": 6, "life": 900} for name in types}}},
        "resets": {"ALL": {"counts": [f"SIGN_IN/{name}" for name in types]}}}}))
    server = Server("--policies", str(policies))
    try:
        a, *others = fresh(*"abcdefgh")
        guess(server, a, kind="ENTRY_0")
        status, problem, _ = call(server, "POST", f"/v1/subjects/{a}/reset", {"reset": "ALL", "subjects": others})
        assert status == 422 and problem["field"] == "subjects" and "5 types" in problem["detail"], problem
        answer = ok(server, "POST", f"/v1/subjects/{a}/reset", {"reset": "ALL", "subjects": others[:5]})
        assert [row["subject"] for row in answer["cleared"]] == [a]
    finally:
        server.close()


def test_an_address_that_was_verified_since_it_began_is_reset_with_its_user(server):
    user = new_user(server)["id"]
    address = f"late.{user}@example.org"
    begun = begin(server, email(address))
    own(server, user, address)
    ok(server, "POST", f"/v1/subjects/{user}/reset", {"reset": "PASSWORD"})
    late = finish(server, begun, "success")
    assert (late["verdict"], late["reason"]) == ("lapsed", "reset")


def test_a_user_with_many_addresses_begins_and_finishes(server):
    user, addresses = person(server, 20)
    begun = begin_at_the_maximum(server, email(addresses[7]))
    assert finish(server, begun, "success")["verdict"] == "allow"
    assert {checked(server, name)["verdict"] for name in [user, *map(email, addresses)]} == {"allow"}


# ---- what a caller sends ----


@pytest.mark.parametrize("number", ["00447700900123", "+44 (0)7700 900123", "07700900123", "+44 7700 900123", "+0447700900123", "447700900123"])
def test_a_phone_number_that_is_not_in_e164_is_refused_and_not_counted_apart(server, number):
    for body in (attempt({"phone": number}), attempt(fresh("a")[0], "MFA_CODE_ENTRY", method_id={"phone": number})):
        status, problem, _ = call(server, "POST", "/v1/attempts", body)
        assert status == 422 and "E.164" in problem["detail"] and number not in json.dumps(problem)
    assert guess(server, {"phone": "+447700900123"})["counted"]


@pytest.mark.parametrize("half, whole", [("SIGN_IN#ERR", "ERROR_COUNT"), ("SIGN", "SIGN_IN"), ("SIGN#ERROR_COUNT", "SIGN_IN"), ("SIGN_IN#ERROR_COUNT#PASSWORD_EN", "PASSWORD_ENTRY"), ("SIGN_IN#ERR#", "ERROR_COUNT")])
def test_half_a_part_of_a_key_is_refused_not_answered_with_nothing(server, half, whole):
    subject = fresh("a")[0]
    guess(server, subject)
    for path in (f"/v1/subjects/{subject}/sum", f"/v1/subjects/{subject}"):
        status, problem, _ = call(server, "GET", f"{path}?prefix={half.replace('#', '%23')}")
        assert status == 422 and problem["field"] == "prefix" and whole in problem["detail"], problem


@pytest.mark.parametrize("prefix", ["SIGN_IN", "SIGN_IN#", "SIGN_IN#ERROR_COUNT", "SIGN_IN#ERROR_COUNT#", "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"])
def test_whole_parts_of_a_key_are_added_up(server, prefix):
    subject = fresh("a")[0]
    guess(server, subject)
    assert ok(server, "GET", f"/v1/subjects/{subject}/sum?prefix={prefix.replace('#', '%23')}")["sum"] == 1


def test_a_part_that_no_policy_names_is_no_half(server):
    for prefix in ("OLD_JOURNEY", "SIGN_IN%23OLD_COUNT", "SIGN_IN%23ERROR_COUNT%23OLD_TYPE", "SIGN_IN%23ERROR_COUNT%23MFA_CODE_ENTRY%23SM", "DEVICE%23COOKIE%23abc"):
        assert ok(server, "GET", f"/v1/subjects/{fresh('a')[0]}/sum?prefix={prefix}")["sum"] == 0
