"""Limits that calls bring along (`limit`, `per`): a first call needs no policy; what policies and keys may bound; what is refused."""

import shutil
import uuid

import pytest
from conftest import stop
from test_access import Guarded
from test_v1_access import call, policy
from v1 import Server

pytestmark = pytest.mark.gatehouse_only

POLICIES = """limits:
  memory: {algorithm: fixed, limit: 5, per: day, inline: {limit: 1000, per: day}, keys: {listed: {limit: 1}}, deny: [foe]}
  table: {algorithm: fixed, limit: 5, per: day, engine: table, inline: {limit: 1000, per: month}}
  shards: {algorithm: fixed, limit: 8, per: day, engine: table, shards: 4, inline: {}}
  burst: {algorithm: gcra, limit: 5, per: day, burst: 2, inline: {}}
  plain: {limit: 5, per: day}
"""


@pytest.fixture(scope="module")
def shipped():
    one = Server()
    yield one.v1
    one.close()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    path = tmp_path_factory.mktemp("inline") / "policies.yaml"
    path.write_text(POLICIES)
    one = Server("--policies", str(path))
    yield one.v1
    one.close()


@pytest.fixture
def key():
    return uuid.uuid4().hex


def passed(v1, asks=12, **body):
    replies = [v1.post("/v1/allow", body) for _ in range(asks)]
    assert all(reply.status == 200 for reply in replies), replies[0].body
    return sum(reply.json()["allowed"] for reply in replies)


def test_a_first_call_needs_no_policy(shipped, key):
    answer = shipped.post("/v1/allow", {"key": key, "limit": 3, "per": "day"}).json()
    assert answer["allowed"] and answer["results"][0]["policy"] == "custom"
    assert (answer["results"][0]["limit"], answer["results"][0]["remaining"]) == (3, 2)
    assert passed(shipped, key=key, limit=3, per="day") == 2
    assert passed(shipped, key={"ip": "192.0.2.9"}, limit=2, per="day") == 2


@pytest.mark.parametrize("name", ["memory", "table", "shards", "burst"])
def test_each_limit_of_a_key_has_a_count_of_its_own(own, key, name):
    assert passed(own, policy=name, key=key, limit=4, per="day") == 4
    assert passed(own, policy=name, key=key, limit=6, per="day") == 6
    assert passed(own, policy=name, key=key, limit=4, per=86400) == 0  # the same as a day
    assert own.post("/v1/refund", {"policy": name, "key": key, "limit": 4, "per": "day"}).status == 200
    assert passed(own, policy=name, key=key, limit=4, per="day") == 1
    # Without one it is the policy's, and a key that looks like another's state is not it.
    assert passed(own, policy=name, key=key) == {"memory": 5, "table": 5, "shards": 8, "burst": 2}[name]
    assert passed(own, policy=name, key=f"4/86400#{key}", limit=4) == 4


def test_several_limits_of_one_key_are_all_or_nothing(own, key):
    both = {"all": [{"policy": "memory", "key": key, "limit": 2, "per": "day"}, {"policy": "table", "key": key, "limit": 9, "per": "day"}]}
    assert [own.post("/v1/allow", both).json()["allowed"] for _ in range(3)] == [True, True, False]
    assert passed(own, policy="table", key=key, limit=9, per="day") == 7
    same = [{"policy": "memory", "key": key, "limit": n, "per": "day"} for n in (50, 60)]
    assert own.post("/v1/allow", {"all": same}).json()["allowed"]


def test_what_a_policy_lists_goes_before_what_a_call_brings(own):
    assert passed(own, policy="memory", key="listed", limit=900, per="day") == 1
    assert passed(own, policy="memory", key="listed", limit=800, per="day") == 0
    assert own.post("/v1/allow", {"policy": "memory", "key": "foe", "limit": 9}).json()["results"][0]["reason"] == "deny_list"


def test_a_check_looks_at_it_and_top_shows_it(own, key):
    limit = {"policy": "memory", "key": key, "limit": 1, "per": "day"}
    body = {"subject": "s", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"], "limits": [limit]}
    assert own.post("/v1/check", body).json()["verdict"] == "allow"
    assert own.post("/v1/allow", limit).json()["allowed"]
    assert own.post("/v1/check", body).json()["verdict"] == "limited"
    assert f"memory#1/86400#{key}" in [one["key"] for one in own.send("GET", "/v1/limits/top?max=100").json()["hot"]]


@pytest.mark.parametrize("body, field", [
    ({"policy": "plain", "limit": 3}, "limit"),
    ({"policy": "plain", "per": "day"}, "per"),
    ({"policy": "memory", "per": "day"}, "limit"),
    ({"policy": "memory", "limit": 1001}, "limit"),
    ({"policy": "memory", "limit": 0}, "limit"),
    ({"policy": "memory", "limit": 1.5}, "limit"),
    ({"policy": "memory", "limit": "3"}, "limit"),
    ({"policy": "memory", "limit": 3, "per": 86401}, "per"),
    ({"policy": "memory", "limit": 3, "per": "month"}, "per"),
    ({"policy": "memory", "limit": 3, "per": "fortnight"}, "per"),
    ({"policy": "memory", "limit": 3, "burst": 3}, "burst"),
    ({"policy": "shards", "limit": 3}, "limit"),
    ({"limit": 3, "per": "day"}, "policy"),  # these policies have none that is called custom
    ({"per": "day"}, "policy"),
])
def test_what_is_refused_names_its_field(own, key, body, field):
    for path in ("/v1/allow", "/v1/refund"):
        reply = own.post(path, {"key": key, **body})
        assert reply.status in (400, 422) and reply.json()["field"] == field, reply.body
    listed = own.post("/v1/allow", {"all": [{"key": key, **body}]})
    assert listed.json()["field"] == f"all[0].{field}", listed.body


def test_the_longest_and_the_highest_are_accepted(own, key):
    assert passed(own, 1, policy="memory", key=key, limit=1000, per=86400) == 1
    assert passed(own, 1, policy="table", key=key, limit=1000, per="month") == 1


def test_an_access_key_needs_the_policy_that_it_uses():
    guarded = Guarded()
    try:
        arn = "arn:aws:gatehouse:*:*:limit/"
        one = guarded.make("one", policy({"Effect": "Allow", "Action": "gatehouse:Allow", "Resource": arn + "login-ip"}))
        both = guarded.make("both", policy({"Effect": "Allow", "Action": "gatehouse:Allow", "Resource": [arn + "login-ip", arn + "custom"]}))
        for body in ({"key": "k", "limit": 3}, {"all": [{"key": "k", "limit": 3}]}, {"policy": "custom", "key": "k", "limit": 3}):
            assert call(guarded, one, "POST", "/v1/allow", body)[0] == 403, body
            assert call(guarded, both, "POST", "/v1/allow", body)[0] == 200, body
        assert call(guarded, one, "POST", "/v1/allow", {"policy": "login-ip", "key": "k"})[0] == 200
    finally:
        stop(guarded.process)
        shutil.rmtree(guarded.data, ignore_errors=True)
