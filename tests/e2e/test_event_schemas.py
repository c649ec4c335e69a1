"""Every event that is published is as its schema in docs/events says: of the service suites, and of a server."""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import boto3
import jsonschema
import pytest

from test_users import call, new_id, ok, own
from v1 import Server, attempt

pytestmark = pytest.mark.gatehouse_only

ROOT = Path(__file__).resolve().parents[2]
SUITES = ["lock_event", "attempt_event", "revocation", "push_device", "push_due", "push", "policy_store", "sync", "reconcile"]
TYPES = re.findall(r'X\(EVENT_[A-Z_]+, "([a-z_.]+)"\)', (ROOT / "src/service/event_policy.h").read_text())
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs/events").glob("*.json")}
# Readers must let new fields pass; what is published now is all in the schemas.
VALIDATORS = {name: jsonschema.Draft202012Validator({**schema, "additionalProperties": False}) for name, schema in SCHEMAS.items()}
ENVELOPE = {"specversion", "id", "type", "source", "time", "subject", "dataschema", "seq", "position"}


def check(event):
    assert ENVELOPE <= set(event) <= ENVELOPE | {"datacontenttype", "data", "correlationid", "erased", "shard"}, event
    schema = SCHEMAS[event["type"]]
    assert event["dataschema"] == schema["$id"]
    if not event.get("erased"):
        VALIDATORS[event["type"]].validate(event.get("data"))


def test_every_type_has_a_schema_and_every_schema_a_type():
    assert TYPES and set(SCHEMAS) == set(TYPES)
    assert [name for name in TYPES if f"`{name}`" not in (ROOT / "docs/events.md").read_text()] == []
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["title"] == name and schema["description"]
        assert all("description" in member for member in schema.get("properties", {}).values()), name


def closed(schema):
    """Objects in it that refuse fields that are not named."""
    if isinstance(schema, list):
        return [found for each in schema for found in closed(each)]
    if not isinstance(schema, dict):
        return []
    here = [schema] if schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False else []
    return here + [found for each in schema.values() for found in closed(each)]


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_allows_new_fields(name):
    """An event may get further fields in a later version, and readers that validate must not fail then."""
    assert closed(SCHEMAS[name]) == []
    jsonschema.Draft202012Validator({key: value for key, value in SCHEMAS[name].items() if key != "required"}).validate({"aFieldOfALaterVersion": 1})


def test_a_server_serves_the_schemas_and_lists_them(server):
    get = lambda path, method="GET": server.v1.send(method, path, b"", {})
    listed = json.loads(get("/schemas/events").body)["schemas"]
    assert [each["type"] for each in listed] == TYPES
    for each in listed:
        reply = get(each["path"])
        assert reply.status == 200 and reply.headers["content-type"] == "application/schema+json"
        assert reply.body == (ROOT / f"docs/events/{each['type']}.json").read_bytes()
        assert json.loads(reply.body)["$id"] == each["dataschema"] and get(f"/schemas/events/{each['dataschema']}").body == reply.body
    assert get("/schemas/events/lock.set", "HEAD").status == 200 and get("/schemas/events/lock.set", "POST").status == 405
    for path in ("/schemas/events/", "/schemas/events/lock", "/schemas/events/lock.set.json", "/schemas/events/urn:gatehouse:event::1", "/schemas/events/urn:gatehouse:event:lock.set:2",
                 "/schemas/events/lock.set/", "/schemas/eventsx", "/schemas"):
        assert get(path).status == 404, path


def test_events_of_the_suites_are_as_their_schemas_say(tmp_path):
    programs = [f"build/tests/service/{suite}_test" for suite in SUITES]
    subprocess.run(["make", "-s", *programs], cwd=ROOT, check=True)
    published = tmp_path / "events"
    for program in programs:
        subprocess.run([program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "GATEHOUSE_EVENTS": str(published)})
    events = [json.loads(line) for line in published.read_text().splitlines()]
    for event in events:
        check(event)
    seen = {event["type"] for event in events}
    assert {"lock.set", "lock.cleared", "lock.expired", "attempt.near_limit", "attempt.new_source", "state.changed", "push.sent", "push.failed",
            "policy.changed", "token.revoked", "device.registered", "device.moved", "device.removed", "device.expired"} <= seen, seen


@pytest.fixture
def server(tmp_path):
    policies = tmp_path / "policies.yaml"
    policies.write_text('events: {types: ["*"], personal_data: ["*"], outbox: true}\n')
    made = Server("--policies", str(policies))
    yield made
    made.close()


def test_events_of_a_server_are_as_their_schemas_say_and_in_the_outbox(server):
    user = new_id()
    ok(server, "POST", "/v1/users", {"id": user})
    own(server, user, f"{user}@example.org")
    for _ in range(6):
        ok(server, "POST", "/v1/attempts", attempt(user, context={"ip": "192.0.2.1"}))
    ok(server, "PUT", f"/v1/subjects/{user}/states/intervention", {"suspended": True, "applied_at": int(time.time())})
    assert call(server, "DELETE", f"/v1/subjects/{user}/locks/SIGN_IN/PASSWORD_ENTRY")[0] == 200
    ok(server, "POST", f"/v1/users/{user}/suspend")
    ddb = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", aws_access_key_id="a", aws_secret_access_key="b")
    events = [json.loads(row["payload"]["S"]) for row in ddb.scan(TableName="outbox")["Items"]]
    for event in events:
        check(event)
    seqs = sorted(event["seq"] for event in events if event["subject"] == user)
    assert seqs == list(range(1, len(seqs) + 1))
    seen = {event["type"] for event in events}
    assert {"user.created", "email.added", "email.verified", "email.primary.changed", "attempt.near_limit", "attempt.new_source", "lock.set",
            "lock.cleared", "state.changed", "user.suspended"} <= seen, seen
    added = next(event for event in events if event["type"] == "email.added")
    assert added["data"]["email"] == f"{user}@example.org"
    log = ddb.query(TableName="gatehouse-events", KeyConditionExpression="PK = :p", ExpressionAttributeValues={":p": {"S": "LOG#0"}})["Items"]
    assert {event["id"] for event in events} <= {row["id"]["S"] for row in log}  # the version of the policy file may have come since
    metrics = server.v1.send("GET", "/metrics", b"", {}).body.decode()
    assert 'gatehouse_events_published_total{type="lock.set"} 1' in metrics
