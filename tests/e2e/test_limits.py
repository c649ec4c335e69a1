"""Rate limits over HTTP: what callers send and see, on both engines."""
import json
import os
import re
import subprocess
import threading
import time

import boto3
import pytest
from botocore.config import Config

from conftest import program
from limited import Limited, fresh
from test_stall import Heavy, signed
from v1 import Crowd, request_bytes
from wire import Wire, as_bytes

pytestmark = pytest.mark.gatehouse_only

POLICIES = """
limits:
  memory: {limit: 5, per: day, near: 0.8}
  table: {limit: 5, per: day, engine: table, near: 0.8, prefix: ""}
  gcra: {algorithm: gcra, limit: 3600, per: hour, burst: 3}
  sliding: {algorithm: sliding, limit: 5, per: month, engine: table}
  shadow: {limit: 1, per: day, shadow: true}
  closed: {limit: 5, per: day, engine: table, on_failure: closed}
"""
ENGINES = ["memory", "table"]


@pytest.fixture(scope="module")
def server():
    made = Limited(POLICIES)
    yield made
    made.close()


@pytest.fixture
def key():
    return fresh()


# ---- allow ----


@pytest.mark.parametrize("engine", ENGINES)
def test_allows_up_to_the_limit_and_says_what_is_left(server, engine, key):
    left = [server.allow(engine, key)["results"][0]["remaining"] for _ in range(5)]
    assert left == [4, 3, 2, 1, 0]
    refused = server.allow(engine, key)
    assert not refused["allowed"] and not refused["degraded"]
    assert 0 < refused["retry_after"] <= 86400
    assert refused["until"].endswith("T00:00:00Z")
    assert refused["results"][0] == {**refused["results"][0], "policy": engine, "allowed": False, "limit": 5, "remaining": 0, "near": True}


@pytest.mark.parametrize("engine", ENGINES)
def test_headers_follow_the_draft(server, engine, key):
    """draft-ietf-httpapi-ratelimit-headers: structured fields, one member a policy."""
    reply = server.post("/v1/allow", {"policy": engine, "key": key})
    assert reply.headers["ratelimit-policy"] == f'"{engine}";q=5;w=86400'
    assert re.fullmatch(rf'"{engine}";r=4;t=\d+', reply.headers["ratelimit"])
    assert "retry-after" not in reply.headers
    for _ in range(5):
        reply = server.post("/v1/allow", {"policy": engine, "key": key})
    assert reply.status == 200
    assert reply.headers["retry-after"] == str(reply.json()["retry_after"])
    assert re.fullmatch(rf'"{engine}";r=0;t=\d+', reply.headers["ratelimit"])


