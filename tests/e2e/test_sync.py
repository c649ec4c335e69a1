"""Users of an identity provider: a sign-up at Cognito's emulator creates them here, what fails is kept and redriven, and reconciliation
repairs the rest."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

import boto3
import pytest
import yaml
from botocore.config import Config
from botocore.exceptions import ClientError

from cognito import FUNCTION, Cognito, Receiver, identity_file, until
from conftest import HERE, line_with_endpoint, program, stop
from helpers import free_port
from issuer import Issuer
from test_users import rows
from v1 import V1, Server

pytestmark = pytest.mark.gatehouse_only

INVOKE = f"/2015-03-31/functions/{FUNCTION}/invocations"


@pytest.fixture
def server():
    one = Server()
    yield one
    one.close()


@pytest.fixture
def cognito(server):
    one = Cognito(server.endpoint)
    yield one
    one.close()


def user(server, id):
    return server.v1.send("GET", f"/v1/users/{id}")


def letters(server):
    reply = server.v1.send("GET", "/v1/sync/dead-letters")
    assert reply.status == 200, reply.body
    return reply.json()


def event(sub, email="sue@example.org", **more):
    attributes = {"sub": sub, "email": email, "email_verified": "true", "given_name": "Sue", "custom:tier": "gold", "locale": "en"}
    return {"version": "1", "region": "local", "userPoolId": "local_1", "userName": sub, "callerContext": {"awsSdkVersion": "x", "clientId": None},
            "triggerSource": "PostConfirmation_ConfirmSignUp", "request": {"userAttributes": attributes}, "response": {}, **more}


# ---- the trigger ----


def test_a_sign_up_at_cognito_creates_the_user(server, cognito):
    sub = cognito.sign_up("sue", "Sue@Example.org", given_name="Sue", phone_number="+442071838750")
    seen = user(server, sub).json()
    assert (seen["email"], seen["firstName"], seen["phone"], seen["version"]) == ("sue@example.org", "Sue", "+442071838750", 1)
    emails = server.v1.send("GET", f"/v1/users/{sub}/emails").json()["emails"]
    assert [(e["isVerified"], e["isPrimary"]) for e in emails] == [(True, True)]


def test_an_address_that_is_taken_becomes_a_dead_letter_and_a_redrive_repairs_it(server, cognito):
    first = cognito.sign_up("sue", "one@example.org")
    second = cognito.sign_up("sam", "one@example.org")
    assert user(server, second).status == 404
    kept = letters(server)
    assert kept["count"] == 1 and kept["groups"][0]["error"] == "email-not-available" and kept["groups"][0]["count"] == 1
    assert "one@example.org" not in json.dumps(kept)
    where = f"/v1/sync/dead-letters/{cognito.pool}/{second}"
    assert server.v1.send("GET", where).json()["record"]["email"] == "one@example.org"
    again = server.v1.post(f"{where}/redrive", b"")
    assert (again.status, again.json()) == (200, {"outcome": "dead_lettered", "error": "email-not-available"})
    # the cause goes: the first user makes another address the primary one, and gives this one up
    reply = server.v1.post("/v1/sync/users", {"provider": cognito.pool, "id": first, "email": "other@example.org", "emailVerified": True})
    assert reply.status == 200, reply.body
    by_email = {e["email"]: e["id"] for e in server.v1.send("GET", f"/v1/users/{first}/emails").json()["emails"]}
    assert server.v1.send("PUT", f"/v1/users/{first}/primary-email", json.dumps({"emailId": by_email["other@example.org"]}).encode(), {}).status == 200
    assert server.v1.send("DELETE", f"/v1/users/{first}/emails/{by_email['one@example.org']}").status == 200
    assert server.v1.post(f"{where}/redrive", b"").json() == {"outcome": "created"}
    assert user(server, second).json()["email"] == "one@example.org"
    assert letters(server)["count"] == 0
    assert b"one@example.org" not in server.logged()


def test_the_event_comes_back_as_it_was_sent(server):
    sent = event("7d0f8c1e-0000-4000-8000-000000000001")
    reply = server.v1.send("POST", INVOKE, json.dumps(sent).encode(), {"Content-Type": "binary/octet-stream"})
    assert (reply.status, reply.json()) == (200, sent)
    assert "x-amz-function-error" not in {name.lower() for name in reply.headers}
    assert user(server, sent["userName"]).json()["attributes"] == {"tier": "gold"}


def test_each_way_an_invocation_fails_is_answered_as_lambda_does(server):
    def invoke(body, path=INVOKE, **headers):
        return server.v1.send("POST", path, body, headers)

    good = json.dumps(event("7d0f8c1e-0000-4000-8000-000000000002")).encode()
    assert invoke(good, INVOKE.replace(FUNCTION, "other")).status == 404
    assert invoke(good, INVOKE.replace(FUNCTION, f"{FUNCTION}:PROD") + "?Qualifier=1").status == 200
    assert invoke(good, INVOKE.replace(FUNCTION, f"arn:aws:lambda:local:000000000000:function:{FUNCTION}")).status == 200
    refused = invoke(b"{")
    assert (refused.status, refused.headers["x-amzn-errortype"]) == (400, "InvalidRequestContentException")
    assert invoke(good, **{"X-Amz-Invocation-Type": "Event"}).status == 202
    fresh = json.dumps(event("7d0f8c1e-0000-4000-8000-000000000003")).encode()
    assert invoke(fresh, **{"X-Amz-Invocation-Type": "DryRun"}).status == 204
    assert user(server, "7d0f8c1e-0000-4000-8000-000000000003").status == 404
    for wrong in (b"null", b"{}", json.dumps(event("x@example.org")).encode(), json.dumps(event("a", triggerSource="PreSignUp_SignUp")).encode(),
                  json.dumps(event("a", request={})).encode(), json.dumps(event("a", userPoolId="no pool")).encode()):
        failed = invoke(wrong)
        assert (failed.status, failed.headers["x-amz-function-error"]) == (200, "Unhandled"), failed.body
        assert set(failed.json()) == {"errorMessage", "errorType"}
        assert b"example.org" not in failed.body
    assert letters(server)["count"] == 0


def test_a_deleted_user_is_refused_and_nothing_is_kept(server):
    sent = event("7d0f8c1e-0000-4000-8000-000000000004")
    assert server.v1.send("POST", INVOKE, json.dumps(sent).encode()).status == 200
    assert server.v1.send("DELETE", f"/v1/users/{sent['userName']}").status == 200
    failed = server.v1.send("POST", INVOKE, json.dumps(sent).encode())
    assert failed.headers["x-amz-function-error"] == "Unhandled" and failed.json()["errorType"] == "wrong-state"
    assert letters(server)["count"] == 0


# ---- the example Lambda ----


def example_lambda(event, **environment):
    return subprocess.run(["node", str(HERE / "js" / "lambda.mjs")], input=json.dumps(event), capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})


def test_the_example_lambda_forwards_the_event(server):
    sent = event("7d0f8c1e-0000-4000-8000-000000000007", email="ex@example.org")
    done = example_lambda(sent, GATEHOUSE_URL=server.endpoint, GATEHOUSE_PROVIDER="customers")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"returned": sent, "queued": []}
    seen = user(server, sent["userName"]).json()
    assert (seen["email"], seen["firstName"], seen["attributes"]) == ("ex@example.org", "Sue", {"tier": "gold"})
    taken = event("7d0f8c1e-0000-4000-8000-000000000008", email="ex@example.org")
    assert example_lambda(taken, GATEHOUSE_URL=server.endpoint).returncode == 0
    assert letters(server)["deadLetters"][0]["provider"] == "local_1"


def test_the_example_lambda_returns_the_event_also_if_it_fails_and_logs_nothing_about_the_person(server):
    for environment in ({"GATEHOUSE_URL": f"http://127.0.0.1:{free_port()}"}, {"GATEHOUSE_URL": server.endpoint, "GATEHOUSE_PROVIDER": "a b"},
                        {"GATEHOUSE_URL": f"http://127.0.0.1:{free_port()}", "GATEHOUSE_QUEUE_URL": "broken"}):
        sent = event("7d0f8c1e-0000-4000-8000-000000000009")
        failed = example_lambda(sent, **environment)
        assert failed.returncode == 0 and json.loads(failed.stdout)["returned"] == sent
        assert json.loads(failed.stdout)["queued"] == [] and "Gatehouse did not take the record" in failed.stderr
        assert "sue@example.org" not in failed.stderr and ("not queued" in failed.stderr) == ("GATEHOUSE_QUEUE_URL" in environment)


def test_what_the_example_lambda_could_not_send_is_queued_and_arrives_from_the_queue(server):
    sent = event("7d0f8c1e-0000-4000-8000-00000000000a", email="queued@example.org")
    away = f"http://127.0.0.1:{free_port()}"
    first = json.loads(example_lambda(sent, GATEHOUSE_URL=away, GATEHOUSE_QUEUE_URL="here", GATEHOUSE_PROVIDER="customers").stdout)
    assert first["returned"] == sent and len(first["queued"]) == 1
    batch = {"Records": [{"messageId": "m-1", "body": json.dumps(first["queued"][0])}, {"messageId": "m-2", "body": "{}"}]}
    again = json.loads(example_lambda(batch, GATEHOUSE_URL=away).stdout)["returned"]
    assert again == {"batchItemFailures": [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-2"}]}
    again = json.loads(example_lambda(batch, GATEHOUSE_URL=server.endpoint).stdout)["returned"]
    assert again == {"batchItemFailures": [{"itemIdentifier": "m-2"}]}
    assert user(server, sent["userName"]).json()["email"] == "queued@example.org"


def test_the_runbook_for_an_address_that_is_taken_works_as_printed(server):
    """Both ways of docs/operations.md#dead-letters, with the commands it names."""
    run = lambda *words, given="": subprocess.run([program(), *words, "--endpoint", server.endpoint], input=given, capture_output=True, text=True, timeout=60)  # noqa: E731
    for way in ("remove", "erase"):
        box, other, sub = f"{way}-runbook@example.org", f"other-{way}", f"7d0f8c1e-0000-4000-8000-0000000000{'b1' if way == 'erase' else 'b2'}"
        claim = server.v1.post("/v1/users", {"id": other, "email": box}).json()["claim"]
        assert run("user", "verify-email", other, claim["id"], given=claim["code"] + "\n").returncode == 0
        body = {"provider": "customers", "id": sub, "email": box, "emailVerified": True}
        assert server.v1.post("/v1/sync/events", body).json()["error"] == "email-not-available"
        assert box in run("sync", "show", "customers", sub).stdout and other in run("user", "find", "-", given=box + "\n").stdout
        assert run("sync", "redrive", "customers", sub).returncode == 1
        if way == "remove":
            second = server.v1.post(f"/v1/users/{other}/emails", {"email": "second-" + box}).json()
            assert run("user", "verify-email", other, second["id"], given=second["code"] + "\n").returncode == 0
            assert run("user", "set-primary", other, second["id"]).returncode == 0
            done = run("user", "remove-email", other, claim["id"])
        else:
            done = run("user", "erase", other, "--yes")
        assert done.returncode == 0, done.stderr
        assert run("sync", "redrive", "customers", sub).returncode == 0
        assert user(server, sub).json()["email"] == box


