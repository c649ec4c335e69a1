"""What a key that is denied something can do and learn: nothing.

Every route of the server's own table is called with keys that may do everything but that action, and everything but that resource. The answer is 403, or that of
something that does not exist, or it leaves the rows out. It is the same whether the resource exists or not, nothing has changed afterwards, and nothing was
shown. A route or an operation without a case here fails the suite."""
import base64
import concurrent.futures
import json
import re
import shutil
import uuid
from pathlib import Path

import pytest
import urllib.error
import urllib.request

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from conftest import stop
from expo import Expo
from test_access import REGION, Guarded, table_arn
from test_events import Stream
from test_openapi import ROOT, table
from test_v1_access import EVERYTHING, call, policy
from webhooks import Sink, wait_for

pytestmark = pytest.mark.gatehouse_only
ARN = "arn:aws:gatehouse:*:*:"
TOKENS = {name: f"ExponentPushToken[{name}-{uuid.uuid4().hex}]" for name in ("ann", "bob")}
EMAIL = "{}.private@example.org"


class Case:
    """A request, the resource that is denied, and what is to be answered. `{x}` stands for the one that exists, then for the one that does not.

    refused: 403, and also if something else is wrong with the request
    absent:  as if it did not exist
    hidden:  200, without what `lacks` says, and with what `shows` says
    same:    200, the same for both
    found:   403, once what the request asks for was looked up"""

    def __init__(self, method, path, body=None, deny="user/{x}", x=("ann", "zoe"), expect="refused", headers=None, action=None, shows=(), lacks=()):
        self.method, self.path, self.body, self.deny, self.x, self.expect = method, path, body, deny, x, expect
        self.headers, self.action, self.shows, self.lacks = headers or {}, action, shows, lacks or ("anns-phone", TOKENS["ann"], EMAIL.format("ann"), f'"{x[0]}"')

    def request(self, x):
        body = None if self.body is None else json.loads(json.dumps(self.body).replace("{x}", x))
        return self.method, self.path.replace("{x}", x), body


def user(method, path, body=None, **more):
    return [Case(method, "/v1/users/{x}" + path, body, **more)]


def journey(method, path, body=None, x=("SIGN_IN", "NO_SUCH"), **more):
    return [Case(method, path, body, deny="journey/{x}", x=x, **more)]


def limit(method, path, body=None, **more):
    return [Case(method, path, body, deny="limit/{x}", x=("login-ip", "no-such"), **more)]


def named(kind, there, method, path, body=None, **more):
    return [Case(method, path, body, deny=kind + "/{x}", x=(there, "no-such"), **more)]


def everyone(method, path, body=None, **more):
    """It is about all users: a key that is denied one of them is denied it."""
    return [Case(method, path, body, **more)]


def hidden(path, shows, method="GET", body=None, **more):
    return [Case(method, path, body, expect="hidden", shows=shows, **more)]