@pytest.mark.parametrize("engine", ENGINES)
def test_enforce_status_turns_a_refusal_into_429(server, engine, key):
    assert server.post("/v1/allow?enforce=status", {"policy": engine, "key": key, "cost": 5}).status == 200
    reply = server.post("/v1/allow?enforce=status", {"policy": engine, "key": key})
    assert reply.status == 429 and not reply.json()["allowed"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cost_of_zero_only_looks(server, engine, key):
    for _ in range(3):
        assert server.allow(engine, key, 0)["results"][0]["remaining"] == 5
    server.allow(engine, key, 3)
    assert server.allow(engine, key, 0)["results"][0]["remaining"] == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_cost_above_the_limit_never_passes_and_names_no_time(server, engine, key):
    refused = server.allow(engine, key, 6)
    assert not refused["allowed"] and "retry_after" not in refused
    assert refused["results"][0]["reason"] == "cost_above_limit"
    assert server.allow(engine, key, 5)["allowed"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_refund_gives_back(server, engine, key):
    server.allow(engine, key, 5)
    assert not server.allow(engine, key)["allowed"]
    assert server.post("/v1/refund", {"policy": engine, "key": key, "cost": 2}).json()["results"][0]["remaining"] == 2
    assert server.allow(engine, key, 2)["allowed"]
    assert not server.allow(engine, key)["allowed"]


def test_near_is_said_from_the_policys_share_on(server, key):
    assert "near" not in server.allow("memory", key, 3)["results"][0]
    assert server.allow("memory", key)["results"][0]["near"]


def test_gcra_drains_at_its_rate(server, key):
    assert [server.allow("gcra", key)["allowed"] for _ in range(3)] == [True] * 3
    answers = [server.allow("gcra", key) for _ in range(50)]  # on a slow machine a second may go by, and one more pass
    refused = [answer for answer in answers if not answer["allowed"]]
    assert refused and all(answer["retry_after"] == 1 for answer in refused)
    deadline = time.monotonic() + 20
    while not server.allow("gcra", key)["allowed"]:
        assert time.monotonic() < deadline


def test_a_shadow_policy_reports_and_lets_through(server, key):
    assert server.allow("shadow", key)["results"][0]["allowed"]
    second = server.allow("shadow", key)
    assert second["allowed"] and second["results"][0]["allowed"] is False and second["results"][0]["shadow"] is True
    assert server.metric('gatehouse_limit_answers_total{policy="shadow",outcome="shadowed"}') >= 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_retry_with_the_same_idempotency_key_counts_once(server, engine, key):
    once = {"Idempotency-Key": fresh()}
    first = server.post("/v1/allow", {"policy": engine, "key": key, "cost": 3}, once)
    assert server.allow(engine, key, 2)["allowed"] and not server.allow(engine, key)["allowed"]
    again = server.post("/v1/allow", {"policy": engine, "key": key, "cost": 3}, once)
    assert again.body == first.body and first.json()["allowed"]
    assert again.headers["idempotency-replayed"] == "true"
    assert server.post("/v1/allow", {"policy": engine, "key": key, "cost": 1}, once).status == 422


# ---- several ----


def ask_all(server, key, *costs):
    asks = [{"policy": policy, "key": key, "cost": cost} for policy, cost in zip(("memory", "table", "closed"), costs)]
    return server.post("/v1/allow", {"all": asks}).json()


def test_several_limits_are_all_or_nothing_across_engines(server, key):
    assert ask_all(server, key, 1, 2, 3)["allowed"]
    refused = ask_all(server, key, 1, 1, 3)  # two of the third are left
    assert [r["allowed"] for r in refused["results"]] == [True, True, False]
    assert not refused["allowed"] and refused["retry_after"] > 0
    assert [r["remaining"] for r in ask_all(server, key, 0, 0, 0)["results"]] == [4, 3, 2]
    assert not ask_all(server, key, 5, 1, 1)["allowed"]  # memory refuses
    assert [r["remaining"] for r in ask_all(server, key, 0, 0, 0)["results"]] == [4, 3, 2]


def test_several_limits_at_once_lose_nothing(server, key):
    """Eight connections, mixed calls: what is gone from each limit is what the allowed calls took."""
    allowed = []

    def work():
        wire = Wire(server.endpoint)
        for _ in range(10):
            asks = [{"policy": "memory", "key": key}, {"policy": "table", "key": key}, {"policy": "sliding", "key": key}]
            allowed.append(wire.send("POST", "/v1/allow", as_bytes({"all": asks})).json()["allowed"])
        wire.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(allowed) == 80 and sum(allowed) == 5
    for policy in ("memory", "table", "sliding"):
        assert server.allow(policy, key, 0)["results"][0]["remaining"] == 0


# ---- rows ----


def test_the_row_is_the_documents_and_counts_survive_a_restart():
    server = Limited(POLICIES)
    try:
        alice = "arn:aws:iam::123456789012:user/alice"
        server.allow("table", alice, 3)
        ddb = boto3.client("dynamodb", endpoint_url=server.endpoint, config=Config(retries={"total_max_attempts": 1}))
        row = ddb.get_item(TableName="rate-limits", Key={"PK": {"S": "RL#" + alice}})["Item"]
        assert set(row) - {"Nonce"} == {"PK", "WindowStart", "Count", "TTL"} and row["Count"] == {"N": "3"}
        start = time.strptime(row["WindowStart"]["S"], "%Y-%m-%dT%H:%M:%SZ")
        assert (start.tm_hour, start.tm_min, start.tm_sec) == (0, 0, 0)
        server.halt()
        server.start()
        assert server.allow("table", alice, 0)["results"][0]["remaining"] == 2
        assert server.allow("memory", alice, 0)["results"][0]["remaining"] == 5
    finally:
        server.close()


def test_a_table_appears_only_when_a_limit_first_needs_it():
    server = Limited(POLICIES)
    try:
        ddb = boto3.client("dynamodb", endpoint_url=server.endpoint, config=Config(retries={"total_max_attempts": 1}))
        server.allow("memory", "k")
        server.allow("table", "k", 0)
        assert "rate-limits" not in ddb.list_tables()["TableNames"]
        server.allow("table", "k")
        assert "rate-limits" in ddb.list_tables()["TableNames"]
        assert ddb.describe_time_to_live(TableName="rate-limits")["TimeToLiveDescription"]["AttributeName"] == "TTL"
    finally:
        server.close()


def test_addresses_are_kept_as_hashes(server):
    server.allow("memory", {"ip": "192.0.2.77"})
    server.allow("table", {"email": "someone@example.com"})
    shown = server.get("/v1/limits/top?max=100").body + server.get("/metrics").body
    assert b"192.0.2.77" not in shown and b"someone@" not in shown
    assert b'"memory#ip:' in shown and b'"email:' in shown


def test_of_keys_only_hashes_are_in_the_metrics(server):
    for _ in range(4):
        server.allow("memory", "someone-else@example.com")
        server.allow("memory", "192.0.2.78")
        server.allow("memory", "tok_live_secret")
    for _ in range(200):
        server.allow("memory", {"ip": "192.0.2.79"})
    body = server.get("/metrics").body
    assert b"someone-else@" not in body and b"192.0.2.78" not in body and b"tok_live_secret" not in body
    assert b'key="memory#ip:' in body


HASH = "A" * 32


@pytest.mark.parametrize("sent", [f"192.0.2.90#ip:{HASH}", f"eve@example.com#email:{HASH}", f"ip:192-0-2-91-{'x' * 21}", f"email:eve_at_example-com-{'x' * 13}"])
def test_a_key_that_only_looks_like_a_hash_is_not_in_the_metrics(sent):
    """Whatever form it has: the caller sent it, and /metrics needs no signature."""
    server = Limited(POLICIES)
    try:
        for _ in range(6):
            assert server.post("/v1/allow", {"policy": "table", "key": sent}).status == 200
            server.allow("table", {"ip": "192.0.2.92"})
        body = server.get("/metrics").body.decode()
        assert sent not in body and len(re.findall("gatehouse_limit_(?:hot|denied)_keys{", body)) == 2
        assert sent in server.get("/v1/limits/top").body.decode()
    finally:
        server.close()


# ---- keys that are treated in their own way ----

TREATMENT = """limit: 2, per: day, block: 3600,
    keys: {client-a: {limit: 4}, monitor: unlimited, 10.0.0.0/8: {limit: 3, block: 0}},
    allow: [friend, 192.0.2.0/24],
    deny: [foe, 192.0.2.128/25]"""
LISTED = f"""
limits:
  memory: {{{TREATMENT}}}
  table: {{engine: table, {TREATMENT}}}
"""


@pytest.fixture(scope="module")
def listed():
    made = Limited(LISTED)
    yield made
    made.close()


def passes(server, policy, key, asks=9):
    return sum(server.allow(policy, key)["allowed"] for _ in range(asks))


@pytest.mark.parametrize("engine", ENGINES)
def test_listed_keys_have_their_own_limits(listed, engine):
    assert passes(listed, engine, "client-a") == 4
    assert passes(listed, engine, {"ip": "10.1.2.3"}) == 3  # hashed, and matched by its network
    assert passes(listed, engine, "10.1.2.3") == 3  # another key: this one is in plain
    assert passes(listed, engine, {"ip": "11.1.2.3"}) == 2
    assert passes(listed, engine, "monitor", 50) == 50
    reply = listed.post("/v1/allow", {"policy": engine, "key": "monitor", "cost": 1000})
    assert reply.json()["results"][0] == {"policy": engine, "allowed": True, "limit": 2, "remaining": 2, "reset": 0, "reason": "unlimited"}
    assert "ratelimit" not in reply.headers
    reply = listed.post("/v1/allow", {"policy": engine, "key": "client-a", "cost": 0})
    assert re.fullmatch(rf'"{engine}";q=4;w=86400;pk=:[A-Za-z0-9+/=]+:', reply.headers["ratelimit-policy"])


@pytest.mark.parametrize("engine", ENGINES)
def test_allow_and_deny_lists(listed, engine):
    assert passes(listed, engine, "friend") == passes(listed, engine, {"ip": "192.0.2.1"}) == 9
    assert passes(listed, engine, "foe") == passes(listed, engine, {"ip": "192.0.2.200"}) == 0
    refused = listed.allow(engine, {"ip": "192.0.2.200"}, 0)
    assert not refused["allowed"] and "retry_after" not in refused and refused["results"][0]["reason"] == "deny_list"
    assert listed.post("/v1/allow?enforce=status", {"policy": engine, "key": "foe"}).status == 429
    both = listed.post("/v1/allow", {"all": [{"policy": engine, "key": fresh()}, {"policy": engine, "key": "foe"}]}).json()
    assert not both["allowed"] and [r["remaining"] for r in both["results"]] == [2, 0]
    headers = {"X-Gatehouse-Policy": engine, "X-Gatehouse-Key": "192.0.2.201", "X-Gatehouse-Key-Kind": "ip"}
    assert listed.get("/v1/authz", headers).status == 429


@pytest.mark.parametrize("engine", ENGINES)
def test_a_blocked_key_says_so_until_the_block_ends(listed, engine):
    key = fresh()
    listed.allow(engine, key, 2)
    first = listed.allow(engine, key)
    assert not first["allowed"] and first["retry_after"] >= 3600 and first["results"][0]["reason"] == "blocked"
    for cost in (0, 1, 2):
        again = listed.allow(engine, key, cost)
        assert not again["allowed"] and again["until"] == first["until"]
    assert listed.post("/v1/refund", {"policy": engine, "key": key, "cost": 2}).json()["allowed"]
    assert not listed.allow(engine, key)["allowed"]
    check = {"subject": fresh(), "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "limits": [{"policy": engine, "key": key}]}
    assert listed.post("/v1/check", check).json()["verdict"] == "limited"


def test_a_block_of_the_table_survives_a_restart():
    server = Limited(LISTED)
    try:
        passes(server, "table", "k", 3)
        passes(server, "memory", "k", 3)
        until = server.allow("table", "k")["until"]
        server.halt()
        server.start()
        assert server.allow("table", "k")["until"] == until
        assert server.allow("memory", "k")["allowed"]
    finally:
        server.close()


def test_a_policy_with_listed_keys_can_be_put_and_is_shown_whole():
    server = Limited(None)
    policy = {"limit": 2, "per": "day", "block": 60, "keys": {"a": {"limit": 5}, "b": "unlimited"}, "allow": ["10.0.0.0/8"], "deny": ["x"]}
    try:
        etag = server.get("/v1/policies/limits").headers["etag"]
        put = server.wire.send("PUT", "/v1/policies/limits", json.dumps({"p": policy}).encode(), {"If-Match": etag})
        assert put.status == 200, put.body
        assert passes(server, "p", "a") == 5 and passes(server, "p", {"ip": "10.9.9.9"}) == 9 and passes(server, "p", "x") == 0
        assert '"unlimited"' in server.get("/v1/policies/limits").body.decode()
        bad = {"p": {**policy, "deny": ["10.0.0.0/33"]}}
        etag = server.get("/v1/policies/limits").headers["etag"]
        refused = server.wire.send("PUT", "/v1/policies/limits", json.dumps(bad).encode(), {"If-Match": etag})
        assert refused.status == 422 and refused.json()["field"].endswith("p.deny")
    finally:
        server.close()


# ---- looks, and what is reported ----


@pytest.mark.parametrize("engine", ENGINES)
def test_a_look_at_an_exhausted_limit_says_so(server, engine, key):
    server.allow(engine, key, 5)
    look = server.allow(engine, key, 0)
    assert not look["allowed"] and 0 < look["retry_after"] <= 86400 and look["until"].endswith("T00:00:00Z")
    assert server.post("/v1/allow?enforce=status", {"policy": engine, "key": key, "cost": 0}).status == 429


def test_gcra_reports_the_configured_limit(server, key):
    reply = server.post("/v1/allow", {"policy": "gcra", "key": key})
    result = reply.json()["results"][0]
    assert (result["limit"], result["burst"], result["remaining"]) == (3600, 3, 2)
    assert reply.headers["ratelimit-policy"] == '"gcra";q=3600;w=3600' and ";r=2;" in reply.headers["ratelimit"]


# ---- watching, reloading ----


def test_top_names_hot_and_denied_keys():
    server = Limited(POLICIES)
    try:
        for _ in range(30):
            server.allow("closed", "looked at", 0)  # does not make a key hot
            server.allow("memory", {"ip": "192.0.2.80"})
        server.allow("memory", "seldom")
        top = server.get("/v1/limits/top").json()
        busy = top["hot"][0]["key"]
        assert busy.startswith("memory#ip:") and [entry["key"] for entry in top["hot"]] == [busy, "memory#seldom"]
        assert [entry["key"] for entry in top["denied"]] == [busy]
        assert top["hot"][0]["count"] >= 15 and top["denied"][0]["count"] >= 12  # halved at most once on the way
        assert server.metric(f'gatehouse_limit_hot_keys{{key="{busy}"}}') >= 7
        assert server.metric(f'gatehouse_limit_denied_keys{{key="{busy}"}}') >= 6
        assert len(server.get("/v1/limits/top?max=1").json()["hot"]) == 1
        assert server.get("/v1/limits/top?max=0").status == 422
        assert server.get("/v1/limits/top?max=101").status == 422
    finally:
        server.close()


def test_a_denied_key_of_the_table_is_refused_without_a_write(server, key):
    server.allow("table", key, 5)
    assert not server.allow("table", key)["allowed"]
    before = server.metric('gatehouse_limit_remembered_total{policy="table"}')
    turns = server.metric("gatehouse_batch_requests_count")
    for _ in range(20):
        assert not server.allow("table", key)["allowed"]
    assert server.metric('gatehouse_limit_remembered_total{policy="table"}') - before >= 15  # less if seconds went by
    assert server.metric("gatehouse_batch_requests_count") - turns <= 5


def test_policies_are_read_again_when_the_file_changes():
    server = Limited("limits: {p: {limit: 1, per: day}}")
    try:
        assert server.allow("p", "k")["allowed"] and not server.allow("p", "k")["allowed"]
        server.file.write_text("limits: {p: {limit: 3, per: day}}")
        deadline = time.monotonic() + 30
        while server.allow("p", "k", 0)["results"][0]["limit"] != 3:
            assert time.monotonic() < deadline
        assert server.allow("p", "k", 0)["results"][0]["remaining"] == 2  # what was counted counts on
    finally:
        server.close()


def test_policies_can_be_put():
    server = Limited(None)
    try:
        assert server.allow("login-ip", "k")["allowed"]
        now = server.get("/v1/policies/limits")
        assert now.status == 200 and "login-ip" in now.body.decode()
        put = server.wire.send("PUT", "/v1/policies/limits", as_bytes({"mine": {"limit": 2, "per": "day"}}),
                               {"If-Match": now.headers["etag"]})
        assert put.status == 200, put.body
        assert server.allow("mine", "k", 2)["allowed"] and not server.allow("mine", "k")["allowed"]
        bad = server.wire.send("PUT", "/v1/policies/limits", as_bytes({"mine": {"limit": 0, "per": "day"}}),
                               {"If-Match": put.headers["etag"]})
        assert bad.status == 422 and bad.json()["field"] == "mine.limit"
        server.halt()
        server.start()
        assert server.allow("mine", "k")["results"][0]["limit"] == 2
    finally:
        server.close()


# ---- failing ----


def test_when_the_disk_is_full_open_policies_allow_degraded_and_closed_ones_answer_503():
    server = Limited(POLICIES, "--fault", "disk-full:0")
    try:
        deadline = time.monotonic() + 30
        while not server.allow("table", fresh())["degraded"]:  # until the server has looked at the disk
            assert time.monotonic() < deadline
        reply = server.allow("table", "k")
        assert reply["allowed"] and reply["degraded"] and reply["results"][0]["degraded"]
        closed = server.post("/v1/allow", {"policy": "closed", "key": "k"})
        assert closed.status == 503 and "retry-after" in closed.headers
        mixed = server.post("/v1/allow", {"all": [{"policy": "memory", "key": "k"}, {"policy": "closed", "key": "k"}]})
        assert mixed.status == 503
        assert server.allow("memory", "k", 0)["results"][0]["remaining"] == 5  # nothing was taken
        assert server.allow("memory", "k")["degraded"] is False
        assert server.metric('gatehouse_limit_degraded_total{policy="table"}') >= 1
    finally:
        log = server.halt()
        server.close()
    assert '"level":"warn"' in log and "the limits table failed" in log


# ---- bad input ----

BAD = [
    (b"", 400, ""),
    (b"null", 400, ""),
    (b"[]", 400, ""),
    (b"{", 400, ""),
    (b"{}", 422, "policy"),
    (b'{"policy":"memory"}', 422, "key"),
    (b'{"policy":"nothing","key":"k"}', 422, "policy"),
    (b'{"policy":7,"key":"k"}', 400, "policy"),
    (b'{"policy":"memory","key":""}', 422, "key"),
    (b'{"policy":"memory","key":7}', 400, "key"),
    (b'{"policy":"memory","key":{"ip":"nowhere"}}', 422, "key"),
    (b'{"policy":"memory","key":{"shoe":"43"}}', 422, "key"),
    (b'{"policy":"memory","key":"k","cost":-1}', 422, "cost"),
    (b'{"policy":"memory","key":"k","cost":1000000001}', 422, "cost"),
    (b'{"policy":"memory","key":"k","cost":1.5}', 422, "cost"),
    (b'{"policy":"memory","key":"k","cost":"1"}', 400, "cost"),
    (b'{"policy":"memory","key":"k","burst":1}', 422, "burst"),
    (b'{"policy":"memory","policy":"table","key":"k"}', 400, "policy"),
    (b'{"all":[]}', 422, "all"),
    (b'{"all":{}}', 400, "all"),
    (b'{"all":[7]}', 400, "all[0]"),
    (b'{"all":[{"policy":"memory","key":"k"},{"policy":"memory"}]}', 422, "all[1].key"),
    (b'{"all":[{"policy":"memory","key":"k"},{"policy":"memory","key":"k"}]}', 422, "all[1].key"),
    (b'{"all":[{"policy":"memory","key":"k"}],"policy":"memory"}', 422, "policy"),
]


@pytest.mark.parametrize("path", ["/v1/allow", "/v1/refund"])
@pytest.mark.parametrize("body,status,field", BAD)
def test_bad_input_is_refused_and_named(server, path, body, status, field):
    reply = server.post(path, body)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json().get("field", "") == field


def test_sixteen_limits_in_a_call_pass_and_seventeen_do_not(server):
    asks = [{"policy": "memory", "key": fresh()} for _ in range(17)]
    assert server.post("/v1/allow", {"all": asks[:16]}).json()["allowed"]
    reply = server.post("/v1/allow", {"all": asks})
    assert reply.status == 422 and reply.json()["field"] == "all"


def test_a_key_of_256_bytes_passes_and_a_longer_one_does_not(server):
    assert server.allow("table", "k" * 256)["allowed"]
    assert server.post("/v1/allow", {"policy": "table", "key": "k" * 257}).status == 422


def test_other_methods_are_named(server):
    reply = server.get("/v1/allow")
    assert reply.status == 405 and reply.headers["allow"] == "POST"


# ---- as part of a check ----


def check(server, *limits, subject="nobody", query="", headers=None):
    body = {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "limits": list(limits)}
    return server.post("/v1/check" + query, body, headers)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_check_looks_at_limits_and_takes_nothing(server, engine, key):
    asked = {"policy": engine, "key": key, "cost": 5}
    for _ in range(3):
        answer = check(server, asked).json()
        assert answer["verdict"] == "allow" and "degraded" not in answer
        assert answer["limits"] == [{"policy": engine, "allowed": True, "limit": 5, "remaining": 5, "reset": 0}]
    assert server.allow(engine, key, 5)["allowed"]
    reply = check(server, {"policy": engine, "key": key}, query="?enforce=status")
    answer = reply.json()
    assert reply.status == 429 and answer["verdict"] == "limited" and answer["reason"] == "limit"
    assert answer["actions"]["PASSWORD_ENTRY"]["verdict"] == "allow"
    result = answer["limits"][0]
    assert not result["allowed"] and result["remaining"] == 0 and result["reset"] > 0
    assert (answer["until"], answer["retry_after"]) == (result["until"], result["retry_after"])
    assert reply.headers["retry-after"] == str(answer["retry_after"])


def test_a_check_tells_the_gravest_verdict_and_the_longest_wait(server, key):
    for _ in range(6):
        server.post("/v1/attempts", {"subject": key, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"})
    server.allow("sliding", key, 5)  # of a month
    server.allow("gcra", key, 3)  # of seconds
    both = [{"policy": "sliding", "key": key}, {"policy": "gcra", "key": key}]
    reply = check(server, *both, subject=key, query="?enforce=status")
    answer = reply.json()
    assert reply.status == 423 and answer["verdict"] == "locked" and answer["lock"]["retry_after"] <= 900
    assert answer["retry_after"] == max(answer["lock"]["retry_after"], *(limit.get("retry_after", 0) for limit in answer["limits"]))
    assert answer["until"] == max([answer["lock"]["until"], *(limit.get("until", "") for limit in answer["limits"])])


def test_a_check_tells_of_a_shadow_limit_and_lets_through(server, key):
    server.allow("shadow", key)
    answer = check(server, {"policy": "shadow", "key": key}).json()
    assert answer["verdict"] == "allow" and answer["limits"][0]["shadow"] and not answer["limits"][0]["allowed"]


def test_a_check_is_not_counted_among_the_answers_of_limits(server, key):
    def counted():
        samples = [server.metric(f'gatehouse_limit_answers_total{{policy="memory",outcome="{outcome}"}}') for outcome in ("allowed", "denied")]
        assert None not in samples
        return samples
    server.allow("memory", key, 5)
    before = counted()
    assert check(server, {"policy": "memory", "key": key}).json()["verdict"] == "limited"
    assert check(server, {"policy": "memory", "key": fresh()}).json()["verdict"] == "allow"
    assert counted() == before
    assert server.metric('gatehouse_verdicts_total{journey="SIGN_IN",type="PASSWORD_ENTRY",verdict="limited",source="check"}') >= 1


@pytest.mark.parametrize("limits,status,field", [
    ([], 422, "limits"),
    ({}, 400, "limits"),
    ([7], 400, "limits[0]"),
    ([{"policy": "nothing", "key": "k"}], 422, "limits[0].policy"),
    ([{"policy": "memory", "key": "k"}, {"policy": "memory"}], 422, "limits[1].key"),
    ([{"policy": "memory", "key": "k"}, {"policy": "memory", "key": "k"}], 422, "limits[1].key"),
    ([{"policy": "memory", "key": "k", "cost": -1}], 422, "limits[0].cost"),
    ([{"policy": "memory", "key": "k", "burst": 1}], 422, "limits[0].burst"),
    ([{"policy": "memory", "key": f"k{number}"} for number in range(17)], 422, "limits"),
])
def test_bad_limits_of_a_check_are_refused_and_named(server, limits, status, field):
    body = {"subject": "nobody", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "limits": limits}
    reply = server.post("/v1/check", body)
    assert (reply.status, reply.json()["field"]) == (status, field)


def test_sixteen_limits_in_a_check_pass(server):
    reply = check(server, *({"policy": "memory", "key": fresh()} for _ in range(16)))
    assert reply.status == 200 and len(reply.json()["limits"]) == 16


# ---- who may ----


def bearer_of(server, name, *statements):
    program = os.environ.get("GATEHOUSE_BIN", "build/gatehouse")
    made = subprocess.run([program, "key", "create", name, "--policy", "-", "--data", server.data], text=True,
                          input=json.dumps({"Version": "2012-10-17", "Statement": statements}), capture_output=True, timeout=30)
    assert made.returncode == 0, made.stderr
    key_id, secret = (line.split("=", 1)[1] for line in made.stdout.splitlines()[:2])
    return {"Authorization": f"Bearer {key_id}.{secret}"}


def statement(effect, action, resource):
    return {"Effect": effect, "Action": f"gatehouse:{action}", "Resource": f"arn:aws:gatehouse:*:*:{resource}"}


def test_a_key_checks_only_limits_that_it_may_ask():
    server = Limited(POLICIES, auth=True)
    memory, table = ({"policy": engine, "key": "k"} for engine in ENGINES)
    try:
        bearer = bearer_of(server, "page", statement("Allow", "Check", "*"), statement("Allow", "Allow", "limit/memory"))
        assert check(server, memory, headers=bearer).status == 200
        refused = check(server, memory, table, headers=bearer)
        assert refused.status == 403 and "gatehouse:Allow" in refused.json()["detail"] and "limit/table" in refused.json()["detail"]
        denied = bearer_of(server, "other", statement("Allow", "*", "*"), statement("Deny", "Allow", "limit/table"))
        assert check(server, memory, headers=denied).status == 200
        assert check(server, table, headers=denied).status == 403
        asks_only = bearer_of(server, "proxy", statement("Allow", "Allow", "*"))
        assert check(server, memory, headers=asks_only).status == 403
    finally:
        server.close()


def key_of(server, name, *words):
    """May do everything; (id, secret)."""
    made = subprocess.run([program(), "key", "create", name, "--policy", "-", "--data", server.data, *words], text=True,
                          input=json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}),
                          capture_output=True, timeout=30)
    assert made.returncode == 0, made.stderr
    return tuple(line.split("=", 1)[1] for line in made.stdout.splitlines()[:2])


def bearer(key):
    return {"Authorization": f"Bearer {key[0]}.{key[1]}"}


def test_a_key_over_its_requests_per_second_does_not_pass_a_limit_that_fails_open():
    server = Limited(POLICIES, auth=True)
    try:
        slow, other = key_of(server, "slow", "--max-requests-per-second", "1"), key_of(server, "other")
        answers = [server.post("/v1/allow", {"policy": "table", "key": fresh()}, bearer(slow)) for _ in range(20)]
        assert {each.status for each in answers} == {200, 429} and all(each.headers["retry-after"] for each in answers if each.status == 429)
        answers += [server.post("/v1/allow", {"policy": "table", "key": fresh()}, bearer(other)) for _ in range(20)]
        assert all(each.status == 200 for each in answers[20:]) and not any(each.json()["degraded"] for each in answers if each.status == 200)
        assert not server.metric('gatehouse_limit_degraded_total{policy="table"}')
    finally:
        server.close()


def debtor(server, key):
    """Sends writes that each take more than may wait of those in debt, as fast as they are answered, until `end`."""
    client = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", aws_access_key_id=key[0], aws_secret_access_key=key[1])
    client.create_table(TableName="large", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
                        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}])
    puts = [{"PutRequest": {"Item": {"pk": {"S": str(i)}, "a": {"S": "x" * 350_000}}}} for i in range(14)]
    return Heavy(server, [signed(server, key, "BatchWriteItem", {"RequestItems": {"large": puts}})])


def asked_by(server, key, size=32):
    """Many at the same moment: (status, answer) of each."""
    crowd = Crowd(server.endpoint, size)
    try:
        crowd.send(request_bytes("/v1/allow", {"policy": "table", "key": fresh()}, **bearer(key)))
        return [(int(head.split()[1]), head.lower(), json.loads(body)) for head, body in crowd.answers()]
    finally:
        crowd.close()


@pytest.mark.skipif("GATEHOUSE_ROUGH" in os.environ, reason="a request takes a hundred times as long there, and no debt arises in a minute")
def test_a_key_in_debt_does_not_pass_a_limit_that_fails_open_and_others_do_not_notice():
    server = Limited(POLICIES.replace("limit: 5, per: day, engine: table, near", "limit: 500, per: day, engine: table, near"), "--queue-mb", "16", auth=True)
    writes = None
    try:
        heavy, other = key_of(server, "heavy"), key_of(server, "other")
        writes = debtor(server, heavy)
        seen, deadline = [], time.monotonic() + 60
        while not any(status == 429 for status, _, _ in seen):
            assert time.monotonic() < deadline, len(seen)
            seen += asked_by(server, heavy)
            for status, _, answer in asked_by(server, other):
                assert status == 200 and answer["allowed"] and not answer["degraded"], answer
        for status, head, answer in seen:
            assert status in (200, 429), answer
            assert b"retry-after" in head if status == 429 else answer["allowed"] and not answer["degraded"], answer
        assert not server.metric('gatehouse_limit_degraded_total{policy="table"}')
    finally:
        if writes:
            writes.end()
        server.close()


def test_a_key_may_be_allowed_one_limit_and_no_other():
    server = Limited(POLICIES, auth=True)
    try:
        bearer = bearer_of(server, "proxy", statement("Allow", "Allow", "limit/memory"))
        assert server.post("/v1/allow", {"policy": "memory", "key": "k"}, bearer).status == 200
        assert server.post("/v1/allow", {"policy": "table", "key": "k"}, bearer).status == 403
        both = {"all": [{"policy": "memory", "key": "k"}, {"policy": "table", "key": "k"}]}
        assert server.post("/v1/allow", both, bearer).status == 403
        assert server.post("/v1/refund", {"policy": "memory", "key": "k"}, bearer).status == 403
        assert server.post("/v1/allow", {"policy": "memory", "key": "k"}).status == 401
        assert server.post("/v1/allow", {"policy": "memory", "key": "k", "cost": 0}, bearer).json()["results"][0]["remaining"] == 4
    finally:
        server.close()