# ---- who may ----


def test_a_trigger_is_signed_for_lambda_and_needs_its_own_action(tmp_path):
    """With authentication: botocore signs as Cognito does."""
    data = tempfile.mkdtemp(prefix="gatehouse-sync-")
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE)
    try:
        endpoint = line_with_endpoint(process)
        policy = tmp_path / "policy.json"

        def key(name, *actions):
            policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": list(actions), "Resource": "*"}]}))
            said = subprocess.run([program(), "key", "create", name, "--policy", str(policy), "--data", data], capture_output=True, text=True, check=True).stdout
            return re.findall(r"=(\S+)", said)[:2]

        def client(id, secret):
            return boto3.client("lambda", endpoint_url=endpoint, region_name="local", aws_access_key_id=id, aws_secret_access_key=secret,
                                config=Config(retries={"total_max_attempts": 1}))

        sent = json.dumps(event("7d0f8c1e-0000-4000-8000-00000000000a"))
        good, other = key("cognito", "gatehouse:SyncTrigger"), key("other", "gatehouse:SyncUser")
        answer = client(*good).invoke(FunctionName=FUNCTION, Payload=sent)
        assert (answer["StatusCode"], json.loads(answer["Payload"].read())) == (200, json.loads(sent))
        assert "FunctionError" not in answer
        failed = client(*good).invoke(FunctionName=FUNCTION, Payload="{}")
        assert failed["FunctionError"] == "Unhandled"
        for who, code, name in ((other, "AccessDeniedException", FUNCTION), ((good[0], "wrong"), "InvalidSignatureException", FUNCTION),
                                (good, "ResourceNotFoundException", "another")):
            with pytest.raises(ClientError) as refused:
                client(*who).invoke(FunctionName=name, Payload=sent)
            assert refused.value.response["Error"]["Code"] == code
    finally:
        stop(process)
        shutil.rmtree(data, ignore_errors=True)