SUBJECT = "/v1/subjects/ann"
LOCK = SUBJECT + "/locks/{x}/PASSWORD_ENTRY"
CASES = {
    "RecordAttempt": journey("POST", "/v1/attempts", {"subject": "s", "journey": "{x}", "type": "PASSWORD_ENTRY", "outcome": "failure"}),
    "BeginAttempt": journey("POST", "/v1/attempts/begin", {"subject": "s", "journey": "{x}", "type": "PASSWORD_ENTRY"}),
    "FinishAttempt": journey("POST", "/v1/attempts/finish", {"attempt": "{x}.PASSWORD_ENTRY." + 32 * "A", "outcome": "success"}),
    "Check": journey("POST", "/v1/check", {"subject": "s", "journey": "{x}", "actions": ["PASSWORD_ENTRY"]})
    + limit("POST", "/v1/check", {"subject": "s", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "limits": [{"policy": "{x}", "key": "k"}]}, action="Allow"),
    "Allow": limit("POST", "/v1/allow", {"policy": "{x}", "key": "k"}) + limit("POST", "/v1/allow", {"all": [{"policy": "{x}", "key": "k"}]}),
    "Refund": limit("POST", "/v1/refund", {"policy": "{x}", "key": "k"}),
    "Authorize": limit("GET", "/v1/authz?policy={x}&key=k"),
    "VerifyToken": journey("POST", "/v1/tokens/verify", {"token": "a.b.c", "journey": "{x}", "actions": ["PASSWORD_ENTRY"]}),
    "ListLocks": journey("GET", "/v1/locks?journey={x}"),
    "Unlock": journey("POST", "/v1/unlock", {"where": {"journey": "{x}"}}),
    "SetLock": journey("PUT", LOCK, {"kind": "STANDARD"}),
    "ClearLock": journey("DELETE", LOCK),
    "SetState": [Case("PUT", SUBJECT + "/states/{x}", {"suspended": True, "applied_at": 1}, deny="state/{x}", x=("intervention", "no-such"))],
    "ClearState": [Case("DELETE", SUBJECT + "/states/{x}", deny="state/{x}", x=("intervention", "no-such"))],
    "ResetSubject": [Case("POST", SUBJECT + "/reset", {"reset": "{x}"}, deny="reset/{x}", x=("PASSWORD", "NO_SUCH"))],
    "LookupSubject": [],
    "GetSubject": journey("GET", SUBJECT + "?prefix={x}%23ERROR_COUNT")
    + hidden("/v1/subjects/ann", ["locks"], action="GetUser", lacks=['"user"'])
    + hidden("/v1/subjects/ann", ['"user"'], action="ListDevices", lacks=["device_id"]),
    "SumCounts": journey("GET", SUBJECT + "/sum?prefix={x}%23ERROR_COUNT"),
    "ExplainSubject": hidden("/v1/subjects/ann/explain", ["locks"], action="GetUser", lacks=['"user"']),
    "ListKnownDevices": journey("GET", SUBJECT + "/known-devices", x=("SIGN_IN", "SIGN_IN")),
    "ForgetKnownDevice": journey("DELETE", SUBJECT + "/known-devices/nope", x=("SIGN_IN", "SIGN_IN")),
    "ForgetKnownDevices": journey("DELETE", SUBJECT + "/known-devices", x=("SIGN_IN", "SIGN_IN")),
    "GetPolicies": named("policy", "attempts", "GET", "/v1/policies/{x}"),
    "PutPolicies": named("policy", "attempts", "PUT", "/v1/policies/{x}", {}),
    "DeletePolicies": named("policy", "attempts", "DELETE", "/v1/policies/{x}"),
    "CreateUser": [Case("POST", "/v1/users", {"id": "{x}"})],
    "ListUsers": hidden("/v1/users", ["bob"]) + hidden("/v1/users?status=active", ["bob"]),
    "SearchUsers": hidden("/v1/users/search", ["bob"], method="POST", body={})
    + [Case("POST", "/v1/users/search", {"email": EMAIL.replace("{}", "{x}"), **more}, expect="same", action=action)
       for more in ({}, {"limit": 1}, {"countOnly": True}) for action in (None, "LookupUser")],
    "GetUserCounts": everyone("GET", "/v1/user-counts"),
    "CountUsers": everyone("POST", "/v1/user-counts", {}),
    "LookupUser": [Case("POST", "/v1/users/lookup", {"email": EMAIL.replace("{}", "{x}")}, expect="absent")],
    "GetUser": user("GET", ""),
    "UpdateUser": user("PATCH", "", {"version": 1, "firstName": "x"}),
    "DeleteUser": user("DELETE", ""),
    "SuspendUser": user("POST", "/suspend"),
    "ReactivateUser": user("POST", "/reactivate"),
    "AdoptUsers": everyone("POST", "/v1/users/adopt", {}),
    "ImportUsers": [Case("POST", "/v1/users/import", {"users": [{"id": "{x}", "firstName": "New", "emails": [{"email": EMAIL.format("bob"), "isVerified": True}]}]},
                         expect="same", lacks=(EMAIL.format("ann"), EMAIL.format("bob")))],
    "ExportUsers": hidden("/v1/users/export", ["bob"], method="POST", body={}),
    "EraseUser": user("POST", "/erase"),
    "RevokeUserTokens": user("POST", "/revoke-tokens", {}),
    "RevokeToken": [Case("POST", "/v1/tokens/revoke", {"user": "{x}"})] + everyone("POST", "/v1/tokens/revoke", {"client": "app"})
    + named("client", "app", "POST", "/v1/tokens/revoke", {"client": "{x}"}) + named("issuer", "https://a", "POST", "/v1/tokens/revoke", {"jti": "j", "issuer": "{x}"}),
    "RevokeAllTokens": everyone("POST", "/v1/revoke-all", {"reason": "r"}),
    "RevokeUsers": everyone("POST", "/v1/revoke-users", {"users": ["bob"], "reason": "r"}),
    "ListRevocations": hidden("/v1/revocations?limit=500", ["bob"]),
    "ListEmails": user("GET", "/emails"),
    "AddEmail": user("POST", "/emails", {"email": "new@example.org"}),
    "VerifyEmail": user("POST", "/emails/e-1/verify", {"code": "1"}),
    "RemoveEmail": user("DELETE", "/emails/e-1"),
    "SetPrimaryEmail": user("PUT", "/primary-email", {"emailId": "e-1"}),
    "SyncUser": [Case("POST", "/v1/sync/users", {"provider": "pool", "id": "{x}"})],
    "SyncEvent": [Case("POST", "/v1/sync/events", {"provider": "pool", "id": "{x}"})],
    "SyncTrigger": [Case("POST", "/2015-03-31/functions/gatehouse-post-confirmation/invocations",
                         {"triggerSource": "PostConfirmation_ConfirmSignUp", "userPoolId": "pool", "userName": "{x}",
                          "request": {"userAttributes": {"sub": "{x}"}}})],
    "ReadEvents": [Case("GET", "/v1/events?types={x}", deny="event/{x}", x=("user.created", "user.updated"))]
    + hidden("/v1/events?limit=1000", ["bob"]) + [Case("GET", "/v1/events?subject={x}")],
    "PollConsumer": named("consumer", "reader", "POST", "/v1/consumers/{x}/poll", {"member": "m"})
    + everyone("POST", "/v1/consumers/reader/poll", {"member": "m"}),
    "AckConsumer": named("consumer", "reader", "POST", "/v1/consumers/{x}/ack", {"member": "m", "generation": 1, "after": "0"}),
    "SeekConsumer": named("consumer", "reader", "POST", "/v1/consumers/{x}/seek", {"from": "first"}),
    "ListConsumers": [Case("GET", "/v1/consumers", deny="consumer/{x}", x=("reader", "no-such"), expect="hidden", shows=["other-reader"])],
    "PutConsumer": named("consumer", "reader", "PUT", "/v1/consumers/{x}", {}),
    "GetConsumer": named("consumer", "reader", "GET", "/v1/consumers/{x}"),
    "DeleteConsumer": named("consumer", "reader", "DELETE", "/v1/consumers/{x}"),
    "ListSyncDeadLetters": hidden("/v1/sync/dead-letters", ["bob", '"count":1']),
    "RedriveSyncDeadLetters": everyone("POST", "/v1/sync/dead-letters/redrive", {}),
    "Reconcile": everyone("POST", "/v1/sync/reconcile", {}),
    "RestoreSyncMissing": everyone("POST", "/v1/sync/missing/restore", {}),
    "ListSyncMissing": hidden("/v1/sync/missing", ["bob"]),
    "GetSyncDeadLetter": [Case("GET", "/v1/sync/dead-letters/elsewhere/{x}")],
    "DeleteSyncDeadLetter": [Case("DELETE", "/v1/sync/dead-letters/elsewhere/{x}")],
    "RedriveSyncDeadLetter": [Case("POST", "/v1/sync/dead-letters/elsewhere/{x}/redrive")],
    "NotifyUser": user("POST", "/notify", {"title": "Hello"}),
    "Broadcast": [Case("POST", "/v1/notifications", {"title": "Hello", "platform": "{x}"}, deny="platform/{x}", x=("ios", "android"))]
    + everyone("POST", "/v1/notifications", {"title": "Hello", "platform": "ios"}),
    "ListNotifications": hidden("/v1/notifications", ["bob"]),
    "GetNotification": named("notification", "<notification>", "GET", "/v1/notifications/{x}")
    + [Case("GET", "/v1/notifications/{x}", deny="user/ann", x=("<notification>", "no-such"), expect="absent")],
    "CancelNotification": named("notification", "<notification>", "POST", "/v1/notifications/{x}/cancel")
    + [Case("POST", "/v1/notifications/{x}/cancel", deny="user/ann", x=("<notification>", "no-such"), expect="absent")],
    "ListJobs": hidden("/v1/jobs", ["bob"]),
    "GetJob": named("job", "<job>", "GET", "/v1/jobs/{x}") + [Case("GET", "/v1/jobs/{x}", deny="user/ann", x=("<job>", "no-such"), expect="absent")],
    "CancelJob": named("job", "<job>", "POST", "/v1/jobs/{x}/cancel")
    + [Case("POST", "/v1/jobs/{x}/cancel", deny="user/ann", x=("<job>", "no-such"), expect="absent")],
    "ResumeJob": named("job", "<job>", "POST", "/v1/jobs/{x}/resume")
    + [Case("POST", "/v1/jobs/{x}/resume", deny="user/ann", x=("<job>", "no-such"), expect="absent"),
       Case("POST", "/v1/jobs/{x}/resume", deny="user/ann", x=("<cleanup>", "<cleanup>"), expect="found")],
    "RegisterDevice": user("PUT", "/devices/d", {"platform": "ios", "expoPushToken": TOKENS["bob"]})
    + [Case("PUT", "/v1/users/{x}/devices/d", {"platform": "ios", "expoPushToken": TOKENS["ann"]}, deny="user/ann", x=("bob", "bob"), expect="found")],
    "GetDevice": user("GET", "/devices/anns-phone"),
    "ListDevices": user("GET", "/devices"),
    "DeactivateDevice": user("POST", "/devices/anns-phone/deactivate"),
    "DeleteDevice": user("DELETE", "/devices/anns-phone"),
    "EraseDevices": user("DELETE", "/devices"),
    "ListPlatformDevices": [Case("GET", "/v1/devices?platform={x}", deny="platform/{x}", x=("ios", "android"))]
    + hidden("/v1/devices?platform=ios", ["bobs-phone"]),
    "CleanUpDevices": everyone("POST", "/v1/devices/cleanup", {}),
    "RepairDevices": everyone("POST", "/v1/devices/repair", {}),
    "ReportPushFeedback": [Case("POST", "/v1/devices/feedback", {"results": [{"token": "{x}", "error": "DeviceNotRegistered"}]}, deny="user/ann",
                                x=(TOKENS["ann"], "ExponentPushToken[nobodys]"), expect="same"),
                           Case("POST", "/v1/devices/feedback", {"results": [{"token": TOKENS["ann"], "error": "DeviceNotRegistered", "userId": "{x}",
                                                                             "deviceId": "anns-phone"}]})],
    "ListTargets": [Case("GET", "/v1/targets", deny="target/{x}", x=("sink", "no-such"), expect="hidden", shows=["quiet"])],
    "PutTarget": named("target", "sink", "PUT", "/v1/targets/{x}", {"type": "webhook", "url": "http://127.0.0.1:9/"})
    + everyone("PUT", "/v1/targets/new", {"type": "webhook", "url": "http://127.0.0.1:9/"}),
    "GetTarget": named("target", "sink", "GET", "/v1/targets/{x}"),
    "DeleteTarget": named("target", "sink", "DELETE", "/v1/targets/{x}"),
    "EnableTarget": named("target", "sink", "POST", "/v1/targets/{x}/enable"),
    "DisableTarget": named("target", "sink", "POST", "/v1/targets/{x}/disable"),
    "RotateTargetSecret": named("target", "sink", "POST", "/v1/targets/{x}/rotate-secret", {}),
    "SeekTarget": named("target", "sink", "POST", "/v1/targets/{x}/seek", {"from": "last"}) + everyone("POST", "/v1/targets/sink/seek", {"from": "last"}),
    "ListTargetTries": named("target", "sink", "GET", "/v1/targets/{x}/tries") + everyone("GET", "/v1/targets/sink/tries"),
    "TestTarget": named("target", "sink", "POST", "/v1/targets/{x}/test"),
    "ListDeadLetters": hidden("/v1/dead-letters", ["bob"]) + named("target", "sink", "GET", "/v1/dead-letters?target={x}")
    + [Case("GET", "/v1/dead-letters?subject={x}")],
    "RedriveDeadLetters": named("target", "sink", "POST", "/v1/dead-letters/redrive", {"target": "{x}"})
    + everyone("POST", "/v1/dead-letters/redrive", {"target": "sink"}),
    "GetDeadLetter": named("target", "sink", "GET", "/v1/dead-letters/{x}/<letter>")
    + [Case("GET", "/v1/dead-letters/sink/{x}", deny="user/ann", x=("<letter>", "0-999999"), expect="absent")],
    "DeleteDeadLetter": named("target", "sink", "DELETE", "/v1/dead-letters/{x}/<letter>")
    + [Case("DELETE", "/v1/dead-letters/sink/{x}", deny="user/ann", x=("<letter>", "0-999999"), expect="absent")],
    "RedriveDeadLetter": named("target", "sink", "POST", "/v1/dead-letters/{x}/<letter>/redrive")
    + [Case("POST", "/v1/dead-letters/sink/{x}/redrive", deny="user/ann", x=("<letter>", "0-999999"), expect="absent")],
    "ListHotKeys": everyone("GET", "/v1/hot-keys"),
    "ListTopLimits": [Case("GET", "/v1/limits/top", deny="limit/{x}", x=("login-ip", "no-such"), expect="hidden", shows=["api-client"])],
}


