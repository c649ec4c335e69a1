"""Every route that is about a user: what it says to a key that is denied that user, and what it does for a user who is suspended, deleted or being erased.

The routes come from openapi.yaml, so a new one is tried too."""
import json
import shutil
import time

import boto3
import pytest
import yaml

from conftest import ROOT, stop
from issuer import Issuer
from test_access import CONFIG, REGION, Guarded
from test_codes import without_versions
from test_token_routes import wait_until
from test_users import call, new_id, new_user, ok, own, rows
from test_v1_access import EVERYTHING, deny, policy
from test_v1_access import call as keyed
from v1 import Server, attempt, generous

pytestmark = pytest.mark.gatehouse_only

# What a good request sends, where `{}` is not one.
BODIES = {
    "UpdateUser": {"lastName": "Lee", "version": 1}, "AddEmail": {"email": "vip@example.org"}, "VerifyEmail": {"code": "UUUUUUUU"}, "SetPrimaryEmail": {"emailId": "e-1"},
    "RegisterDevice": {"platform": "ios", "expoPushToken": "ExponentPushToken[vip]"}, "NotifyUser": {"title": "Hello"}, "CreateUser": {"id": "vip"},
    "SyncUser": {"provider": "p", "id": "vip"}, "SyncEvent": {"provider": "p", "id": "vip"}, "RevokeToken": {"user": "vip"},
    "SyncTrigger": {"userPoolId": "local_1", "userName": "vip", "triggerSource": "PostConfirmation_ConfirmSignUp", "request": {"userAttributes": {"sub": "vip"}}},
}
# About one user, although its path does not say so.
BY_BODY = {"CreateUser", "SyncUser", "SyncEvent", "RevokeToken"}


def routes_of_users():
    """(operation, method, path) of those with a user in their path, or in BODIES."""
    for path, item in yaml.safe_load((ROOT / "openapi.yaml").read_text())["paths"].items():
        for method, operation in item.items():
            if method not in ("get", "post", "put", "patch", "delete"):
                continue
            name = operation["operationId"]
            if path.startswith("/v1/users/{") or path.startswith("/v1/sync/dead-letters/{") or name in BY_BODY:
                yield name, method.upper(), path


def filled(path, user):
    """The path of that user; every other part is called x."""
    for part in ("{id}", "{user}", "{user_id}"):
        path = path.replace(part, user)
    while "{" in path:
        path = path[: path.index("{")] + "x" + path[path.index("}") + 1 :]
    return path


def test_a_key_that_is_denied_a_user_is_denied_every_route_of_that_user():
    server = Guarded()
    try:
        admin, key = server.make("admin", policy(EVERYTHING)), server.make("no-vip", policy(EVERYTHING, deny("arn:aws:gatehouse:*:*:user/vip")))
        assert keyed(server, admin, "POST", "/v1/users", {"id": "vip", "firstName": "Victoria"})[0] == 201
        before = keyed(server, admin, "GET", "/v1/users/vip")[1]
        tried = set()
        for name, method, path in routes_of_users():
            body = None if method in ("GET", "DELETE") else BODIES.get(name, {})
            if body == {}:
                body = None
            status, problem = keyed(server, key, method, filled(path, "vip"), body)
            assert status == 403 or (status in (400, 411, 415, 422) and name not in BODIES), (name, status, problem)
            assert "Victoria" not in json.dumps(problem)
            tried.add(name)
        assert {"GetUser", "EraseUser", "SuspendUser", "ListEmails", "RedriveSyncDeadLetter", *BY_BODY} <= tried
        assert keyed(server, admin, "GET", "/v1/users/vip")[1] == before
        assert keyed(server, key, "GET", "/v1/users/other")[0] == 404  # of others it is told
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


# ---- statuses ----


class People:
    """A server whose users can be given any status, as a running erasure or another program would."""

    def __init__(self, folder):
        self.issuer = Issuer()
        self.server = generous(Server("--identity", str(self.issuer.identity(folder))))
        self.v1, self.endpoint = self.server.v1, self.server.endpoint
        wait_until(lambda: ok(self, "POST", "/v1/tokens/verify", {"token": self.issuer.token()})["valid"], "no keys")
        self.tables = boto3.client("dynamodb", endpoint_url=self.endpoint, region_name=REGION, config=CONFIG, aws_access_key_id="a", aws_secret_access_key="b")

    def become(self, user, status):
        self.tables.update_item(TableName="users", Key={"PK": {"S": f"USER#{user}"}, "SK": {"S": "PROFILE"}}, UpdateExpression="SET #s = :s",
                                ExpressionAttributeNames={"#s": "status"}, ExpressionAttributeValues={":s": {"S": status}})

    def user(self):
        """With two verified addresses, a claim, a device, a begun attempt and a token."""
        made = new_user(self)["id"]
        addresses = [f"{new_id()}@example.org" for _ in range(2)]
        ids = [own(self, made, each) for each in addresses]
        claim = ok(self, "POST", f"/v1/users/{made}/emails", {"email": f"{new_id()}@example.org"})
        ok(self, "PUT", f"/v1/users/{made}/devices/phone", {"platform": "ios", "expoPushToken": f"ExponentPushToken[{made}]"})
        begun = ok(self, "POST", "/v1/attempts/begin", {"subject": made, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})["attempt"]
        return made, addresses, ids, claim, begun, self.issuer.token(made)

    def close(self):
        self.server.close()
        self.issuer.close()


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    made = People(tmp_path_factory.mktemp("identity"))
    yield made
    made.close()


