"""What keys may do under /v1, and that nothing gets around it."""
import json
import shutil
import urllib.error
import urllib.request

import pytest
from conftest import program, stop  # noqa: F401
from test_access import Guarded

EVERYTHING = {"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"}
NO_SIGN_IN = {"Effect": "Deny", "Action": ["gatehouse:Unlock", "gatehouse:ClearLock", "gatehouse:ListLocks", "gatehouse:ResetSubject"],
              "Resource": "arn:aws:gatehouse:*:*:journey/SIGN_IN"}


@pytest.fixture(scope="module")
def guarded():
    server = Guarded()
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def call(server, key, method, path, body=None, **headers):
    """(status, answer)"""
    sent = {"Authorization": f"Bearer {key[0]}.{key[1]}"} if key else {}
    sent.update({name.replace("_", "-"): value for name, value in headers.items()})
    data = None if body is None else json.dumps(body).encode()
    try:
        answer = urllib.request.urlopen(urllib.request.Request(server.endpoint + path, data, sent, method=method), timeout=10)
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
    ("GET", "/v1/locks", None),
    ("GET", "/v1/locks?journey=SIGN_IN", None),
    ("POST", "/v1/subjects/x/reset", {"reset": "PASSWORD"}),
])
def test_a_denied_journey_is_denied_on_every_way_to_it(guarded, method, path, body):
    name = "denied" + str(abs(hash((method, path, str(body)))))
    key = guarded.make(name, policy(EVERYTHING, NO_SIGN_IN))
    assert call(guarded, key, method, path, body)[0] == 403
    assert call(guarded, guarded.make(name + "-not", policy(EVERYTHING)), method, path, body)[0] == 200


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