# ---- failures in passing ----


def test_a_table_that_stays_throttled_makes_a_dead_letter_after_three_tries(server):
    throttled = Server("--fault", "sync:0")
    try:
        sent = event("7d0f8c1e-0000-4000-8000-000000000005")
        reply = throttled.v1.send("POST", INVOKE, json.dumps(sent).encode())
        assert (reply.status, reply.json()) == (200, sent)  # it is kept: Cognito need not try again
        assert letters(throttled)["groups"][0]["error"] == "tables-busy"
        throttled.kill()
        throttled.words = ()
        throttled.start()
        where = f"/v1/sync/dead-letters/local_1/{sent['userName']}"
        assert throttled.v1.post(f"{where}/redrive", b"").json() == {"outcome": "created"}
        assert user(throttled, sent["userName"]).json()["email"] == "sue@example.org"
        assert throttled.v1.send("GET", where).status == 404
    finally:
        throttled.close()


@pytest.mark.skipif("GATEHOUSE_ROUGH" in os.environ, reason="the rough store refuses calls of its own")
@pytest.mark.parametrize("failures, outcome", [(1, "created"), (2, "created"), (3, "dead_lettered")])
def test_a_record_is_tried_three_times_with_pauses_that_double(failures, outcome):
    throttled = Server("--fault", f"sync:0:{failures}")
    try:
        began = time.monotonic()
        answer = throttled.v1.post("/v1/sync/events", {"provider": "hr", "id": "worker-1"}).json()
        assert answer["outcome"] == outcome
        assert time.monotonic() - began >= (0.1, 0.3, 0.3)[failures - 1]  # 100 ms, then 200 ms
        assert letters(throttled)["count"] == (outcome == "dead_lettered")
        assert user(throttled, "worker-1").status == (200 if outcome == "created" else 404)
    finally:
        throttled.close()


def test_other_senders_that_do_not_come_back_use_events(server):
    body = {"provider": "hr", "id": "worker-1", "email": "w@example.org", "emailVerified": True}
    assert server.v1.post("/v1/sync/events", body).json() == {"outcome": "created"}
    assert server.v1.post("/v1/sync/events", {**body, "id": "worker-2"}).json() == {"outcome": "dead_lettered", "error": "email-not-available"}
    assert server.v1.post("/v1/sync/users", {**body, "id": "worker-2"}).status == 409
    assert server.v1.send("DELETE", "/v1/sync/dead-letters/hr/worker-2").json() == {"deleted": True}
    assert letters(server)["count"] == 0


def test_with_the_store_down_the_trigger_answers_an_error():
    full = Server("--fault", "disk-full:0")
    try:
        failed = full.v1.send("POST", INVOKE, json.dumps(event("7d0f8c1e-0000-4000-8000-000000000006")).encode())
        assert (failed.status, failed.headers["x-amz-function-error"]) == (200, "Unhandled"), failed.body
        assert failed.json()["errorType"] == "disk-full"
    finally:
        full.close()


# ---- jobs ----


def started(server, path, body, status=202):
    reply = server.v1.post(path, body, traceparent=TRACEPARENT)
    assert reply.status == status, reply.body
    return reply.json()["id"]


def ended(server, job):
    def look():
        seen = server.v1.send("GET", f"/v1/jobs/{job}").json()
        return seen if seen["state"] != "running" else None

    return until(look)


def reconciled(server, **body):
    seen = ended(server, started(server, "/v1/sync/reconcile", body))
    assert seen["state"] == "done", seen
    return seen["progress"]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


@pytest.fixture
def receiver():
    one = Receiver()
    yield one
    one.close()


@pytest.fixture
def synced(receiver, tmp_path):
    """A server that knows the receiver as its pool."""
    one = Server("--identity", identity_file(tmp_path / "identity.yaml", receiver.endpoint, rate=10000))
    yield one
    one.close()


def test_many_letters_are_redriven_by_group_after_a_dry_run(server):
    body = {"provider": "hr", "email": "w@example.org", "emailVerified": True}
    for i in range(4):
        server.v1.post("/v1/sync/events", {**body, "id": f"worker-{i}"})
    assert letters(server)["count"] == 3
    dry = ended(server, started(server, "/v1/sync/dead-letters/redrive", {"dryRun": True}))
    assert dry["progress"] == {"letters": 3} and letters(server)["count"] == 3
    other = ended(server, started(server, "/v1/sync/dead-letters/redrive", {"error": "overloaded"}))
    assert other["progress"] == {}
    again = ended(server, started(server, "/v1/sync/dead-letters/redrive", {"error": "email-not-available"}))
    assert again["progress"] == {"letters": 3, "dead_lettered": 3}
    server.v1.post("/v1/sync/users", {"provider": "hr", "id": "worker-0", "email": "x@example.org", "emailVerified": True})
    emails = {e["email"]: e["id"] for e in server.v1.send("GET", "/v1/users/worker-0/emails").json()["emails"]}
    server.v1.send("PUT", "/v1/users/worker-0/primary-email", json.dumps({"emailId": emails["x@example.org"]}).encode(), {})
    assert server.v1.send("DELETE", f"/v1/users/worker-0/emails/{emails['w@example.org']}").status == 200
    assert ended(server, started(server, "/v1/sync/dead-letters/redrive", {}))["progress"] == {"letters": 3, "created": 1, "dead_lettered": 2}
    assert letters(server)["count"] == 2


def test_reconciliation_repairs_what_the_trigger_could_not_do_while_the_store_was_down(tmp_path):
    server = Server("--fault", "disk-full:0")
    cognito = Cognito(server.endpoint)
    try:
        sub = cognito.sign_up("sue", "sue@example.org", given_name="Sue")
        assert user(server, sub).status == 404
        server.kill()
        server.words = ("--identity", identity_file(tmp_path / "identity.yaml", cognito.endpoint, cognito.pool))
        server.start()
        assert reconciled(server, dryRun=True) == {"poolUsers": 1, "poolOrphans": 1, "unreadable": 0, "users": 0}
        assert user(server, sub).status == 404
        progress = reconciled(server)
        assert (progress["poolOrphans"], progress["created"], progress["users"]) == (1, 1, 1)
        assert user(server, sub).json()["email"] == "sue@example.org"
        assert reconciled(server)["unchanged"] == 1
    finally:
        cognito.close()
        server.close()