def test_every_route_has_a_case():
    assert sorted(CASES) == sorted(action for _, _, action in table())


# ---- a world in which ann has one of everything, and bob too ----


class World(Guarded):
    def __init__(self):
        self.expo, self.sink = Expo(), Sink(answer=lambda event: 422 if event["type"] == "user.created" else 204)
        self.identity = Path(f"/tmp/gatehouse-denied-{uuid.uuid4().hex}.yaml")
        self.identity.write_text(f"push:\n  url: {json.dumps(self.expo.url)}\n  allow_private: true\n")
        super().__init__("--identity", str(self.identity), "--device-index", "--private-targets")
        self.admin = self.key("show", "administrator")
        self.keys, self.names = {}, {}
        self.fill()

    def ok(self, method, path, body=None, **headers):
        status, answer = call(self, self.admin, method, path, body, **headers)
        assert status < 300, (method, path, answer)
        return answer

    def fill(self):
        self.ok("PUT", "/v1/consumers/reader", {"from": "first"})
        self.ok("PUT", "/v1/consumers/other-reader", {})
        self.ok("PUT", "/v1/targets/sink", {"type": "webhook", "url": self.sink.url, "tries": 1})
        self.ok("PUT", "/v1/targets/quiet", {"type": "webhook", "url": self.sink.url, "enabled": False})
        for each in ("bob", "ann"):
            self.person(each)
        self.client(self.admin).put_item(TableName="users", Item={  # whom nobody denies, so that a list without ann has two pages
            "PK": {"S": "USER#cyd"}, "SK": {"S": "PROFILE"}, "status": {"S": "active"}, "version": {"N": "1"}})
        for policy_name in 8 * ("login-ip", "api-client"):  # counts fade
            self.ok("POST", "/v1/allow", {"policy": policy_name, "key": "k"})
        cleanup = self.ok("POST", "/v1/devices/cleanup", {})["id"]
        self.settle()
        letters = self.ok("GET", "/v1/dead-letters?limit=500")["deadLetters"]
        self.names = {"<cleanup>": cleanup, "<letter>": next(each["id"] for each in letters if each["subject"] == "ann"),
                      "<job>": next(each["id"] for each in self.ok("GET", "/v1/jobs")["jobs"] if each["args"].get("users") == ["ann"]),
                      "<notification>": next(each["id"] for each in self.ok("GET", "/v1/notifications")["notifications"] if each["userId"] == "ann")}

    def person(self, name):
        record = {"provider": "pool", "id": name, "email": EMAIL.format(name), "emailVerified": True}
        self.ok("POST", "/v1/sync/users", record)
        self.ok("POST", "/v1/sync/events", {**record, "provider": "elsewhere"})  # a dead letter: she belongs to the other pool
        self.client(self.admin).put_item(TableName="gatehouse-sync", Item={
            "PK": {"S": "MISSING"}, "SK": {"S": f"{name}#pool"}, "userId": {"S": name}, "provider": {"S": "pool"},
            "foundAt": {"S": "2026-11-15T22:00:00Z"}, "suspended": {"BOOL": False}})
        self.ok("PUT", f"/v1/users/{name}/devices/{name}s-phone", {"platform": "ios", "expoPushToken": TOKENS[name]})
        self.ok("POST", f"/v1/users/{name}/revoke-tokens", {})
        self.ok("POST", "/v1/revoke-users", {"users": [name], "reason": "r"})
        self.ok("POST", f"/v1/users/{name}/notify", {"title": "Hello"})
        self.ok("PUT", f"/v1/subjects/{name}/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"})

    def rows(self):
        """Every row of every table."""
        tables = self.client(self.admin)
        return {name: sorted(json.dumps(item, sort_keys=True, default=str) for item in tables.scan(TableName=name, ConsistentRead=True)["Items"])
                for name in tables.list_tables()["TableNames"]}

    def settle(self):
        """Until workers have done what they were given."""
        wait_for(lambda: all(job["state"] == "done" for job in self.ok("GET", "/v1/jobs")["jobs"]))
        wait_for(lambda: all(each["state"] == "done" or each["counts"]["accepted"] for each in self.ok("GET", "/v1/notifications")["notifications"]))
        wait_for(lambda: (target := self.ok("GET", "/v1/targets/sink"))["lagEvents"] == 0 and target["waiting"] == 0)
        last = {seen["event"]["id"] for seen in self.sink.tries[-8:]}  # written down within a second
        wait_for(lambda: last <= {each["event"] for each in self.ok("GET", "/v1/targets/sink/tries")["tries"]})
        wait_for(lambda: self.rows() == self.rows())

    def key_without(self, action, *resources):
        """One that may do everything else."""
        statement = (action, *resources)
        if statement not in self.keys:
            denied = {"Effect": "Deny", "Action": f"gatehouse:{action}", "Resource": list(resources)}
            self.keys[statement] = self.make(f"without-{len(self.keys)}", policy(EVERYTHING, denied))
        return self.keys[statement]

    def close(self):
        stop(self.process)
        shutil.rmtree(self.data, ignore_errors=True)
        self.identity.unlink()
        self.expo.close()
        self.sink.close()


