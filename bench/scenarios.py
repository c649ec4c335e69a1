"""What is measured: one entry each, with the request that each server is sent, and the targets per rival.

A request is what bench/load sends: an operation (or a path, or `redis`), a body (%d is a key number, %t a time to live
that moves with the clock; a Redis command has a word a line) and a text that a right answer contains. `counts` says that
each request adds 1 to its row, so that the rows can be added up afterwards and compared with the answers."""
import dataclasses
import json

TABLE = "bench-counters"
COUNTER = "counter:%d"      # Redis' keys
TTL_S = 900


@dataclasses.dataclass(frozen=True)
class Request:
    target: str
    body: str
    expect: str
    counts: bool = False


@dataclasses.dataclass(frozen=True)
class Target:
    rate: float | None = None   # the subject's requests/s : the rival's, at least
    cpu: float | None = None    # the subject's CPU a request : the rival's, at most
    p50: float | None = None    # the subject's p50 : the rival's, at most


@dataclasses.dataclass(frozen=True)
class Scenario:
    group: str          # for --only
    title: str
    connections: int
    requests: dict      # server -> Request; servers that are not named do not take part
    targets: dict = dataclasses.field(default_factory=dict)     # rival -> Target
    spin: bool = False  # the generator never sleeps, so that its waking up is not in the latencies
    subject: str = "gatehouse"  # whose ratios are printed
    signed: bool = False        # also a server that asks for no signature gets one: the same bytes for all
    many: bool = False          # keys: as many as --rows says, and not the usual 10,000


def body(**fields):
    return json.dumps({"TableName": TABLE, **fields}, separators=(",", ":"))


def command(*words):
    return "\n".join(words)


KEY = {"PK": {"S": "USER#%d"}, "SK": {"S": "SIGN_IN#PASSWORD"}}

# A counter row as a login page keeps it, about 200 bytes in DynamoDB; in Redis it is a number.
FILL = {
    "dynamo": Request("PutItem", body(Item={
        **KEY, "count": {"N": "0"}, "ttl": {"N": "%t"}, "last_updated": {"S": "2025-01-01T00:00:00.000Z"},
        "notification_type": {"S": "VERIFY_PHONE_NUMBER"}, "mfa_method_type": {"S": "AUTH_APP"},
        "intervention_state": {"S": "NONE"}, "origin": {"S": "a-service-with-quite-a-long-name"}}), "{"),
    "redis": Request("redis", command("SET", COUNTER, "0", "EX", str(TTL_S)), "+OK"),
}

UPDATE = Request("UpdateItem", body(
    Key=KEY,
    UpdateExpression="ADD #count :one SET #ttl = :ttl",
    ExpressionAttributeNames={"#count": "count", "#ttl": "ttl"},
    ExpressionAttributeValues={":one": {"N": "1"}, ":ttl": {"N": "%t"}},
    ReturnValues="UPDATED_NEW"), '"count"', counts=True)
GET = Request("GetItem", body(Key=KEY, ConsistentRead=True), '"count"')

SCRIPT = "local n = redis.call('INCR', KEYS[1]) redis.call('EXPIRE', KEYS[1], ARGV[1]) return n"
EVAL = Request("redis", command("EVAL", SCRIPT, "1", COUNTER, str(TTL_S)), ":", counts=True)
EVAL_MANY = Request("redis", command("EVAL", SCRIPT, "1", "many:%d", str(TTL_S)), ":")
INCR = Request("redis", command("INCR", COUNTER), ":", counts=True)

# What the durability of a server is judged by.
WRITE = {"dynamo": UPDATE, "redis": EVAL}


def post(path, expect, **fields):
    return Request(path, json.dumps(fields, separators=(",", ":")), expect)


ATTEMPT = post("/v1/attempts", '"counted":true', subject="subject-%d", journey="SIGN_IN", type="PASSWORD_ENTRY", outcome="failure")
ATTEMPT_CODE = post("/v1/attempts", '"counted":true', subject="subject-%d", journey="SIGN_IN", type="MFA_CODE_ENTRY", outcome="failure",
                    method_id="phone", method_type="SMS")