def test_planted_orphans_of_both_kinds_are_found_over_many_pages(synced, receiver):
    receiver.add(150)
    for i in range(3):
        assert synced.v1.post("/v1/sync/users", {"provider": "customers", "id": f"gone-{i}", "username": f"name-gone-{i}"}).status == 201
    assert synced.v1.post("/v1/users", {"id": "own-user"}).status == 201  # of no provider: nobody looks for it there
    found = reconciled(synced, dryRun=True)
    assert (found["poolUsers"], found["poolOrphans"], found["missing"]) == (150, 150, 3)
    assert synced.v1.send("GET", "/v1/sync/missing").json() == {"missing": [], "more": False}
    found = reconciled(synced)
    assert (found["created"], found["missing"]) == (150, 3) and "suspended" not in found
    listed = synced.v1.send("GET", "/v1/sync/missing").json()["missing"]
    assert [(m["id"], m["provider"], m["suspended"]) for m in listed] == [(f"gone-{i}", "customers", False) for i in range(3)]
    assert user(synced, "gone-0").json()["status"] == "active"
    receiver.users["name-gone-1"] = {"sub": "gone-1", "email": "g1@example.org", "email_verified": "true"}
    found = reconciled(synced, missing="suspend", provider="customers")
    assert (found["unchanged"], found["updated"], found["missing"], found["suspended"]) == (150, 1, 2, 2)
    assert [user(synced, f"gone-{i}").json()["status"] for i in range(3)] == ["suspended", "active", "suspended"]
    assert [m["id"] for m in synced.v1.send("GET", "/v1/sync/missing").json()["missing"]] == ["gone-0", "gone-2"]
    traces = {headers["traceparent"].split("-")[1] for operation, _, headers in receiver.calls if operation == "ListUsers"}
    assert traces == {TRACE}
    assert synced.v1.post("/v1/sync/reconcile", {"provider": "nobody"}).status == 404


def test_a_kill_during_reconciliation_resumes_where_it_was(synced, receiver):
    receiver.add(200)
    job = started(synced, "/v1/sync/reconcile", {"rate": 100})

    def done():
        return synced.v1.send("GET", f"/v1/jobs/{job}").json()["progress"].get("poolUsers", 0)

    for least in (20, 80):
        until(lambda: done() >= least)
        synced.kill()
        synced.start()
    seen = ended(synced, job)
    assert (seen["state"], seen["progress"]["poolUsers"], seen["progress"]["created"]) == ("done", 200, 200)
    assert user(synced, "user-00199").json()["version"] == 1
    assert reconciled(synced)["unchanged"] == 200


def test_a_pool_is_reconciled_by_itself(receiver, tmp_path):
    receiver.add(2)
    server = Server("--identity", identity_file(tmp_path / "identity.yaml", receiver.endpoint, reconcile=3600))
    try:
        until(lambda: user(server, "user-00001").status == 200)
        kinds = [(job["kind"], job["caller"]) for job in server.v1.send("GET", "/v1/jobs").json()["jobs"]]
        assert kinds == [("reconcile", "gatehouse")]
    finally:
        server.close()


def test_a_provider_that_is_down_is_tried_again_and_one_that_refuses_ends_the_job(synced, receiver):
    receiver.add(3)
    receiver.failing = 4
    assert reconciled(synced)["created"] == 3
    receiver.answer = lambda *_: (400, {"__type": "NotAuthorizedException", "message": "secret text"})
    failed = ended(synced, started(synced, "/v1/sync/reconcile", {}))
    assert failed["state"] == "failed" and "NotAuthorizedException" in failed["error"] and "secret" not in failed["error"]


# ---- what a pool says of an account ----

STANDING = [  # UserStatus, Enabled, and the status here; None: no user
    ("CONFIRMED", True, "active"), ("EXTERNAL_PROVIDER", True, "active"), ("RESET_REQUIRED", True, "active"), ("FORCE_CHANGE_PASSWORD", True, "active"),
    ("UNCONFIRMED", True, None), ("UNCONFIRMED", False, None), ("UNKNOWN", True, None), ("NEW_STATUS", True, None),
    ("ARCHIVED", True, "suspended"), ("COMPROMISED", True, "suspended"), ("CONFIRMED", False, "suspended"), ("UNKNOWN", False, "suspended"),
    ("FORCE_CHANGE_PASSWORD", False, "suspended"),
]


def status(server, id):
    seen = user(server, id)
    return seen.json()["status"] if seen.status == 200 else None


def test_each_status_of_a_pool_is_what_the_table_says(synced, receiver):
    receiver.add(len(STANDING))
    for i, (name, enabled, _) in enumerate(STANDING):
        receiver.standing[f"name-user-{i:05d}"] = (name, enabled)
    found = reconciled(synced)
    seen = [status(synced, f"user-{i:05d}") for i in range(len(STANDING))]
    assert seen == [expected for _, _, expected in STANDING]
    assert (found["left_out"], found["created"]) == (seen.count(None), len(seen) - seen.count(None))
    table = (HERE.parent.parent / "docs" / "sync.md").read_text()
    assert all(f"`{name}`" in table for name, _, _ in STANDING if name != "NEW_STATUS")


def test_an_answer_that_is_not_what_cognito_answers_makes_nobody_active(synced, receiver):
    receiver.add(3)
    as_it_is = receiver.record
    wrong = {0: {"Enabled": "false"}, 1: {"Enabled": None}, 2: {"UserStatus": 5}}
    receiver.record = lambda name, attributes: {**as_it_is(name, attributes), **wrong[int(name[-1])]}
    assert reconciled(synced)["left_out"] == 3
    assert {status(synced, f"user-{i:05d}") for i in range(3)} == {None}
    receiver.list_users = lambda body: {"Users": [None, 5, "x", [], {}, {"Attributes": {"Name": "sub"}}, {"Attributes": [None, 5, {"Name": 5, "Value": []}]}]}
    assert reconciled(synced)["unreadable"] == 7
    receiver.list_users = lambda body: {"Users": {}}
    started(synced, "/v1/sync/reconcile", {})
    assert synced.v1.send("GET", "/livez").status == 200