@pytest.fixture(scope="module")
def world():
    made = World()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def unchanged(request):
    """Whatever a denied key sends, no row of any table is another afterwards."""
    if "world" not in request.fixturenames:
        yield
        return
    world = request.getfixturevalue("world")
    before = world.rows()
    yield
    assert world.rows() == before


def raw(world, key, method, path, body, headers):
    """(status, text)"""
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    sent = {"Authorization": f"Bearer {key[0]}.{key[1]}", **headers}
    if path.startswith("/2015-03-31/"):  # Lambda's calls are signed
        signed = AWSRequest(method, world.endpoint + path, data=data)
        SigV4Auth(Credentials(*key), "lambda", REGION).add_auth(signed)
        sent = dict(signed.headers)
    try:
        answer = urllib.request.urlopen(urllib.request.Request(world.endpoint + path, data, sent, method=method), timeout=60)
    except urllib.error.HTTPError as refused:
        answer = refused
    return answer.status, answer.read().decode()


# ---- an action ----


@pytest.mark.parametrize("method, path, action", table(), ids=lambda each: each)
def test_a_denied_action_is_refused_before_anything_of_the_request_is_read(world, method, path, action):
    path = re.sub(r"\{[^}]*\}", "%00", path) + "?no-such-parameter=%FF"
    only_other = world.keys.setdefault("other", world.make("other", policy({"Effect": "Allow", "Action": "gatehouse:NoSuch*", "Resource": "*"}))
                                       if "other" not in world.keys else None)
    for key in (world.key_without(action, "*"), only_other):
        for body in (b"{\"a\": [1, {\"b\"", b"{}", None):
            status, text = raw(world, key, method.upper(), path, body, {})
            assert status == 403 and action in text, (body, text)