ATTEMPT_MANY = post("/v1/attempts", '"counted":true', subject="one-of-many-%d", journey="SIGN_IN", type="PASSWORD_ENTRY", outcome="failure")
ALLOW_MEMORY = post("/v1/allow", '"allowed"', policy="bench-memory", key="key-%d")
ALLOW_TABLE = post("/v1/allow", '"allowed"', policy="bench-table", key="key-%d")


def same(request, *servers):
    return dict.fromkeys(servers, request)


ALL_DYNAMO = ("gatehouse", "dynoxide", "dynalite")
SIGNED = ("gatehouse", "gatehouse-signed")
MANY = ("gatehouse", "gatehouse-many")
FASTER = same(Target(rate=10, cpu=0.1), "dynoxide", "dynalite")
FAST = same(Target(rate=5), "dynoxide", "dynalite")
AS_FAST = {"redis-always": Target(rate=1, cpu=1.4)}

SCENARIOS = [
    Scenario("update", "UpdateItem, counter + ttl, 16 connections", 16, same(UPDATE, *ALL_DYNAMO), FASTER),
    Scenario("update", "UpdateItem, counter + ttl, 64 connections", 64, same(UPDATE, *ALL_DYNAMO), FASTER),
    Scenario("get", "GetItem, 16 connections", 16, same(GET, *ALL_DYNAMO), FAST),
    Scenario("get", "GetItem, 64 connections", 64, same(GET, *ALL_DYNAMO), FAST),
    Scenario("signed", "UpdateItem, signed requests under a policy, against none of it, 64 connections", 64,
             same(UPDATE, *SIGNED), {"gatehouse": Target(cpu=1.3)}, subject="gatehouse-signed", signed=True),
    Scenario("signed", "GetItem, signed requests under a policy, against none of it, 64 connections", 64,
             same(GET, *SIGNED), {"gatehouse": Target(cpu=1.3)}, subject="gatehouse-signed", signed=True),
    Scenario("attempts", "POST /v1/attempts against EVAL(INCR+EXPIRE), 64 connections", 64,
             {"gatehouse": ATTEMPT, **same(EVAL, "redis-always", "redis-everysec")},
             {"redis-always": Target(rate=1.3, cpu=1)}),
    Scenario("attempts", "POST /v1/attempts, a code of a second factor, against EVAL(INCR+EXPIRE), 64 connections", 64,
             {"gatehouse": ATTEMPT_CODE, "redis-always": EVAL}, AS_FAST),
    Scenario("attempts", "POST /v1/attempts, many subjects, against EVAL(INCR+EXPIRE), 64 connections", 64,
             {"gatehouse": ATTEMPT_MANY, "redis-always": EVAL_MANY}, AS_FAST, many=True),
    Scenario("attempts", "POST /v1/attempts, a code of a second factor beside those subjects, against EVAL(INCR+EXPIRE), 64 connections", 64,
             {"gatehouse": ATTEMPT_CODE, "redis-always": EVAL}, AS_FAST),
    Scenario("rows", "GetItem, one client, many rows against few", 1, same(GET, *MANY), {"gatehouse": Target(p50=1.5)},
             subject="gatehouse-many", spin=True),
    Scenario("rows", "UpdateItem, one client, many rows against few", 1, same(UPDATE, *MANY), {"gatehouse": Target(p50=1.5)},
             subject="gatehouse-many", spin=True),
    Scenario("allow", "POST /v1/allow, memory policy, against INCR, 64 connections", 64,
             {"gatehouse": ALLOW_MEMORY, "redis-memory": INCR}, {"redis-memory": Target(rate=1)}),
    Scenario("allow", "POST /v1/allow, table policy, against EVAL(INCR+EXPIRE), 64 connections", 64,
             {"gatehouse": ALLOW_TABLE, "redis-always": EVAL}),
]
GROUPS = ["update", "get", "single", "signed", "attempts", "rows", "allow"]

SINGLE = Scenario("single", "UpdateItem, counter + ttl, one client that polls", 1, same(UPDATE, *ALL_DYNAMO), spin=True)
SINGLE_ASLEEP = Scenario("single", "UpdateItem, counter + ttl, one client that sleeps", 1, same(UPDATE, *ALL_DYNAMO))
SINGLE_P50_TARGET = 1.5     # Gatehouse's p50 : the p50 of write + fdatasync of the same bytes, at most