def test_cognito_local_every_status_that_it_can_produce(tmp_path):
    """With the emulator itself: unconfirmed, confirmed, invited, disabled, enabled again, an address that changes, a user who is deleted."""
    server, cognito = Server(), None
    try:
        cognito = Cognito("http://127.0.0.1:9")  # no trigger arrives
        api, pool = cognito.api, cognito.pool
        server.close()
        server = Server("--identity", identity_file(tmp_path / "identity.yaml", cognito.endpoint, pool=pool, rate=10000))
        subs = {"confirmed": cognito.sign_up("confirmed", "confirmed@example.org", given_name="Con", family_name="Firmed")}
        subs["unconfirmed"] = api.sign_up(ClientId=cognito.client, Username="unconfirmed", Password="Correct-horse-1",
                                          UserAttributes=[{"Name": "email", "Value": "un@example.org"}, {"Name": "email_verified", "Value": "true"}])["UserSub"]
        made = api.admin_create_user(UserPoolId=pool, Username="invited", TemporaryPassword="Correct-horse-2", MessageAction="SUPPRESS",
                                     UserAttributes=[{"Name": "email", "Value": "inv@example.org"}, {"Name": "email_verified", "Value": "true"}])["User"]
        subs["invited"] = {a["Name"]: a["Value"] for a in made["Attributes"]}["sub"]
        said = {u["Username"]: u["UserStatus"] for u in api.list_users(UserPoolId=pool)["Users"]}
        assert said == {"confirmed": "CONFIRMED", "unconfirmed": "UNCONFIRMED", "invited": "FORCE_CHANGE_PASSWORD"}
        assert reconciled(server)["left_out"] == 1
        assert {name: status(server, sub) for name, sub in subs.items()} == {"confirmed": "active", "unconfirmed": None, "invited": "active"}
        api.admin_confirm_sign_up(UserPoolId=pool, Username="unconfirmed")
        api.admin_disable_user(UserPoolId=pool, Username="confirmed")
        reconciled(server)
        assert {name: status(server, sub) for name, sub in subs.items()} == {"confirmed": "suspended", "unconfirmed": "active", "invited": "active"}
        assert user(server, subs["confirmed"]).json()["suspendedBy"] == "provider_disabled"
        api.admin_enable_user(UserPoolId=pool, Username="confirmed")
        api.admin_update_user_attributes(UserPoolId=pool, Username="confirmed", UserAttributes=[
            {"Name": "email", "Value": "changed@example.org"}, {"Name": "email_verified", "Value": "true"}])
        api.admin_delete_user_attributes(UserPoolId=pool, Username="confirmed", UserAttributeNames=["family_name"])
        reconciled(server)
        seen = user(server, subs["confirmed"]).json()
        assert (seen["status"], seen["email"], seen["firstName"]) == ("active", "changed@example.org", "Con") and "lastName" not in seen
        assert [e["email"] for e in server.v1.send("GET", f"/v1/users/{subs['confirmed']}/emails").json()["emails"]] == ["changed@example.org"]
        api.admin_delete_user(UserPoolId=pool, Username="invited")
        assert reconciled(server, missing="suspend")["suspended"] == 1
        assert status(server, subs["invited"]) == "suspended"
    finally:
        if cognito:
            cognito.close()
        server.close()


def test_a_disabled_account_is_suspended_and_comes_back_unless_a_person_suspended_it(synced, receiver):
    receiver.add(3)
    reconciled(synced)
    for i in (0, 1):
        receiver.standing[f"name-user-0000{i}"] = ("CONFIRMED", False)
    assert synced.v1.send("POST", "/v1/users/user-00002/suspend", b"").status == 200
    reconciled(synced)
    assert [status(synced, f"user-0000{i}") for i in range(3)] == ["suspended"] * 3
    assert user(synced, "user-00000").json()["suspendedBy"] == "provider_disabled" and "suspendedBy" not in user(synced, "user-00002").json()
    until(lambda: "name-user-00000" in receiver.signed_out)
    assert synced.v1.send("POST", "/v1/users/user-00001/suspend", b"").status == 200  # a person takes it over
    receiver.standing.clear()
    reconciled(synced)
    assert [status(synced, f"user-0000{i}") for i in range(3)] == ["active", "suspended", "suspended"]


# ---- changes at the provider ----


def test_a_change_at_the_provider_arrives_as_a_whole(synced, receiver):
    receiver.add(1)
    receiver.change("name-user-00000", family_name="Old", phone_number="+442071838750", **{"custom:tier": "gold", "custom:gone": "x"})
    reconciled(synced)
    assert synced.v1.send("PATCH", "/v1/users/user-00000", json.dumps({"version": 1, "attributes": {"mine": "stays"}}).encode(), {}).status == 200
    receiver.change("name-user-00000", email="new@example.org", family_name=None, phone_number=None, **{"custom:gone": None, "custom:tier": "silver"})
    found = reconciled(synced)
    assert (found["updated"], found.get("unchanged", 0)) == (1, 0)
    seen = user(synced, "user-00000").json()
    assert (seen["email"], seen["firstName"], seen["attributes"]) == ("new@example.org", "N0", {"tier": "silver", "mine": "stays"})
    assert "lastName" not in seen and "phone" not in seen
    emails = synced.v1.send("GET", "/v1/users/user-00000/emails").json()["emails"]
    assert [(e["email"], e["isPrimary"]) for e in emails] == [("new@example.org", True)]
    assert reconciled(synced)["unchanged"] == 1


def test_a_pool_may_keep_what_its_records_no_longer_have(receiver, tmp_path):
    server = Server("--identity", identity_file(tmp_path / "identity.yaml", receiver.endpoint, rate=10000, absent="keep"))
    try:
        receiver.add(1)
        reconciled(server)
        receiver.change("name-user-00000", email="new@example.org", given_name=None)
        reconciled(server)
        seen = user(server, "user-00000").json()
        assert (seen["email"], seen["firstName"]) == ("new@example.org", "N0")
        assert len(server.v1.send("GET", "/v1/users/user-00000/emails").json()["emails"]) == 2
    finally:
        server.close()


def test_a_record_that_is_sent_says_whether_it_is_complete(server):
    def sent(**more):
        reply = server.v1.post("/v1/sync/users", {"provider": "hr", "id": "worker-1", **more})
        assert reply.status in (200, 201), reply.body
        return reply.json()

    sent(email="a@example.org", emailVerified=True, firstName="Ann", lastName="Lee")
    assert sent(firstName="Anna")["user"]["lastName"] == "Lee"
    partial = sent(email="b@example.org", emailVerified=True)["user"]
    assert (partial["email"], partial["lastName"]) == ("a@example.org", "Lee")
    whole = sent(email="b@example.org", emailVerified=True, firstName="Anna", complete=True)["user"]
    assert whole["email"] == "b@example.org" and "lastName" not in whole