def seen(people):
    """All rows, but for jobs, which start by themselves."""
    return {table: found for table, found in without_versions(rows(people)).items() if table != "gatehouse-jobs"}


def asked_in_its_name(user, addresses, begun, token):
    """What only an active user may: each is a verdict."""
    check = {"journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}
    for subject in (user, {"email": addresses[0]}, {"email": addresses[1].upper()}):
        yield "/v1/attempts", attempt(subject)
        yield "/v1/attempts", attempt(subject, outcome="success")
        yield "/v1/attempts/begin", {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}
        yield "/v1/check", {"subject": subject, **check}
    yield "/v1/attempts/finish", {"attempt": begun, "outcome": "success"}
    yield "/v1/tokens/verify", {"token": token}
    yield "/v1/check", {"token": token, **check}


def changes_of(user, ids, claim):
    path = f"/v1/users/{user}"
    yield "POST", path + "/emails", {"email": f"{new_id()}@example.org"}
    yield "POST", path + "/emails", {"email": claim["email"]}
    yield "POST", f"{path}/emails/{claim['id']}/verify", {"code": claim["code"]}
    yield "DELETE", f"{path}/emails/{ids[1]}", None
    yield "PUT", path + "/primary-email", {"emailId": ids[1]}
    yield "PATCH", path, {"lastName": "Lee", "version": 2}
    yield "POST", "/v1/sync/users", {"provider": "pool", "id": user, "firstName": "Sue"}
    yield "POST", "/v1/sync/events", {"provider": "pool", "id": user, "firstName": "Sue"}
    yield "PUT", path + "/devices/phone", {"platform": "ios", "expoPushToken": f"ExponentPushToken[{user}]"}
    yield "POST", path + "/suspend", None
    yield "POST", path + "/reactivate", None
    yield "POST", "/v1/users", {"id": user}


def written_about(user):
    path = f"/v1/subjects/{user}"
    yield "PUT", path + "/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"}
    yield "DELETE", path + "/locks/SIGN_IN/PASSWORD_ENTRY", None
    yield "PUT", path + "/states/intervention", {"blocked": True, "applied_at": int(time.time())}
    yield "DELETE", path + "/states/intervention", None
    yield "POST", path + "/reset", {"reset": "PASSWORD"}
    yield "DELETE", path + "/known-devices", None


@pytest.mark.parametrize("status", ["suspended", "deleted", "erasing", "of-no-known-kind"])
def test_in_the_name_of_a_user_who_is_not_active_nothing_is_done(people, status):
    user, addresses, ids, claim, begun, token = people.user()
    people.become(user, status)
    before = seen(people)
    reason = f"user_{status}" if status in ("deleted", "erasing") else "user_suspended"
    for path, body in asked_in_its_name(user, addresses, begun, token):
        answer = ok(people, "POST", path, body)
        assert (answer["verdict"], answer["reason"]) == ("blocked", reason), (path, body, answer)
        assert call(people, "POST", path + "?enforce=status", body)[0] == 403, path
    reply = people.v1.send("GET", "/v1/authz", None, {"X-Gatehouse-Token": "required", "Authorization": "Bearer " + token})
    assert reply.status == 403
    assert seen(people) == before


@pytest.mark.parametrize("status", ["deleted", "erasing"])
def test_a_user_who_is_deleted_or_being_erased_does_not_change(people, status):
    user, addresses, ids, claim, _, _ = people.user()
    people.become(user, status)
    before = seen(people)
    asked = [*changes_of(user, ids, claim), *(written_about(user) if status == "erasing" else ()),
             *([("DELETE", f"/v1/users/{user}", None)] if status == "erasing" else ())]
    for method, path, body in asked:
        code, problem, _ = call(people, method, path, body)
        assert code == 409, (method, path, problem)
    for email in addresses:  # they stay taken until they are erased
        assert call(people, "POST", "/v1/users", {"email": email})[0] == 409
    if status == "deleted":
        assert ok(people, "DELETE", f"/v1/users/{user}")["status"] == "deleted"  # it is so already
    assert seen(people) == before


def test_a_suspended_user_gets_no_code_and_no_device_and_stays_suspended_whatever_its_provider_says(people):
    user, _, ids, claim, _, token = people.user()
    ok(people, "POST", f"/v1/users/{user}/suspend")
    path = f"/v1/users/{user}"
    for where, body in ((path + "/emails", {"email": f"{new_id()}@example.org"}), (f"{path}/emails/{claim['id']}/verify", {"code": claim["code"]})):
        assert ok(people, "POST", where, body)["reason"] == "user_suspended"
    assert call(people, "PUT", path + "/devices/tablet", {"platform": "ios", "expoPushToken": f"ExponentPushToken[{user}-2]"})[0] == 409
    for where in ("/v1/sync/users", "/v1/sync/events"):
        assert ok(people, "POST", where, {"provider": "pool", "id": user, "firstName": where[-5:]})["outcome"] == "updated"
    assert ok(people, "PUT", path + "/primary-email", {"emailId": ids[1]})["status"] == "suspended"
    assert ok(people, "GET", path)["status"] == "suspended"
    assert ok(people, "POST", "/v1/tokens/verify", {"token": token})["reason"] == "user_suspended"
