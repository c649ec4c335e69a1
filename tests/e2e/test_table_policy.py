"""`gatehouse tables policy`: the rights are enough, each is needed, and none is used that is not there. The endpoint is our own server with access
keys, which checks IAM policies as DynamoDB does; a proxy in front of it notes which rights a request needs."""

import contextlib
import http.server
import json
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import line_with_endpoint, program, stop
from test_endpoint_start import Keyed, keyed_server
from test_engine_dynamodb import PATIENCE_S, call, command, environment, give_key

PREFIX = "prod-"
SETTINGS = ["--table-prefix", PREFIX, "--device-index"]
PLACE = ["--account", "000000000000", "--region", Keyed.region]
PARTS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem", "Get": "GetItem"}


def printed(*options):
    said = subprocess.run([program(), "tables", "policy", *PLACE, *SETTINGS, *options], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)["Statement"]


def rights_of(operation, body):
    """(action, resource) that IAM asks for."""
    if operation.startswith("Transact"):
        return {(PARTS[kind], part["TableName"]) for item in body["TransactItems"] for kind, part in item.items()}
    if operation.startswith("Batch"):
        return {(operation, table) for table in body["RequestItems"]}
    if operation in ("TagResource", "ListTagsOfResource"):
        return {(operation, body["ResourceArn"].split("/", 1)[1])}
    return {(operation, body["TableName"] + ("/index/" + body["IndexName"] if "IndexName" in body else ""))}