def test_attributes_that_go_also_go_if_the_record_was_a_dead_letter_first(server):
    record = {"provider": "idp", "id": "kim", "updatedAt": "2026-11-01T00:00:00Z", "attributes": {"tier": "gold"}}
    assert server.v1.post("/v1/sync/users", record).status in (200, 201)
    owner = server.v1.post("/v1/sync/users", {"provider": "idp", "id": "owner", "email": "taken@example.org", "emailVerified": True})
    assert owner.status == 201, owner.body
    later = {**record, "updatedAt": "2026-11-02T00:00:00Z", "attributes": None, "email": "taken@example.org", "emailVerified": True}
    assert server.v1.post("/v1/sync/events", later).json()["outcome"] == "dead_lettered"
    assert user(server, "kim").json()["attributes"] == {"tier": "gold"}
    assert server.v1.send("GET", "/v1/sync/dead-letters/idp/kim").json()["record"]["attributes"] is None
    moved = {"provider": "idp", "id": "owner", "email": "other@example.org", "emailVerified": True, "complete": True}
    assert server.v1.post("/v1/sync/users", moved).status == 200
    redriven = server.v1.send("POST", "/v1/sync/dead-letters/idp/kim/redrive", b"")
    assert redriven.json() == {"outcome": "updated"}, redriven.body
    assert user(server, "kim").json().get("attributes", {}) == {}


def test_a_time_in_2099_freezes_nobody(server):
    def outcome(when, name):
        return server.v1.post("/v1/sync/users", {"provider": "hr", "id": "worker-1", "firstName": name, "updatedAt": when}).json()["outcome"]

    assert outcome("2099-01-01T00:00:00Z", "a") == "created"
    assert outcome(int(time.time()) + 1, "b") == "updated"


def test_fifty_attributes_of_a_pool_are_taken(synced, receiver):
    receiver.add(1)
    receiver.change("name-user-00000", **{f"custom:a{i:02d}": "x" * 500 for i in range(50)})
    assert reconciled(synced)["created"] == 1
    assert len(user(synced, "user-00000").json()["attributes"]) == 50


def test_an_erased_user_does_not_come_back_with_the_next_run(synced, receiver):
    receiver.add(2)
    reconciled(synced)
    job = synced.v1.send("POST", "/v1/users/user-00000/erase", b"").json()["id"]
    assert ended(synced, job)["state"] == "done"
    found = reconciled(synced)
    assert (found["erased"], found["unchanged"], found["poolOrphans"]) == (1, 1, 1)
    assert user(synced, "user-00000").status == 404 and letters(synced)["count"] == 0
    refused = synced.v1.post("/v1/sync/users", {"provider": "customers", "id": "user-00000"})
    assert (refused.status, refused.json()["type"]) == (409, "urn:gatehouse:problem:wrong-state")
    assert synced.v1.post("/v1/users", {"id": "user-00000"}).status == 201  # a person says otherwise
    assert reconciled(synced)["updated"] == 1


# ---- a pool that answers wrongly ----


def test_a_pool_that_answers_nobody_or_half_suspends_nobody_and_says_why(synced, receiver):
    receiver.add(44)
    reconciled(synced)
    for nasty, missing in (("nobody", 44), ("half", 22)):
        receiver.nasty = nasty
        failed = ended(synced, started(synced, "/v1/sync/reconcile", {"missing": "suspend"}))
        assert failed["state"] == "failed" and f"{missing} of 44" in failed["error"] and "5 percent" in failed["error"], failed
        assert {status(synced, f"user-{i:05d}") for i in range(44)} == {"active"}
        assert len(synced.v1.send("GET", "/v1/sync/missing").json()["missing"]) == missing  # listed all the same
    receiver.nasty = "list half"  # each can be asked for by its name: none is missing
    found = reconciled(synced, missing="suspend")
    assert (found["poolUsers"], "missing" in found, "suspended" in found) == (22, False, False)


