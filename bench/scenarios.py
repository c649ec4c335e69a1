"""What is measured: one entry each, with the request per protocol and the targets per rival.

A request is what bench/load sends: an operation, a body (%d is a key number, %t a time to live that moves with the
clock) and a text that a right answer contains. `counts` says that each request adds 1 to its row, so that the rows
can be added up afterwards and compared with the answers."""
import dataclasses
import json

TABLE = "bench-counters"


@dataclasses.dataclass(frozen=True)
class Request:
    target: str
    body: str
    expect: str


@dataclasses.dataclass(frozen=True)
class Scenario:
    group: str          # for --only
    title: str
    connections: int
    requests: dict      # protocol -> Request
    counts: bool
    rate_target: float | None = None    # Gatehouse's requests/s : the other's, at least
    cpu_target: float | None = None     # the other's CPU a request : Gatehouse's, at least
    spin: bool = False  # the generator never sleeps, so that its waking up is not in the latencies


def body(**fields):
    return json.dumps({"TableName": TABLE, **fields}, separators=(",", ":"))


KEY = {"PK": {"S": "USER#%d"}, "SK": {"S": "SIGN_IN#PASSWORD"}}

# A counter row as a login page keeps it, about 200 bytes.
FILL = {"dynamo": Request("PutItem", body(Item={
    **KEY, "count": {"N": "0"}, "ttl": {"N": "%t"}, "last_updated": {"S": "2025-01-01T00:00:00.000Z"},
    "notification_type": {"S": "VERIFY_PHONE_NUMBER"}, "mfa_method_type": {"S": "AUTH_APP"},
    "intervention_state": {"S": "NONE"}, "origin": {"S": "a-service-with-quite-a-long-name"}}), "{")}

UPDATE = {"dynamo": Request("UpdateItem", body(
    Key=KEY,
    UpdateExpression="ADD #count :one SET #ttl = :ttl",
    ExpressionAttributeNames={"#count": "count", "#ttl": "ttl"},
    ExpressionAttributeValues={":one": {"N": "1"}, ":ttl": {"N": "%t"}},
    ReturnValues="UPDATED_NEW"), '"count"')}

GET = {"dynamo": Request("GetItem", body(Key=KEY, ConsistentRead=True), '"count"')}

SCENARIOS = [
    Scenario("update", "UpdateItem, counter + ttl, 16 connections", 16, UPDATE, True, 10, 10),
    Scenario("update", "UpdateItem, counter + ttl, 64 connections", 64, UPDATE, True, 10, 10),
    Scenario("get", "GetItem, 16 connections", 16, GET, False, 5, None),
    Scenario("get", "GetItem, 64 connections", 64, GET, False, 5, None),
]

SINGLE = Scenario("single", "UpdateItem, counter + ttl, one client that polls", 1, UPDATE, True, spin=True)
SINGLE_ASLEEP = Scenario("single", "UpdateItem, counter + ttl, one client that sleeps", 1, UPDATE, True)
SINGLE_P50_TARGET = 1.5     # Gatehouse's p50 : the p50 of write + fdatasync of the same bytes, at most
