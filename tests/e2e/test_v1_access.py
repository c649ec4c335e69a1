"""What keys may do under /v1, and that nothing gets around it."""
import json
import shutil
import urllib.error
import urllib.request

import pytest
from conftest import program, stop  # noqa: F401
from test_access import Guarded

EVERYTHING = {"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"}
JOURNEY = "arn:aws:gatehouse:*:*:journey/"


def deny(*resources):
    return {"Effect": "Deny", "Action": "gatehouse:*", "Resource": list(resources)}


NO_SIGN_IN = deny(JOURNEY + "SIGN_IN")


@pytest.fixture(scope="module")
def guarded():
    server = Guarded("--email-claims", "added")
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def call(server, key, method, path, body=None, **headers):
    """(status, answer)"""
    sent = {"Authorization": f"Bearer {key[0]}.{key[1]}"} if key else {}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = urllib.request.urlopen(urllib.request.Request(server.endpoint + path, data, sent, method=method), timeout=60)
    except urllib.error.HTTPError as refused:
        answer = refused
    text = answer.read()
    return answer.status, json.loads(text) if text.startswith(b"{") else text


def policy(*statements):
    return {"Version": "2012-10-17", "Statement": list(statements)}


def test_a_bearer_key_signs_in_until_it_is_revoked(guarded):
    key = guarded.make("bearer", policy(EVERYTHING))
    body = {"subject": "alice", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    assert call(guarded, key, "POST", "/v1/attempts", body)[0] == 200
    assert call(guarded, None, "POST", "/v1/attempts", body)[0] == 401
    assert call(guarded, (key[0], key[1][:-1] + "!"), "POST", "/v1/attempts", body)[0] == 401
    assert call(guarded, (key[0], ""), "POST", "/v1/attempts", body)[0] == 401
    assert guarded.command("key", "revoke", "bearer").returncode == 0
    assert call(guarded, key, "POST", "/v1/attempts", body)[0] == 401


def test_a_key_may_do_what_its_policy_allows_and_on_which_journey(guarded):
    key = guarded.make("recorder", policy({"Effect": "Allow", "Action": "gatehouse:RecordAttempt",
                                           "Resource": "arn:aws:gatehouse:*:*:journey/SIGN_IN"}))
    body = {"subject": "bob", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    assert call(guarded, key, "POST", "/v1/attempts", body)[0] == 200
    status, problem = call(guarded, key, "POST", "/v1/attempts", {**body, "journey": "REAUTHENTICATION"})
    assert status == 403 and "journey/REAUTHENTICATION" in problem["detail"]
    assert call(guarded, key, "GET", "/v1/subjects/bob")[0] == 403
    assert call(guarded, key, "GET", "/v1/policies/attempts")[0] == 403


def test_a_lock_set_by_hand_names_the_key_that_set_it_unless_a_person_is_named(guarded):
    key = guarded.make("help-desk", policy(EVERYTHING))
    path = "/v1/subjects/locked-by-a-key/locks/SIGN_IN/PASSWORD_ENTRY"
    assert call(guarded, key, "PUT", path, {"kind": "STANDARD"})[1]["set_by"] == "help-desk"
    assert call(guarded, key, "GET", "/v1/subjects/locked-by-a-key")[1]["locks"][0]["set_by"] == "help-desk"
    assert call(guarded, key, "PUT", path, {"kind": "STANDARD", "set_by": "carol"})[1]["set_by"] == "carol"


@pytest.mark.parametrize("method, path, body", [
    ("DELETE", "/v1/subjects/x/locks/SIGN_IN/PASSWORD_ENTRY", None),
    ("POST", "/v1/unlock", {"subjects": ["x"]}),
    ("POST", "/v1/unlock", {"where": {"journey": "SIGN_IN"}}),
    ("GET", "/v1/locks?journey=SIGN_IN", None),
    ("GET", "/v1/subjects/x?prefix=SIGN_IN", None),
    ("GET", "/v1/subjects/x/sum?prefix=SIGN_IN%23ERROR_COUNT", None),
    ("POST", "/v1/subjects/x/reset", {"reset": "PASSWORD"}),
    ("POST", "/v1/attempts/begin", {"subject": "x", "journey": "SIGN_IN", "type": "EMAIL_CODE_ENTRY"}),
    ("GET", "/v1/subjects/x/known-devices", None),
    ("DELETE", "/v1/subjects/x/known-devices", None),
])
def test_a_denied_journey_is_denied_on_every_way_to_it(guarded, method, path, body):
    name = "denied" + str(abs(hash((method, path, str(body)))))
    key = guarded.make(name, policy(EVERYTHING, NO_SIGN_IN))
    assert call(guarded, key, method, path, body)[0] == 403
    assert call(guarded, guarded.make(name + "-not", policy(EVERYTHING)), method, path, body)[0] == 200


def test_an_attempt_that_was_begun_is_finished_only_by_a_key_that_may_and_in_its_journey(guarded):
    key, denied = guarded.make("finisher", policy(EVERYTHING)), guarded.make("no-finisher", policy(EVERYTHING, NO_SIGN_IN))
    begun = {"subject": "begun", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}
    attempt = call(guarded, key, "POST", "/v1/attempts/begin", begun)[1]["attempt"]
    recorder = guarded.make("only-records", policy({"Effect": "Allow", "Action": "gatehouse:RecordAttempt", "Resource": "*"}))
    for other in (denied, recorder):
        for outcome in ("success", "failure"):
            assert call(guarded, other, "POST", "/v1/attempts/finish", {"attempt": attempt, "outcome": outcome})[0] == 403
    elsewhere = {"attempt": attempt.replace("SIGN_IN", "ACCOUNT_MANAGEMENT"), "outcome": "success"}
    assert call(guarded, denied, "POST", "/v1/attempts/finish", elsewhere)[0] == 404
    assert call(guarded, key, "POST", "/v1/attempts/finish", {"attempt": attempt, "outcome": "success"})[0] == 200


LOCK = "/v1/subjects/{}/locks/{}/PASSWORD_ENTRY"
RESTING = "arn:aws:gatehouse:*:*:state/"


def lock_both(server, admin, subject):
    """A lock and a count of two journeys, and a state of each family."""
    for journey in ("SIGN_IN", "ACCOUNT_MANAGEMENT"):
        assert call(server, admin, "PUT", LOCK.format(subject, journey), {"kind": "STANDARD"})[0] == 200
    for journey in ("REAUTHENTICATION", "PASSWORD_RESET"):
        kind = {"REAUTHENTICATION": "PASSWORD_ENTRY", "PASSWORD_RESET": "MFA_CODE_ENTRY"}[journey]
        body = {"subject": subject, "journey": journey, "type": kind, "outcome": "failure", "method_id": "m", "method_type": "SMS"}
        status, answer = call(server, admin, "POST", "/v1/attempts", body)
        assert status == 200 and answer["counted"], answer
    for family, body in (("intervention", {"suspended": True, "applied_at": 1}), ("email_fraud", {"state": "PENDING"})):
        assert call(server, admin, "PUT", f"/v1/subjects/{subject}/states/{family}", body)[0] == 200


def journeys(answer, *kinds):
    return {row["key"].split("#")[0] for kind in kinds for row in answer[kind]}


def test_reading_a_subject_leaves_out_the_journeys_and_states_that_are_denied(guarded):
    admin = guarded.key("show", "administrator")
    lock_both(guarded, admin, "twofold")
    everything = {"SIGN_IN", "ACCOUNT_MANAGEMENT", "REAUTHENTICATION", "PASSWORD_RESET", "ACCOUNT_INTERVENTION", "EMAIL_FRAUD"}
    some = guarded.make("sees-some", policy(EVERYTHING, deny(JOURNEY + "SIGN_IN", JOURNEY + "REAUTH*", RESTING + "email_fraud")))
    only = guarded.make("sees-one", policy({**EVERYTHING, "Resource": JOURNEY + "PASSWORD_RESET"}))
    states = guarded.make("sees-states", policy(EVERYTHING, deny(JOURNEY + "*")))
    none = guarded.make("sees-none", policy(EVERYTHING, deny(JOURNEY + "*", RESTING + "*")))
    for path in ("/v1/subjects/twofold", "/v1/subjects/twofold/explain"):
        for key, seen in [(admin, everything), (some, {"ACCOUNT_MANAGEMENT", "PASSWORD_RESET", "ACCOUNT_INTERVENTION"}),
                          (only, {"PASSWORD_RESET"}), (states, {"ACCOUNT_INTERVENTION", "EMAIL_FRAUD"})]:
            status, answer = call(guarded, key, "GET", path)
            assert status == 200 and journeys(answer, "counts", "locks", "states") == seen, (path, answer)
        assert call(guarded, none, "GET", path)[0] == 403
    assert call(guarded, some, "GET", "/v1/subjects/twofold/sum?prefix=PASSWORD_RESET")[1]["sum"] == 1
    status, problem = call(guarded, some, "GET", "/v1/subjects/twofold/sum?prefix=REAUTHENTICATION%23ERROR_COUNT")
    assert status == 403 and "journey/REAUTHENTICATION" in problem["detail"]
    assert call(guarded, some, "GET", "/v1/subjects/twofold?prefix=EMAIL_FRAUD")[0] == 403
    assert call(guarded, none, "GET", "/v1/subjects/twofold/sum?prefix=PASSWORD_RESET")[0] == 403


def test_the_list_of_locks_leaves_out_denied_journeys_also_those_that_no_policy_has_any_more(guarded):
    admin = guarded.key("show", "administrator")
    lock_both(guarded, admin, "listed")
    table = guarded.client(admin)
    table.put_item(TableName="auth-state", Item={"PK": {"S": "listed"}, "SK": {"S": "GONE#LOCK#PASSWORD_ENTRY"}, "count": {"N": "1"},
                                                 "block_type": {"S": "STANDARD"}, "last_updated": {"N": "1"}})

    def listed(key):
        status, answer = call(guarded, key, "GET", "/v1/locks?limit=500")
        assert status == 200 and not answer["more"]
        return {row["journey"] for row in answer["locks"] if row["subject"] == "listed"}

    assert listed(admin) == {"SIGN_IN", "ACCOUNT_MANAGEMENT", "GONE"}
    some = guarded.make("lists-some", policy(EVERYTHING, deny(JOURNEY + "SIGN_IN", JOURNEY + "GONE")))
    assert listed(some) == {"ACCOUNT_MANAGEMENT"}
    none = guarded.make("lists-none", policy(EVERYTHING, deny(JOURNEY + "*")))
    assert call(guarded, none, "GET", "/v1/locks")[0] == 403
    # a write is refused whole, whether the journey is known or not
    gone = guarded.make("unlocks-some", policy(EVERYTHING, deny(JOURNEY + "GONE")))
    all_kinds = {"subjects": ["listed"], "where": {"kind": "STANDARD"}}
    for body in (all_kinds, {**all_kinds, "dry_run": True}):
        status, problem = call(guarded, gone, "POST", "/v1/unlock", body)
        assert status == 403 and "journey/GONE" in problem["detail"]
    assert listed(admin) == {"SIGN_IN", "ACCOUNT_MANAGEMENT", "GONE"}
    assert call(guarded, admin, "POST", "/v1/unlock", all_kinds)[0] == 200
    assert listed(admin) == set()


def test_a_reset_that_would_clear_counts_of_a_denied_journey_clears_nothing(guarded):
    admin = guarded.key("show", "administrator")
    lock_both(guarded, admin, "kept")
    key = guarded.make("resets", policy(EVERYTHING, deny(JOURNEY + "REAUTHENTICATION")))  # which the reset has counts of, and no lock
    before = call(guarded, admin, "GET", "/v1/subjects/kept")[1]
    status, problem = call(guarded, key, "POST", "/v1/subjects/kept/reset", {"reset": "PASSWORD"})
    assert status == 403 and "journey/REAUTHENTICATION" in problem["detail"]
    after = call(guarded, admin, "GET", "/v1/subjects/kept")[1]
    assert [row["key"] for kind in ("counts", "locks") for row in before[kind]] == [
        row["key"] for kind in ("counts", "locks") for row in after[kind]]


RULES = """attempts:
  locks: {STANDARD: {duration: 60}}
  journeys:
    A:
      types:
        TRY: {max: 2, life: 60, lock: STANDARD, sets: [B/LOCKED], clears: [C/TRY]}
    B: {locks: [LOCKED]}
    C: {types: {TRY: {max: 5, life: 60, lock: STANDARD}}}
"""


def test_an_attempt_is_refused_where_its_rule_writes_in_a_journey_that_is_denied(tmp_path):
    """What is merely not allowed there does not matter: what follows from its own journey is the rule's."""
    (tmp_path / "policies.yaml").write_text(RULES)
    server = Guarded("--policies", tmp_path / "policies.yaml")
    try:
        body = {"subject": "s", "journey": "A", "type": "TRY"}
        for name, statements, failure, success in [
                ("all", [EVERYTHING], 200, 200),
                ("own", [{**EVERYTHING, "Resource": JOURNEY + "A"}], 200, 200),
                ("not-b", [EVERYTHING, deny(JOURNEY + "B")], 403, 200),
                ("not-c", [EVERYTHING, deny(JOURNEY + "C")], 200, 403)]:
            key = server.make(name, policy(*statements))
            for outcome, expected in (("failure", failure), ("success", success)):
                status, answer = call(server, key, "POST", "/v1/attempts", {**body, "subject": name, "outcome": outcome})
                assert status == expected, (name, outcome, answer)
                assert status == 200 or f"journey/{name[-1].upper()}" in answer["detail"]
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


def test_an_idempotency_key_does_not_carry_an_answer_of_authz_to_another_key(guarded):
    admin = guarded.key("show", "administrator")

    def ask(key):
        return call(guarded, admin, "POST", "/v1/authz", None, X_Gatehouse_Policy="sms-number", X_Gatehouse_Key=key,
                    X_Gatehouse_Cost="10", Idempotency_Key="abc")[0]

    assert ask("one") == 200
    assert ask("one") == 429
    assert ask("two") == 200


def test_policies_can_be_put_after_their_table_was_deleted(guarded):
    admin = guarded.key("show", "administrator")
    document = call(guarded, admin, "GET", "/v1/policies/attempts")[1]["document"]
    assert call(guarded, admin, "PUT", "/v1/policies/attempts", document, If_Match='"0"')[0] == 200
    guarded.client(admin).delete_table(TableName="gatehouse-policies")
    assert call(guarded, admin, "PUT", "/v1/policies/attempts", document, If_Match='"0"')[0] == 412
    document["journeys"]["SIGN_IN"]["types"]["PASSWORD_ENTRY"]["max"] = 4
    assert call(guarded, admin, "PUT", "/v1/policies/attempts", document, If_Match='"1"')[0] == 200
    now = call(guarded, admin, "GET", "/v1/policies/attempts")[1]
    assert now["version"] == 2 and now["document"]["journeys"]["SIGN_IN"]["types"]["PASSWORD_ENTRY"]["max"] == 4


def test_stored_policies_that_cannot_be_understood_do_not_keep_it_from_serving():
    server = Guarded()
    try:
        admin = server.key("show", "administrator")
        document = call(server, admin, "GET", "/v1/policies/attempts")[1]["document"]
        assert call(server, admin, "PUT", "/v1/policies/attempts", document, If_Match='"0"')[0] == 200
        server.client(admin).put_item(TableName="gatehouse-policies", Item={
            "PK": {"S": "POLICY#attempts"}, "document": {"S": "{}"}, "version": {"N": "9"}})
        stop(server.process)
        server.start()
        shown = call(server, admin, "GET", "/v1/policies/attempts")[1]
        assert shown["document"] == document  # what ships
        assert call(server, admin, "PUT", "/v1/policies/attempts", document, If_Match='"9"')[0] == 200
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


# ---- users ----


def test_a_key_changes_the_users_it_may_and_does_not_see_those_it_is_denied(guarded):
    root = guarded.make("users-root", policy(EVERYTHING))
    for name in ("ann", "eve"):
        assert call(guarded, root, "POST", "/v1/users", {"id": name, "email": f"{name}@example.org"})[0] == 201
    user = "arn:aws:gatehouse:*:*:user/"
    one = guarded.make("users-one", policy({"Effect": "Allow", "Action": ["gatehouse:GetUser", "gatehouse:SuspendUser"], "Resource": user + "ann"}))
    assert call(guarded, one, "GET", "/v1/users/ann")[0] == 200
    assert call(guarded, one, "POST", "/v1/users/ann/suspend")[0] == 200
    status, problem = call(guarded, one, "POST", "/v1/users/eve/suspend")
    assert status == 403 and "user/eve" in problem["detail"]
    assert [call(guarded, one, *request)[0] for request in (("DELETE", "/v1/users/ann"), ("GET", "/v1/users"), ("GET", "/v1/users/ann/emails"),
                                                            ("POST", "/v1/users/lookup", {"email": "ann@example.org"}))] == [403] * 4
    most = guarded.make("users-most", policy(EVERYTHING, deny(user + "eve")))
    assert [each["id"] for each in call(guarded, most, "GET", "/v1/users")[1]["users"]] == ["ann"]
    assert call(guarded, most, "POST", "/v1/users/lookup", {"email": "ann@example.org"})[0] == 200
    denied, unknown = (call(guarded, most, "POST", "/v1/users/lookup", {"email": name}) for name in ("eve@example.org", "nobody@example.org"))
    assert denied == unknown and denied[0] == 404
    assert call(guarded, most, "POST", "/v1/users/eve/emails", {"email": "x@example.org"})[0] == 403


def test_a_key_sends_no_push_messages_to_users_and_platforms_that_it_is_denied(guarded):
    key = guarded.make("pusher", policy(EVERYTHING, deny("arn:aws:gatehouse:*:*:platform/ios", "arn:aws:gatehouse:*:*:notification/secret")))
    without = guarded.make("pusher-without-pat", policy(EVERYTHING, deny("arn:aws:gatehouse:*:*:user/pat")))
    hello = {"title": "Hello"}
    assert call(guarded, without, "POST", "/v1/users/pat/notify", hello)[0] == 403
    assert call(guarded, without, "POST", "/v1/notifications", hello)[0] == 403  # it would go to pat as well
    assert call(guarded, key, "POST", "/v1/users/sam/notify", hello)[0] == 409  # allowed; push is not set up
    assert call(guarded, key, "POST", "/v1/notifications", hello)[0] == 403
    assert call(guarded, key, "POST", "/v1/notifications", {**hello, "platform": "ios"})[0] == 403
    assert call(guarded, key, "POST", "/v1/notifications", {**hello, "platform": "android"})[0] == 409
    assert call(guarded, key, "GET", "/v1/notifications/secret")[0] == 403
    assert call(guarded, key, "GET", "/v1/notifications/other")[0] == 404


def test_a_journey_that_the_key_is_denied_is_not_what_was_probably_meant(guarded):
    key = guarded.make("no-hints", policy(EVERYTHING, NO_SIGN_IN))
    body = {"subject": "alice", "journey": "SIGNIN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    status, problem = call(guarded, key, "POST", "/v1/attempts", body)
    assert status == 422 and "did you mean" not in problem["detail"] and "SIGN_IN" not in problem["detail"]