def test_one_call_brings_back_all_whom_a_run_suspended(synced, receiver):
    receiver.add(44)
    reconciled(synced)
    assert synced.v1.send("POST", "/v1/users/user-00000/suspend", b"").status == 200
    receiver.nasty = "nobody"
    assert reconciled(synced, missing="suspend", missingPercentMax=100)["suspended"] == 43
    assert user(synced, "user-00001").json()["suspendedBy"] == "provider_missing"
    dry = ended(synced, started(synced, "/v1/sync/missing/restore", {"dryRun": True}))
    assert dry["progress"] == {"restored": 43} and status(synced, "user-00001") == "suspended"
    done = subprocess.run([program(), "sync", "restore", "customers", "--endpoint", synced.endpoint], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [status(synced, f"user-{i:05d}") for i in range(44)] == ["suspended"] + ["active"] * 43
    assert ended(synced, started(synced, "/v1/sync/missing/restore", {}))["progress"] == {}


def test_duplicates_and_a_page_that_comes_twice_change_nothing_twice(synced, receiver):
    receiver.add(150)
    for nasty in ("duplicates", "page twice"):
        receiver.nasty = nasty
        found = reconciled(synced, missing="suspend")
        assert found["poolUsers"] == 300 and "missing" not in found and "dead_lettered" not in found, found
        assert {user(synced, f"user-{i:05d}").json()["version"] for i in range(0, 150, 10)} == {1}
    receiver.nasty = "circle"
    failed = ended(synced, started(synced, "/v1/sync/reconcile", {}))
    assert failed["state"] == "failed" and "lead back" in failed["error"]


# ---- suspending signs out ----


def metric(server, name):
    text = server.v1.send("GET", "/metrics").body.decode()
    return float(next(line.split()[1] for line in text.splitlines() if line.startswith(name + " ")))


def test_suspending_signs_out_at_the_provider_however_often_that_fails(synced, receiver):
    receiver.add(1)
    reconciled(synced)
    receiver.failing = 5
    assert synced.v1.send("POST", "/v1/users/user-00000/suspend", b"", {"traceparent": TRACEPARENT}).status == 200
    until(lambda: receiver.signed_out == ["name-user-00000"])
    assert receiver.count("AdminUserGlobalSignOut") == 6
    assert {h["traceparent"].split("-")[1] for o, _, h in receiver.calls if o == "AdminUserGlobalSignOut"} == {TRACE}
    until(lambda: metric(synced, "gatehouse_sign_outs_pending") == 0 and metric(synced, "gatehouse_sign_outs_total") == 1)
    assert metric(synced, "gatehouse_sign_out_failures_total") >= 1
    assert b"name-user-00000" not in synced.logged()


def test_many_are_signed_out_at_once_and_not_faster_than_the_rate_of_the_pool(receiver, tmp_path):
    """Each takes 200 ms there: one after the other, 40 would take 8 s."""
    server = Server("--identity", identity_file(tmp_path / "identity.yaml", receiver.endpoint, rate=20))
    try:
        receiver.add(40)
        assert ended(server, started(server, "/v1/sync/reconcile", {"rate": 10000}))["state"] == "done"
        receiver.sign_out_s = 0.2
        began = time.monotonic()
        for i in range(40):
            assert server.v1.send("POST", f"/v1/users/user-{i:05d}/suspend", b"").status == 200
        until(lambda: len(receiver.signed_out) == 40)
        took = time.monotonic() - began
        assert sorted(receiver.signed_out) == [f"name-user-{i:05d}" for i in range(40)]
        assert 39 / 20 <= took < 6, took
    finally:
        server.close()


def test_a_sign_out_survives_a_kill_while_the_provider_is_down(synced, receiver):
    receiver.add(1)
    reconciled(synced)
    receiver.failing = -1
    reply = synced.v1.send("POST", "/v1/users/user-00000/suspend", b"")
    assert (reply.status, reply.json()["status"]) == (200, "suspended")
    until(lambda: receiver.count("AdminUserGlobalSignOut") > 0)
    synced.kill()
    receiver.failing = 0
    synced.start()
    until(lambda: receiver.signed_out == ["name-user-00000"])


def test_erasing_signs_out_at_the_provider_even_if_that_takes_longer_than_erasing(synced, receiver):
    receiver.add(1)
    reconciled(synced)
    receiver.failing = -1
    job = synced.v1.send("POST", "/v1/users/user-00000/erase", b"").json()["id"]
    until(lambda: synced.v1.send("GET", f"/v1/jobs/{job}").json()["state"] == "done")
    until(lambda: receiver.count("AdminUserGlobalSignOut") > 0 and metric(synced, "gatehouse_sign_outs_pending") == 1)
    synced.kill()
    receiver.failing = 0
    synced.start()
    until(lambda: receiver.signed_out == ["name-user-00000"])
    until(lambda: metric(synced, "gatehouse_sign_outs_pending") == 0)
    scan = {"TableName": "gatehouse-sync", "ConsistentRead": True}
    rows = synced.v1.send("POST", "/", json.dumps(scan).encode(), {"X-Amz-Target": "DynamoDB_20120810.Scan", "Content-Type": "application/x-amz-json-1.0"})
    assert rows.status == 200 and b"user-00000" not in rows.body


def test_a_job_that_is_cancelled_twice_is_counted_once(synced, receiver):
    receiver.add(500)
    job = synced.v1.post("/v1/sync/reconcile", {"provider": "customers", "rate": 1}).json()["id"]
    for _ in range(3):
        assert synced.v1.post(f"/v1/jobs/{job}/cancel", b"").json()["state"] == "cancelled"
    assert metric(synced, 'gatehouse_jobs_ended_total{kind="reconcile",state="cancelled"}') == 1


def test_a_stop_does_not_wait_for_a_provider_that_does_not_answer(tmp_path):
    """A call waits for 8 s. On a busy machine a stop may take long for other reasons, so one of a few has to be quick."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        server = Server("--identity", identity_file(tmp_path / "identity.yaml", endpoint))
        server.v1.post("/v1/sync/users", {"provider": "customers", "id": "sue"})
        assert server.v1.send("POST", "/v1/users/sue/suspend", b"").status == 200
        job = started(server, "/v1/sync/reconcile", {})
        took = []
        while not took or (took[-1] >= 4 and len(took) < 4):
            called = [silent.accept()[0] for _ in range(2)]
            assert all(one.recv(1) for one in called)
            began = time.monotonic()
            server.process.terminate()
            assert server.process.wait(60) == 0
            took.append(time.monotonic() - began)
            for one in called:
                one.close()
            server.start()  # what was under way is still there
        assert min(took) < 4, took
        assert server.v1.send("GET", f"/v1/jobs/{job}").json()["state"] == "running"
        until(lambda: metric(server, "gatehouse_sign_outs_pending") == 1)
        server.close()


def test_while_the_provider_is_down_tokens_still_verify_and_a_suspension_holds_at_once(receiver, tmp_path):
    issuer = Issuer()
    file = issuer.identity(tmp_path)
    pools = yaml.safe_load(open(identity_file(tmp_path / "pools.yaml", receiver.endpoint)))
    file.write_text(json.dumps({**json.loads(file.read_text()), **pools}))
    server = Server("--identity", str(file))
    try:
        receiver.add(2)
        reconciled(server)

        def verdict(id):
            return server.v1.post("/v1/tokens/verify", {"token": issuer.token(id)}).json()["verdict"]

        until(lambda: verdict("user-00000") == "allow")  # the keys are there
        receiver.failing = -1
        assert server.v1.send("POST", "/v1/users/user-00000/suspend", b"").status == 200
        assert verdict("user-00000") != "allow"
        until(lambda: receiver.count("AdminUserGlobalSignOut") > 0)
        assert verdict("user-00001") == "allow"
        receiver.failing = 0
        until(lambda: receiver.signed_out == ["name-user-00000"])
    finally:
        server.close()
        issuer.close()


def test_dead_letters_are_counted_for_the_alarm(server):
    assert metric(server, "gatehouse_sync_dead_letters") == 0
    for i in range(2):
        server.v1.post("/v1/sync/events", {"provider": "hr", "id": f"worker-{i}", "email": "w@example.org", "emailVerified": True})
    until(lambda: metric(server, "gatehouse_sync_dead_letters") == 1)
    assert b'gatehouse_sync_records_total{outcome="dead_lettered"} 1' in server.v1.send("GET", "/metrics").body


# ---- bad input ----

GOOD = {"provider": "hr", "id": "worker-1", "email": "w@example.org", "emailVerified": True}
WRONG = [
    ("provider", None), ("provider", ""), ("provider", "a" * 65), ("provider", "a#b"), ("provider", 1), ("id", None), ("id", ""), ("id", "a" * 129),
    ("id", "a#b"), ("id", "w@example.org"), ("id", "+442071838750"), ("username", ""), ("username", "a" * 129), ("username", 1), ("email", ""),
    ("email", "nobody"), ("email", 1), ("email", "a" * 310 + "@example.org"), ("emailVerified", "true"), ("firstName", "a" * 257), ("firstName", "a\nb"),
    ("lastName", 1), ("phone", "0044207"), ("phone", "+4420718387501234"), ("attributes", []), ("attributes.a b", None), ("attributes.a", None),
    ("updatedAt", "yesterday"), ("updatedAt", -1), ("updatedAt", "2026-13-01T00:00:00Z"), ("sequence", -1), ("sequence", 1.5), ("sequence", "1"), ("complete", "yes"), ("colour", "red"),
]


@pytest.mark.parametrize("path", ["/v1/sync/users", "/v1/sync/events"])
def test_each_field_that_is_wrong_is_named_and_nothing_is_written(server, path):
    assert server.v1.post("/v1/sync/events", {**GOOD, "id": "worker-0", "email": "w0@example.org"}).json()["outcome"] == "created"  # so that the tables are there
    before = rows(server)
    for field, value in WRONG:
        body = {name: member for name, member in GOOD.items() if name != field}
        if field.startswith("attributes."):
            body["attributes"] = {field.split(".", 1)[1]: [] if value is None else value}
        elif value is not None:
            body[field] = value
        reply = server.v1.post(path, body)
        assert reply.status in (400, 422), (field, value, reply.body)
        assert reply.json()["field"].startswith(field.split(".")[0]), (field, reply.body)
        assert b"w@example.org" not in reply.body
    assert user(server, "worker-1").status == 404
    assert letters(server)["count"] == 0
    for path, name in (("/v1/sync/dead-letters?limit=0", "limit"), ("/v1/sync/dead-letters?limit=501", "limit"), ("/v1/sync/dead-letters?cursor=x", "cursor"),
                       ("/v1/sync/dead-letters?wrong=1", "wrong"), ("/v1/sync/dead-letters?error=" + "a" * 65, "error"),
                       ("/v1/sync/missing?limit=501", "limit"), ("/v1/sync/dead-letters/a%23b/worker-1", "provider"), ("/v1/sync/dead-letters/hr/a%23b", "id")):
        reply = server.v1.send("GET", path)
        assert (reply.status, reply.json()["field"]) == (422, name), path
    for body, name in (({"provider": "a b"}, "provider"), ({"missing": "delete"}, "missing"), ({"rate": 0}, "rate"), ({"dryRun": 1}, "dryRun"),
                       ({"missingPercentMax": 0}, "missingPercentMax"), ({"missingPercentMax": 101}, "missingPercentMax")):
        reply = server.v1.post("/v1/sync/reconcile", body)
        assert reply.status in (400, 422) and reply.json()["field"] == name, body
    for body, name in (({"error": 1}, "error"), ({"error": "a" * 65}, "error"), ({"rate": 0}, "rate"), ({"dryRun": "yes"}, "dryRun"), ({"provider": "hr"}, "provider")):
        reply = server.v1.post("/v1/sync/dead-letters/redrive", body)
        assert reply.status in (400, 422) and reply.json()["field"] == name, body
    assert rows(server) == before


def test_times_are_compared_to_the_millisecond(server):
    def outcome(when, name):
        return server.v1.post("/v1/sync/users", {"provider": "hr", "id": "worker-1", "firstName": name, "updatedAt": when}).json()["outcome"]

    assert outcome("2026-11-17T02:00:00.250Z", "a") == "created"
    assert outcome("2026-11-17T02:00:00.249Z", "b") == "stale"
    assert outcome("2026-11-17T02:00:00Z", "b") == "stale"
    assert outcome("2026-11-17T02:00:00.25Z", "b") == "updated"
    assert outcome("2026-11-17T03:00:00.251999+01:00", "c") == "updated"
    assert outcome(1794880801, "d") == "updated"


def test_letters_of_users_that_a_key_may_not_see_are_left_out(tmp_path):
    data = tempfile.mkdtemp(prefix="gatehouse-sync-")
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE)
    try:
        v1 = V1(line_with_endpoint(process))
        policy = tmp_path / "policy.json"
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"},
            {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:local:000000000000:user/hidden-*"}]}))
        said = subprocess.run([program(), "key", "create", "some", "--policy", str(policy), "--data", data], capture_output=True, text=True, check=True).stdout
        some = {"Authorization": "Bearer " + ".".join(re.findall(r"=(\S+)", said)[:2])}
        said = subprocess.run([program(), "key", "show", "administrator", "--data", data], capture_output=True, text=True, check=True).stdout
        all_keys = {"Authorization": "Bearer " + ".".join(re.findall(r"=(\S+)", said)[:2])}
        for id in ("first", "hidden-1", "seen-1"):
            assert v1.send("POST", "/v1/sync/events", json.dumps({**GOOD, "id": id}).encode(), all_keys).status == 200
        listed = v1.send("GET", "/v1/sync/dead-letters", None, some).json()
        assert [each["id"] for each in listed["deadLetters"]] == ["seen-1"]
        assert v1.send("GET", "/v1/sync/dead-letters/hr/hidden-1", None, some).status == 403
        assert v1.send("POST", "/v1/sync/dead-letters/hr/hidden-1/redrive", b"", some).status == 403
        assert v1.send("DELETE", "/v1/sync/dead-letters/hr/hidden-1", None, some).status == 403
        assert v1.send("POST", "/v1/sync/events", json.dumps({**GOOD, "id": "hidden-2"}).encode(), some).status == 403
        assert [each["id"] for each in v1.send("GET", "/v1/sync/dead-letters", None, all_keys).json()["deadLetters"]] == ["hidden-1", "seen-1"]
        v1.close()
    finally:
        stop(process)
        shutil.rmtree(data, ignore_errors=True)


# ---- the identity file ----


@pytest.mark.parametrize("wrong, said", [
    ("pools: [{}]", "pool"),
    ("pools: [{pool: nowhere}]", "region"),
    ("pools: [{pool: a_1, name: 'a b'}]", "name"),
    ("pools: [{pool: a_1}, {pool: a_1}]", "pool"),
    ("pools: [{pool: a_1, endpoint: 'ftp://x'}]", "endpoint"),
    ("pools: [{pool: a_1, rate: 0}]", "rate"),
    ("pools: [{pool: a_1, reconcile: -1}]", "reconcile"),
    ("pools: [{pool: a_1, ca_file: none.pem}]", "ca_file"),
    ("pools: [{pool: a_1, absent: drop}]", "absent"),
    ("pool: a_1", "pool"),
])
def test_a_wrong_section_is_refused_by_its_field(tmp_path, wrong, said):
    file = tmp_path / "identity.yaml"
    file.write_text(f"providers:\n  {wrong}\n")
    done = subprocess.run([program(), "serve", "--identity", str(file), "--check-config"], capture_output=True, text=True)
    assert done.returncode != 0 and said in done.stderr, done.stderr