# ---- a resource ----


SPOILS = (  # something else is wrong
    lambda request: request,
    lambda request: (request[0], request[1] + ("&" if "?" in request[1] else "?") + "no-such-parameter=1", request[2]),
    lambda request: (*request[:2], {**request[2], "no_such_member": 1} if request[2] is not None else None),
)


@pytest.mark.parametrize("action, case", [pytest.param(action, case, id=f"{action}-{i}") for action, cases in CASES.items() for i, case in enumerate(cases)])
def test_a_denied_resource_is_not_told_from_one_that_does_not_exist(world, action, case):
    def resolved(text):
        for name, value in world.names.items():
            text = text.replace(name, value)
        return text

    key = world.key_without(case.action or action, *sorted({resolved(ARN + case.deny.replace("{x}", x)) for x in case.x}))

    def ask(x, spoil=lambda request: request):
        method, path, body = case.request(x)
        return raw(world, key, *spoil((method, resolved(path), body)), case.headers)

    there, absent = map(resolved, case.x)
    status, text = ask(there)
    assert case.expect == "refused" or not any(secret in text for secret in case.lacks), text
    if case.expect == "hidden":
        assert status == 200 and all(shown in text for shown in case.shows), text
        return
    if case.expect == "refused":
        assert all(ask(x, spoil)[0] == 403 for spoil in SPOILS for x in (there, absent)), [ask(x, spoil) for spoil in SPOILS for x in (there, absent)]
    other = ask(absent)
    assert (status, text.replace(there, "X")) == (other[0], other[1].replace(absent, "X"))
    assert status == {"refused": 403, "found": 403, "absent": 404, "same": 200}[case.expect], text


