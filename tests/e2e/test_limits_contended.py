"""Rate limits at an endpoint that refuses as AWS documents, asked by 64 clients at once, over two processes: what passes is the limit, and no more. To lose a race is no
failure of the table, so `on_failure: open` lets nobody pass for it."""

import http.client
import json
import threading
import time
import uuid
from urllib.parse import urlsplit

import boto3
import pytest

from aws_like import AwsLike
from outages import PATIENCE_S, Server
from test_engine_dynamodb import dynoxide  # noqa: F401: a fixture

pytestmark = pytest.mark.gatehouse_only

CLIENTS, LIMIT, EACH = 64, 60, 4
POLICIES = f"""
limits:
  fixed: {{limit: {LIMIT}, per: day, engine: table, algorithm: fixed}}
  sliding: {{limit: {LIMIT}, per: day, engine: table, algorithm: sliding}}
  gcra: {{limit: {LIMIT}, per: day, burst: {LIMIT}, engine: table, algorithm: gcra}}
"""


@pytest.fixture(scope="module")
def world(dynoxide):  # noqa: F811
    """(proxy, two servers)"""
    proxy = AwsLike(dynoxide, delay_us=1000)
    words = ("--table-prefix", f"limits-{uuid.uuid4().hex[:6]}-", "--endpoint-attempt-ms", "2000", "--endpoint-call-ms", "8000", "--workers", "64")
    servers = [Server(proxy.url, *words, policies=POLICIES)]
    servers.append(Server(proxy.url, *words, policies=POLICIES, like=servers[0]))
    for name in ("fixed", "sliding", "gcra"):
        servers[0].call("/v1/allow", {"policy": name, "key": "first"})
    yield proxy, servers
    for server in servers:
        server.close()
    proxy.close()


def ask_all(servers, policy, key):
    """Each client asks EACH times, over one connection. [(status, answer)]"""
    answers, wrong, barrier = [], [], threading.Barrier(CLIENTS)
    body = json.dumps({"policy": policy, "key": key})

    def client(n):
        try:
            line = http.client.HTTPConnection(urlsplit(servers[n % len(servers)].base).netloc, timeout=PATIENCE_S)
            barrier.wait(PATIENCE_S)
            for _ in range(EACH):
                line.request("POST", "/v1/allow", body)
                reply = line.getresponse()
                answers.append((reply.status, json.loads(reply.read())))
            line.close()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong, wrong
    return answers


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_what_passes_is_the_limit(world, policy, processes):
    _, servers = world
    answers = ask_all(servers[:processes], policy, f"{policy}-{processes}-{time.time()}")
    passed = [answer for status, answer in answers if status == 200 and answer["allowed"]]
    assert not any(answer["degraded"] for answer in passed)
    assert len(passed) == LIMIT, (len(passed), sum(status != 200 for status, _ in answers))
    assert {status for status, _ in answers} <= {200, 503}


def operations(proxy):
    return {name: n["requests"] for name, n in proxy.counted()["operations"].items()}


@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_a_key_that_is_known_takes_one_request_and_no_transaction(world, policy):
    proxy, servers = world
    key = uuid.uuid4().hex
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    before = operations(proxy)
    for _ in range(5):
        assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    now = operations(proxy)
    spent = {name: count - before.get(name, 0) for name, count in now.items() if count != before.get(name, 0)}
    writes = sum(spent.get(name, 0) for name in ("UpdateItem", "PutItem"))
    assert writes == 5 and spent.get("TransactWriteItems", 0) == spent.get("GetItem", 0) == spent.get("TransactGetItems", 0) == 0, spent


@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_what_another_process_took_counts_at_once(world, policy):
    _, servers = world
    key = uuid.uuid4().hex
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    assert servers[1].call("/v1/allow", {"policy": policy, "key": key, "cost": LIMIT - 2})[1]["allowed"]
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key, "cost": 2})[1]["allowed"] is False
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    assert servers[1].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"] is False


@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_a_transaction_is_not_decided_on_what_was_last_known_for_ever(world, policy):
    """With an Idempotency-Key, or several limits, a call is a transaction, which does not tell what the row is now."""
    _, servers = world
    key = uuid.uuid4().hex
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    for n in range(2):
        assert servers[1].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
        status, answer, _ = servers[0].call("/v1/allow", {"policy": policy, "key": key}, Idempotency_Key=uuid.uuid4().hex)
        assert (status, answer.get("allowed")) == (200, True), answer
        assert servers[1].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
        status, answer, _ = servers[0].call("/v1/allow", {"all": [{"policy": policy, "key": key}, {"policy": policy, "key": key + "-"}]})
        assert (status, answer.get("allowed")) == (200, True), answer
        assert servers[1].call("/v1/refund", {"policy": policy, "key": key})[0] == 200
        assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["results"][0]["remaining"] == LIMIT - 1 - 4 * (n + 1)


@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_a_row_that_was_removed_by_hand_begins_again(world, policy):
    proxy, servers = world
    key = uuid.uuid4().hex
    for _ in range(3):
        assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["allowed"]
    ddb = boto3.client("dynamodb", endpoint_url=proxy.url, region_name="eu-west-1", aws_access_key_id="any", aws_secret_access_key="any")
    table = next(name for name in ddb.list_tables()["TableNames"] if name.startswith(servers[0].words[1]) and name.endswith("rate-limits"))
    row = next(item for item in ddb.scan(TableName=table)["Items"] if item["PK"]["S"].endswith(key))
    ddb.delete_item(TableName=table, Key={"PK": row["PK"]})
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["results"][0]["remaining"] == LIMIT - 1


@pytest.mark.parametrize("policy", ["fixed", "sliding", "gcra"])
def test_a_lost_answer_costs_one_unit(world, policy):
    """The write was done, and its answer did not arrive: the row says whose it is."""
    proxy, servers = world
    key = uuid.uuid4().hex
    assert servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]["results"][0]["remaining"] == LIMIT - 1
    proxy.set(lose={"UpdateItem": 1, "PutItem": 1})
    answer = servers[0].call("/v1/allow", {"policy": policy, "key": key})[1]
    proxy.set(lose={"UpdateItem": 0, "PutItem": 0})
    assert answer["allowed"] and not answer["degraded"], answer
    look = servers[1].call("/v1/allow", {"policy": policy, "key": key, "cost": 0})[1]
    assert look["results"][0]["remaining"] == LIMIT - 2, look