@contextlib.contextmanager
def noting(url, noted):
    """A proxy that notes which rights the requests need, and how many requests the endpoint refuses."""

    class Pass(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one segment per answer

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = urllib.request.Request(url + self.path, body, dict(self.headers))
            try:
                answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
            except urllib.error.HTTPError as error:
                answer = error
            text = answer.read()
            noted["refused"] += b"AccessDeniedException" in text
            noted["rights"] |= rights_of(self.headers["X-Amz-Target"].split(".")[1], json.loads(body))
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pass) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextlib.contextmanager
def served(url, key, *options):
    with tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
        give_key(data)
        process = subprocess.Popen(command(data, *SETTINGS, *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env={**environment(url), **key})
        try:
            yield line_with_endpoint(process)
        finally:
            stop(process)


# ---- the work of a server ----


def ok(base, method, path, body=None, headers=None):
    status, answer = call(base, path, body, method, headers)
    assert status // 100 == 2, (method, path, status, answer)
    return answer


def attempts(base, who):
    wrong = {"subject": who, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    for _ in range(6):
        ok(base, "POST", "/v1/attempts", wrong, {"Idempotency-Key": f'"{who}"'})
        ok(base, "POST", "/v1/attempts", wrong)
    ok(base, "POST", "/v1/check", {"subject": who, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    assert ok(base, "GET", "/v1/locks")["locks"]
    ok(base, "GET", f"/v1/subjects/{who}")
    ok(base, "POST", f"/v1/subjects/{who}/reset", {"reset": "PASSWORD"})
    begun = ok(base, "POST", "/v1/attempts/begin", {"subject": who, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})
    ok(base, "POST", "/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": "success"})


def limits(base, who):
    few = {"few": {"limit": 2, "per": "day", "engine": "table"}}
    version = ok(base, "GET", "/v1/policies/limits")["version"]
    ok(base, "PUT", "/v1/policies/limits", few, {"If-Match": f'"{version}"'})
    for _ in range(2):  # the second is added to the row of the first
        answer = ok(base, "POST", "/v1/allow", {"policy": "few", "key": who})
        assert answer["allowed"] and not answer["degraded"]


def users(base, who):
    ok(base, "POST", "/v1/users", {"id": who})
    added = ok(base, "POST", f"/v1/users/{who}/emails", {"email": f"{who}@example.org"})
    ok(base, "POST", f"/v1/users/{who}/emails/{added['id']}/verify", {"code": added["code"]})
    ok(base, "POST", "/v1/users/lookup", {"email": f"{who}@example.org"})
    ok(base, "GET", "/v1/users")
    ok(base, "POST", f"/v1/users/{who}/suspend")
    ok(base, "POST", f"/v1/users/{who}/reactivate")
    ok(base, "POST", f"/v1/users/{who}/revoke-tokens", {})


def devices(base, who):
    ok(base, "PUT", f"/v1/users/{who}/devices/phone", {"platform": "ios", "expoPushToken": f"ExponentPushToken[{who}]"})
    ok(base, "GET", f"/v1/users/{who}/devices")
    ok(base, "GET", "/v1/devices?platform=ios")
    ok(base, "POST", f"/v1/users/{who}/devices/phone/deactivate")


def events(base, who):
    assert ok(base, "GET", "/v1/events")["events"]
    ok(base, "PUT", f"/v1/consumers/{who}", {})
    ok(base, "POST", f"/v1/consumers/{who}/poll", {"member": "one"})


def erase(base, who):
    """A job reads tables from end to end."""
    job = ok(base, "POST", f"/v1/users/{who}/erase")["id"]
    deadline = time.monotonic() + PATIENCE_S
    while ok(base, "GET", f"/v1/jobs/{job}")["state"] not in ("done", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert ok(base, "GET", f"/v1/jobs/{job}")["state"] == "done"


WORK = (attempts, limits, users, devices, events, erase)


def work(base, who):
    for part in WORK:
        part(base, who)


# ---- the tests ----


@pytest.fixture(scope="module")
def endpoint():
    """With tables that were made with exactly the rights of `tables policy --for create`."""
    with keyed_server() as server:
        noted = {"rights": set(), "refused": 0}
        creator = server.create_key("creator", *printed("--for", "create"))
        with noting(server.url, noted) as url:
            for options in ((), ("--table-protection", "--table-tags", "a=b")):
                said = subprocess.run([program(), "tables", "create", *SETTINGS, *options], capture_output=True, text=True,
                                      env={**environment(url), **creator})
                assert said.returncode == 0, said.stdout + said.stderr
        server.created = noted
        yield server


def flat(statements):
    """(action, table or index) pairs."""
    pairs = set()
    for statement in statements:
        resources = statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        start = f"arn:aws:dynamodb:{Keyed.region}:000000000000:table/"
        assert statement["Effect"] == "Allow" and all(resource.startswith(start + PREFIX) for resource in resources)
        pairs |= {(action.removeprefix("dynamodb:"), resource.removeprefix(start)) for action in statement["Action"] for resource in resources}
    return pairs


def actions(pairs):
    return {action for action, _ in pairs}


def test_the_rights_to_create_are_enough_and_all_are_used(endpoint):
    """Our own server has no point-in-time recovery, so turning it on is not among them here (test_cli_tables.py turns it on)."""
    allowed = flat(printed("--for", "create"))
    assert endpoint.created["rights"] <= allowed
    assert actions(allowed) - actions(endpoint.created["rights"]) == {"UpdateContinuousBackups"}


def test_the_rights_to_serve_are_enough_and_no_others_are_asked_for(endpoint):
    noted = {"rights": set(), "refused": 0}
    key = endpoint.create_key("server", *printed())
    with noting(endpoint.url, noted) as url, served(url, key, "--create-tables", "never") as base:
        work(base, "ann")
    assert noted["refused"] == 0
    assert noted["rights"] <= flat(printed())
    assert actions(noted["rights"]) == actions(flat(printed()))  # each is used


@pytest.mark.parametrize("action", sorted(printed()[0]["Action"]))
def test_without_any_one_right_something_fails(endpoint, action):
    name = "without-" + action.split(":")[1]
    statements = [{**one, "Action": [a for a in one["Action"] if a != action]} for one in printed()]
    key = endpoint.create_key(name, *(one for one in statements if one["Action"]))
    noted = {"rights": set(), "refused": 0}
    with pytest.raises((RuntimeError, AssertionError)):  # it does not start, or does not do its work
        with noting(endpoint.url, noted) as url, served(url, key, "--create-tables", "never") as base:
            work(base, name.lower())
    assert noted["refused"] > 0


def test_the_rights_to_import_are_enough_for_an_export_too_and_all_are_used(tmp_path):
    with keyed_server() as server:
        noted = {"rights": set(), "refused": 0}
        with served(server.url, server.administrator) as base:
            attempts(base, "ann")
        key, place = server.create_key("importer", *printed("--for", "import")), ["--region", Keyed.region, "--table-prefix", PREFIX]
        with noting(server.url, noted) as url:
            for words in (["export", "--to", tmp_path / "out"], ["import", "--from", tmp_path / "out", "--into-existing"]):
                said = subprocess.run([program(), words[0], "--endpoint", url, *place, *map(str, words[1:])], capture_output=True, text=True,
                                      env={**environment(url), **key})
                assert said.returncode == 0, said.stdout + said.stderr
    assert noted["refused"] == 0
    allowed = flat(printed("--for", "import"))
    assert noted["rights"] <= allowed
    assert actions(allowed) - actions(noted["rights"]) == {"CreateTable", "UpdateTimeToLive"}  # the tables are there


def test_a_server_that_creates_its_tables_needs_both():
    with keyed_server() as server:
        with served(server.url, server.create_key("both", *printed(), *printed("--for", "create"))) as base:
            attempts(base, "ann")
        with served(server.url, server.create_key("one", *printed())) as base:
            with pytest.raises(AssertionError):
                users(base, "ann")


@pytest.mark.parametrize("region, partition", [("eu-west-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_resources_are_single_tables_of_one_account_and_region(region, partition):
    said = subprocess.run([program(), "tables", "policy", "--account", "123456789012", "--region", region, "--table-users", "people"],
                          capture_output=True, text=True, check=True)
    resources = json.loads(said.stdout)["Statement"][0]["Resource"]
    assert len(resources) == 13 and f"arn:{partition}:dynamodb:{region}:123456789012:table/people" in resources
    assert not any("*" in resource for resource in resources)


@pytest.mark.parametrize("options, said", [
    (["--region", "eu-west-1"], "set --account, the account's 12 digits: aws sts get-caller-identity --query Account"),
    (["--region", "eu-west-1", "--account", "12345678901"], "account: must have 12 digits"),
    (["--region", "eu-west-1", "--account", "12345678901x"], "account: must have 12 digits"),
    (["--region", "eu west", "--account", "123456789012"], "region"),
    (["--region", "eu-west-1", "--account", "123456789012", "--for", "reading"], "--for: must be serve, create or import"),
])
def test_what_is_missing_or_wrong_is_named(options, said):
    ended = subprocess.run([program(), "tables", "policy", *options], capture_output=True, text=True)
    assert ended.returncode == 2 and said in ended.stderr