LISTS = {case.path.replace("?limit=500", "") for cases in CASES.values() for case in cases
         if case.expect == "hidden" and case.method == "GET" and case.deny == "user/{x}" and not case.path.startswith(("/v1/subjects", "/v1/events"))}  # a cursor of events is a number


@pytest.mark.parametrize("path", sorted(LISTS))
def test_a_page_that_ends_with_a_denied_user_does_not_name_them_in_its_cursor(world, path):
    key = world.key_without("*", ARN + "user/ann")
    page, pages = path + ("&" if "?" in path else "?") + "limit=1", 0
    cursor, seen = "", ""
    while cursor is not None:
        status, text = raw(world, key, "GET", page + (f"&cursor={cursor}" if cursor else ""), None, {})
        cursor = json.loads(text).get("cursor")
        seen, pages = seen + text, pages + 1
        assert status == 200 and b"ann" not in base64.urlsafe_b64decode((cursor or "") + "=="), text
    assert pages > 1 and "bob" in seen and '"ann"' not in seen


# ---- DynamoDB's protocol ----

KEY = {"PK": {"S": "k"}, "SK": {"S": "k"}}
SCHEMA = {"KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "PK", "AttributeType": "S"}],
          "BillingMode": "PAY_PER_REQUEST"}
WRITES = {"Put": {"Item": KEY}, "Update": {"Key": KEY, "UpdateExpression": "REMOVE a"}, "Delete": {"Key": KEY}, "ConditionCheck": {"Key": KEY, "ConditionExpression": "attribute_exists(PK)"}}
NO_RESOURCE = ("ListTables", "DescribeLimits", "DescribeEndpoints", "DescribeGlobalTable", "DescribeGlobalTableSettings", "DescribeImport", "DescribeExport", "DescribeBackup",
               "ListContributorInsights", "ListGlobalTables", "ListImports", "ListExports", "ListBackups")  # their action has no resource but "*"
