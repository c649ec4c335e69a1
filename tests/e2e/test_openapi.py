"""openapi.yaml is true: it is valid, it names exactly the routes of the table, and what it shows is what a server answers.

Every request example is sent to a server of its own, in the order of the file. The answer must have the status and the
shape (the same members, the same types) of the answer example of the same name, and validate against its schema; in the schemas
no member is let through that they do not name.
"""
import contextlib
import http.client
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

import jsonschema
import pytest
import yaml

from conftest import line_with_endpoint, program, stop

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "openapi.yaml"
DOCUMENT = yaml.safe_load(FILE.read_text())
METHODS = ("get", "put", "post", "delete", "patch")
TIMEOUT_S = 60


def resolved(node):
    """The same with every $ref replaced by what it means."""
    if isinstance(node, list):
        return [resolved(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "$ref" not in node:
        return {name: resolved(value) for name, value in node.items()}
    target = DOCUMENT
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**resolved(target), **{name: value for name, value in node.items() if name != "$ref"}}


def closed(schema, open_here=False):
    """The same, but objects have no members that are not named. What allOf puts together is closed as a whole."""
    if not isinstance(schema, dict):
        return schema
    out = dict(schema)
    for name in ("properties", "additionalProperties", "items"):
        if name == "properties" and name in schema:
            out[name] = {member: closed(each) for member, each in schema[name].items()}
        elif name in schema:
            out[name] = closed(schema[name])
    for name in ("allOf", "oneOf"):
        if name in schema:
            out[name] = [closed(each, name == "allOf") for each in schema[name]]
    if ("properties" in schema or "allOf" in schema) and "additionalProperties" not in schema and not open_here:
        out["unevaluatedProperties"] = False
    return out


def operations():
    for path, item in resolved(DOCUMENT["paths"]).items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                operation["parameters"] = item.get("parameters", []) + operation.get("parameters", [])
                yield path, method, operation


OPERATIONS = list(operations())


# ---- valid ----


def test_the_server_serves_the_file_that_it_was_built_with(asked):
    asked.request("GET", "/openapi.yaml")
    answer = asked.getresponse()
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/yaml")
    assert answer.read() == FILE.read_bytes()


def test_the_document_is_valid_and_its_examples_fit():
    assert DOCUMENT["openapi"].startswith("3.1")
    js = FILE.parent / "tests" / "e2e" / "js"
    assert (js / "node_modules" / "@redocly" / "openapi-core").is_dir(), f"run `npm ci` in {js} first"
    done = subprocess.run(["node", "lint_openapi.mjs", str(FILE)], cwd=js, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- the route table ----


def rows_of_routes():
    """The table in src/api/v1_routes.c."""
    return (ROOT / "src" / "api" / "v1_routes.c").read_text().split("routes[] = {")[1].split("\n};")[0]


def table():
    """Method, path, action. A route for every method, and all that is behind it, is documented as GET."""
    source = rows_of_routes()
    rows = re.findall(r'\{\s*HTTP_(\w+),\s*"([^"]+)",\s*\w+,\s*"(\w+)"', source)
    assert len(rows) == len(re.findall(r"\{\s*HTTP_", source)) > 5
    return [("get" if method == "OTHER" else method.lower(), path.removesuffix("/{*}"), action) for method, path, action in rows]


def test_every_route_is_documented_and_nothing_else():
    assert sorted(table()) == sorted((method, path, operation["x-action"].removeprefix("gatehouse:"))
                                     for path, method, operation in OPERATIONS)


def test_the_action_is_the_operation_id():
    for _, _, operation in OPERATIONS:
        assert operation["x-action"] == "gatehouse:" + operation["operationId"]


def test_every_query_parameter_that_a_route_knows_is_documented_and_no_other():
    source = rows_of_routes()
    known = dict(re.findall(r'"([A-Z]\w+)",\s*\w+,\s*("[a-z_ ]*"|V1_QUERY_ANY),', source))
    assert len(known) == len(table())
    for _, _, operation in OPERATIONS:
        words = known[operation["operationId"]].strip('"').replace("V1_QUERY_ANY", "").split()
        assert sorted(words) == sorted(p["name"] for p in operation["parameters"] if p["in"] == "query"), operation["operationId"]


# ---- the types of problems ----


def problem_types():
    """(type, status) of each row of ERR_CODES."""
    source = (ROOT / "src" / "base" / "err.h").read_text().replace("\\\n", " ")
    rows = re.findall(r'X\(ERR_\w+,[^)]*?(\d+),\s*"[^"]+",\s*"([a-z-]+)"\)', source)
    assert len(rows) == len(re.findall(r"X\(ERR_", source)) > 20
    return [("urn:gatehouse:problem:" + name, status) for status, name in rows]


def test_every_type_of_problem_is_documented_with_its_status_and_no_other():
    types = problem_types()
    assert sorted(DOCUMENT["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]) == sorted(name for name, _ in types)
    page = (ROOT / "docs" / "errors.md").read_text()
    rows = {"urn:gatehouse:problem:" + name: statuses for name, statuses in re.findall(r"^\| `([a-z-]+)` \| ([\d, ]+) \|", page, re.M)}
    assert sorted(rows) == sorted(name for name, _ in types)
    assert [name for name, status in types if status not in rows[name]] == []


# ---- the examples ----


@contextlib.contextmanager
def served(data):
    """A connection to a server that nobody has used yet."""
    identity = Path(f"{data}.yaml")
    identity.write_text('push: {url: "http://127.0.0.1:9", allow_private: true}\n')  # nobody is there: what is sent waits
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(data), "--no-auth", "--email-claims", "added", "--identity", str(identity)],
                               stdout=subprocess.PIPE)
    try:
        connection = http.client.HTTPConnection(urlsplit(line_with_endpoint(process)).netloc, timeout=TIMEOUT_S)
        yield connection
        connection.close()
    finally:
        stop(process)


def parameter_value(parameter, name):
    """The parameter's example for the request of that name, or its only one; None if there is none."""
    return parameter["examples"][name]["value"] if "examples" in parameter else parameter.get("example")


def send(connection, path, method, operation, name, body):
    query, headers = {}, {}
    for parameter in operation["parameters"]:
        value = parameter_value(parameter, name)
        if value is None:
            assert not parameter.get("required"), f"{path}: {parameter['name']} needs an example"
        elif parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", quote(value, safe=""))
        else:
            (query if parameter["in"] == "query" else headers)[parameter["name"]] = value
    target = path + ("?" + urlencode(query) if query else "")
    connection.request(method.upper(), target, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, json.loads(answer.read())


def answer_example(operation, name):
    """The status, schema and value of the answer example of that name; of an operation without body the only one there is."""
    found = [(int(status), media["schema"], example["value"], response)
             for status, response in operation["responses"].items() if status != "default"
             for media in response.get("content", {}).values()
             for key, example in media.get("examples", {}).items() if name in (None, key)]
    assert len(found) == 1, f"{operation['operationId']}: {len(found)} answers called {name}"
    return found[0]


def shape(value):
    if isinstance(value, dict):
        return {name: shape(member) for name, member in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


def requests(operation):
    """Names and bodies of what to send."""
    if "requestBody" not in operation:
        return [(None, None)]
    return [(name, example["value"]) for name, example in operation["requestBody"]["content"]["application/json"]["examples"].items()]


def check(connection, path, method, operation, name, body):
    where = f"{operation['operationId']} {name}"
    status, headers, answer = send(connection, path, method, operation, name, body)
    if operation["operationId"] in ("GetPolicies", "DeletePolicies"):  # the document is long: its schema is all there is to say
        response = operation["responses"]["200"]
        want, schema = 200, response["content"]["application/json"]["schema"]
    else:
        want, schema, value, response = answer_example(operation, name)
        if operation["operationId"] != "ListTopLimits":  # which lists what the others did
            assert shape(answer) == shape(value), where
    assert status == want, (where, answer)
    jsonschema.Draft202012Validator(closed(schema), format_checker=jsonschema.FormatChecker()).validate(answer)
    assert headers["Content-Type"] == next(iter(response["content"]))
    if status == 200:
        promised = set(response.get("headers", {})) - {"Idempotency-Replayed", "Retry-After"}
        assert promised <= set(headers.keys()), where


def test_the_examples_are_what_a_server_answers(tmp_path):
    with served(tmp_path / "data") as connection:
        for path, method, operation in OPERATIONS:
            for name, body in requests(operation):
                check(connection, path, method, operation, name, body)


def test_every_answer_example_validates_and_belongs_to_a_request():
    for _, _, operation in OPERATIONS:
        names = {name for name, _ in requests(operation)}
        for response in operation["responses"].values():
            for media in response.get("content", {}).values():
                for name, example in media.get("examples", {}).items():
                    jsonschema.Draft202012Validator(closed(media["schema"])).validate(example["value"])
                    assert names == {None} or name in names


# ---- what the examples cannot show ----


def locked_out(connection):
    body = {"subject": "locked-out", "journey": "SIGN_IN", "type": "EMAIL_CODE_ENTRY", "outcome": "failure"}
    answers = []
    for _ in range(7):
        connection.request("POST", "/v1/attempts", json.dumps(body))
        answers.append(json.loads(connection.getresponse().read()))
    return body, answers


def schema_of(path, method, status="200", media="application/json"):
    operation = next(o for p, m, o in OPERATIONS if (p, m) == (path, method))
    return closed(operation["responses"][status]["content"][media]["schema"])


def test_verdicts_that_say_wait_fit_the_schemas_too(tmp_path):
    with served(tmp_path / "data") as connection:
        body, answers = locked_out(connection)
        validator = jsonschema.Draft202012Validator(schema_of("/v1/attempts", "post"))
        assert [answer["verdict"] for answer in answers] == ["allow"] * 5 + ["locked"] * 2
        for answer in answers:
            validator.validate(answer)
        connection.request("POST", "/v1/attempts?enforce=status", json.dumps(body))
        answer = connection.getresponse()
        assert answer.status == 423
        validator.validate(json.loads(answer.read()))
        for path, name in (("/v1/subjects/locked-out", "/v1/subjects/{id}"), ("/v1/locks", "/v1/locks"),
                           ("/v1/subjects/locked-out/explain", "/v1/subjects/{id}/explain")):
            connection.request("GET", path)
            said = json.loads(connection.getresponse().read())
            assert len(said["locks"]) == 1
            jsonschema.Draft202012Validator(schema_of(name, "get")).validate(said)


BLOCKED = {"subject": "barred", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
CHECK = {"subject": "somebody", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}


@pytest.mark.parametrize("method, path, query, headers, body, status", [
    ("post", "/v1/attempts", "?enforce=status", {}, BLOCKED, 403),
    ("post", "/v1/attempts/begin", "?enforce=status", {}, {name: BLOCKED[name] for name in ("subject", "journey", "type")}, 403),
    ("post", "/v1/check", "?enforce=status", {}, {**CHECK, "token": "none"}, 401),
    ("post", "/v1/check", "?enforce=status", {}, {**CHECK, "limits": [{"policy": "login-account", "key": "a", "cost": 99}]}, 429),
    ("post", "/v1/tokens/verify", "?enforce=status", {}, {"token": "none"}, 401),
    ("post", "/v1/allow", "?enforce=status", {}, {"policy": "login-account", "key": "a", "cost": 99}, 429),
    ("get", "/v1/authz", "", {"X-Gatehouse-Policy": "login-account", "X-Gatehouse-Key": "a", "X-Gatehouse-Cost": "99"}, None, 429),
    ("get", "/v1/authz", "?policy=login-account&key=a&cost=99&deny=403", {}, None, 403),
    ("get", "/v1/authz", "", {"X-Gatehouse-Token": "required"}, None, 401),
    ("get", "/v1/authz", "", {"X-Gatehouse-Token": "required", "Authorization": "Bearer none"}, None, 401),
])
def test_an_answer_that_is_no_success_and_no_problem_is_documented_too(asked, method, path, query, headers, body, status):
    asked.request(method.upper(), path + query, None if body is None else json.dumps(body), headers)
    answer = asked.getresponse()
    said = json.loads(answer.read())
    assert (answer.status, answer.headers["Content-Type"]) == (status, "application/json"), said
    operation = next(o for p, m, o in OPERATIONS if (p, m) == (path, method))
    jsonschema.Draft202012Validator(operation["responses"][str(status)]["content"]["application/json"]["schema"]).validate(said)
    jsonschema.Draft202012Validator(schema_of(path, method)).validate(said)  # "the body is that of 200"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    with served(tmp_path_factory.mktemp("asked") / "data") as connection:
        connection.request("PUT", "/v1/subjects/barred/states/intervention", json.dumps({"blocked": True, "applied_at": 1}))
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
        yield connection


# ---- what the schemas forbid ----


def members(value, path=()):
    """Every place in a body, with what stands there."""
    yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in inner:
        yield from members(each, (*path, step))


def changed(body, path, value):
    """A copy with another value at that place; None takes it away."""
    if not path:
        return value
    copy = dict(body) if isinstance(body, dict) else list(body)
    if len(path) == 1 and value is None:
        del copy[path[0]]
    else:
        copy[path[0]] = changed(copy[path[0]] if path[0] in copy or isinstance(copy, list) else None, path[1:], value)
    return copy


WRONG = (7, -1.5, True, {"unheard_of": 1}, ["unheard_of"], "x" * 3000, None)


def wrong_bodies(operation, body):
    """Bodies that differ from a good one in one place, and that the schema forbids."""
    validator = jsonschema.Draft202012Validator(closed(operation["requestBody"]["content"]["application/json"]["schema"]))
    for path, value in members(body):
        others = [(path, wrong) for wrong in WRONG if path and not (wrong is None and isinstance(path[-1], int))]
        others += [((*path, "unheard_of"), 1)] if isinstance(value, dict) else []
        for place, wrong in others:
            made = changed(body, place, wrong)
            if not validator.is_valid(made):
                yield place, made


def names_its_place(body, place):
    """A member that was taken away may be missed under the name of another that would do."""
    for step in place:
        if isinstance(body, dict) and step not in body:
            return False
        body = body[step]
    return True


def good_bodies(operation):
    """Those of its examples that are answered with a success."""
    for name, body in requests(operation):
        if answer_example(operation, name)[0] < 300:
            yield name, body


# A trigger never stands in the way of a sign-up; policies are long, and have tests of their own.
LENIENT = ("SyncTrigger", "PutPolicies")


def test_what_the_schemas_forbid_is_refused_by_name_and_changes_nothing(tmp_path):
    sent = 0
    with served(tmp_path / "data") as connection:
        for path, method, operation in OPERATIONS:
            if "requestBody" not in operation or operation["operationId"] in LENIENT:
                continue
            for name, body in good_bodies(operation):
                for place, wrong in wrong_bodies(operation, body):
                    status, headers, problem = send(connection, path, method, operation, name, wrong)
                    what = (operation["operationId"], place, str(wrong)[:200], problem)
                    assert status in (400, 413, 422) and headers["Content-Type"] == "application/problem+json", what
                    assert "field" not in problem or problem["detail"].startswith(problem["field"] + ": "), what
                    if names_its_place(wrong, place):
                        assert re.split(r"[.\[]", problem.get("field", ""))[0] == place[0], what
                    sent += 1
        connection.request("POST", "/", "{}", {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"})
        assert json.loads(connection.getresponse().read())["TableNames"] == []  # a table is made when it is first written to
    assert sent > 1000