OPERATIONS = {
    "GetItem": {"Key": KEY}, "PutItem": {"Item": KEY}, "UpdateItem": {"Key": KEY}, "DeleteItem": {"Key": KEY}, "Query": {
        "KeyConditionExpression": "PK = :k", "ExpressionAttributeValues": {":k": {"S": "k"}}}, "Scan": {}, "DescribeTable": {}, "DeleteTable": {},
    "CreateTable": SCHEMA, "UpdateTable": {"BillingMode": "PAY_PER_REQUEST"}, "DescribeTimeToLive": {},
    "UpdateTimeToLive": {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "ttl"}},
    "BatchGetItem": {"RequestItems": {"{x}": {"Keys": [KEY]}}}, "BatchWriteItem": {"RequestItems": {"{x}": [{"PutRequest": {"Item": KEY}}]}},
    "TransactGetItems": {"TransactItems": [{"Get": {"TableName": "{x}", "Key": KEY}}]},
    "TransactWriteItems": {"TransactItems": [{name: {"TableName": "{x}", **body}} for name, body in WRITES.items()]},
    "TagResource": {"ResourceArn": table_arn("{x}"), "Tags": [{"Key": "a", "Value": "b"}]},
    "UntagResource": {"ResourceArn": table_arn("{x}"), "TagKeys": ["a"]}, "ListTagsOfResource": {"ResourceArn": table_arn("{x}")},
    "GetResourcePolicy": {"ResourceArn": table_arn("{x}")}, "DescribeContinuousBackups": {}, "DescribeContributorInsights": {}, "DescribeKinesisStreamingDestination": {},
    "DescribeTableReplicaAutoScaling": {},
    **{name: {} for name in NO_RESOURCE},
}
UNTABLED = ("Batch", "Transact", "Tag", "Untag", "ListTags", "GetResourcePolicy")


def operation_body(name, table_name):
    body = OPERATIONS[name] if name.startswith(UNTABLED) or name in NO_RESOURCE else {"TableName": "{x}", **OPERATIONS[name]}
    return json.loads(json.dumps(body).replace("{x}", table_name))


def operation_names():
    source = (ROOT / "src" / "api" / "dynamodb.c").read_text().split("operations[] = {")[1].split("\n};")[0]
    return re.findall(r'\{BYTES_INIT\("(\w+)"\)', source)


def test_every_operation_has_a_case():
    assert sorted(OPERATIONS) == sorted(operation_names())


def operate(world, key, name, data):
    """(status, text)"""
    headers = {"X-Amz-Target": "DynamoDB_20120810." + name, "Content-Type": "application/x-amz-json-1.0"}
    signed = AWSRequest("POST", world.endpoint + "/", data=data, headers=headers)
    SigV4Auth(Credentials(*key), "dynamodb", REGION).add_auth(signed)
    try:
        answer = urllib.request.urlopen(urllib.request.Request(world.endpoint + "/", data, dict(signed.headers), method="POST"), timeout=60)
    except urllib.error.HTTPError as refused:
        answer = refused
    return answer.status, answer.read().decode()


def actions_of(name):
    """The IAM actions of an operation: those of a transaction are its items'."""
    return {"TransactGetItems": ["GetItem"], "TransactWriteItems": ["PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"]}.get(name, [name])


def denied(world, name, actions, resource):
    statement = {"Effect": "Deny", "Action": [f"dynamodb:{each}" for each in actions], "Resource": resource}
    return world.make(name, policy({"Effect": "Allow", "Action": "*", "Resource": "*"}, statement))


@pytest.mark.parametrize("name", operation_names())
def test_a_denied_operation_is_refused_before_anything_of_the_request_is_read(world, name):
    key = denied(world, "no-" + name, actions_of(name), "*")
    for data in (b'{"TableName": [', b"", b"[]", json.dumps(operation_body(name, "gatehouse-users")).encode()):
        status, text = operate(world, key, name, data)
        assert status == 400 and "AccessDeniedException" in text, text


@pytest.mark.parametrize("name", [name for name in operation_names() if name not in NO_RESOURCE])
def test_a_denied_table_is_not_told_from_one_that_does_not_exist(world, name):
    there, absent = "gatehouse-users", "gatehouse-nowhere"
    key = denied(world, "tables-" + name, actions_of(name), [table_arn(there), table_arn(absent)])
    answers = []
    for table_name in (there, absent):
        body = operation_body(name, table_name)
        answers.append(operate(world, key, name, json.dumps(body).encode()))
        assert "AccessDeniedException" in answers[-1][1]
        spoiled = {**body, "ReturnConsumedCapacity": "NONSENSE", "Limit": -1, "TableClass": 7}
        status, text = operate(world, key, name, json.dumps(spoiled).encode())
        assert "AccessDeniedException" in text, text
    assert answers[0] == (answers[1][0], answers[1][1].replace(absent, there))


@pytest.mark.parametrize("name", ["GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "BatchGetItem", "BatchWriteItem", "TransactGetItems",
                                  "TransactWriteItems"])
def test_a_denied_leading_key_does_not_tell_whether_the_table_exists(world, name):
    only_own = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*",
                "Condition": {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["own"]}}}
    key = world.make("leading-" + name, policy(only_own))
    there, absent = (operate(world, key, name, json.dumps(operation_body(name, each)).encode()) for each in ("gatehouse-users", "gatehouse-nowhere"))
    assert "AccessDeniedException" in there[1] and there == (absent[0], absent[1].replace("gatehouse-nowhere", "gatehouse-users"))


# ---- what goes on, in servers of their own ----


@pytest.fixture
def guarded():
    server = Guarded()
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def suspend(server, *users):
    admin = server.key("show", "administrator")
    for each in users:
        call(server, admin, "POST", "/v1/users", {"id": each})
        assert call(server, admin, "POST", f"/v1/users/{each}/suspend")[0] == 200


def test_who_follows_the_log_is_sent_no_event_of_a_denied_user(guarded):
    """From the past and as they come, by streams and by requests that wait."""
    key = guarded.make("follower", policy(EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:*", "Resource": ARN + "user/ann"}))
    admin = guarded.key("show", "administrator")
    suspend(guarded, "ann", "bob")
    stream = Stream(guarded.endpoint, "/v1/events?from=first", Authorization=f"Bearer {key[0]}.{key[1]}")
    seen = stream.events(2)
    place = call(guarded, key, "GET", "/v1/events?from=last")[1]["after"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(call, guarded, key, "GET", f"/v1/events?after={place}&wait=60")
        assert call(guarded, admin, "POST", "/v1/users/ann/reactivate")[0] == 200
        suspend(guarded, "eve")
        answer = waiting.result()[1]
    seen += stream.events(2)
    stream.close()
    assert [event["subject"] for event in seen] == ["bob", "bob", "eve", "eve"]
    assert {event["subject"] for event in answer["events"]} <= {"eve"} and (answer["events"] or answer["more"])


NARROW = {"Effect": "Allow", "Action": ["gatehouse:SyncUser", "gatehouse:SyncEvent"], "Resource": "*"}
LOOKUP = {"Effect": "Allow", "Action": "gatehouse:LookupUser", "Resource": "*"}


def test_syncing_a_user_tells_nobody_whether_an_address_has_an_account_but_those_who_may_look_it_up(guarded):
    admin = guarded.key("show", "administrator")
    narrow, wide = guarded.make("narrow", policy(NARROW)), guarded.make("wide", policy(NARROW, LOOKUP))

    def sync(key, path, user, address):
        return call(guarded, key, "POST", path, {"provider": "pool", "id": user, "email": address, "emailVerified": True})

    assert sync(admin, "/v1/sync/users", "first", "taken@example.org")[0] == 201
    for path, told in (("/v1/sync/users", 202), ("/v1/sync/events", 200)):
        name = path[-5:]
        taken, free = sync(narrow, path, name + "-1", "taken@example.org"), sync(narrow, path, name + "-2", f"{name}@example.org")
        assert taken == free == (told, {"outcome": "accepted"})
        assert call(guarded, admin, "GET", f"/v1/users/{name}-2")[1]["email"] == f"{name}@example.org"
        assert call(guarded, admin, "GET", f"/v1/users/{name}-1")[0] == 404
    letters = call(guarded, admin, "GET", "/v1/sync/dead-letters")[1]["deadLetters"]
    assert [(each["id"], each["error"]) for each in letters] == [(f"{name}-1", "email-not-available") for name in ("users", "vents")]
    assert sync(wide, "/v1/sync/users", "third", "taken@example.org")[0] == 409
    assert sync(wide, "/v1/sync/events", "third", "taken@example.org")[1] == {"outcome": "dead_lettered", "error": "email-not-available"}
    without = {"provider": "pool", "id": "fourth", "email": "taken@example.org", "emailVerified": False}
    assert call(guarded, narrow, "POST", "/v1/sync/users", without)[0] == 201  # the address is left out: there is nothing to tell


@pytest.mark.parametrize("action", ["AdoptUsers", "CleanUpDevices", "ListHotKeys", "Reconcile", "RedriveSyncDeadLetters", "RepairDevices", "RestoreSyncMissing",
                                    "RevokeAllTokens", "RevokeUsers"])
def test_what_is_about_everything_is_refused_to_a_key_that_is_allowed_all_but_one(world, action):
    """By an Allow with NotResource, so that there is no Deny to be found."""
    if "but-ann" not in world.keys:
        world.keys["but-ann"] = world.make("but-ann", policy({"Effect": "Allow", "Action": "gatehouse:*", "NotResource": ARN + "user/ann"}))
    status, text = raw(world, world.keys["but-ann"], *CASES[action][0].request("ann"), {})
    assert status == 403, text
