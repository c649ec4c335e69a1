"""Time to live: switching it on and off, and Gatehouse's own promise about it.

DynamoDB removes an expired item within days and shows it until then. Gatehouse treats it as absent from the very
second, on every path: that is its documented difference, and the tests of it are skipped at other endpoints.
"""

import time

import pytest
from botocore.exceptions import ClientError

from conftest import index
from helpers import all_items, condition_failed, get, n, refused, s, strings

LONG_AGO_S = 6 * 366 * 24 * 3600


def switch(ddb, table, on=True, attribute="ttl"):
    spec = {"Enabled": on, "AttributeName": attribute}
    return ddb.update_time_to_live(TableName=table, TimeToLiveSpecification=spec)["TimeToLiveSpecification"]


def status(ddb, table):
    return ddb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]


def test_it_is_off_until_switched_on_and_can_be_switched_off(ddb, tables):
    table = tables.make("pk:S")
    assert status(ddb, table) == {"TimeToLiveStatus": "DISABLED"}
    assert switch(ddb, table) == {"Enabled": True, "AttributeName": "ttl"}
    described = status(ddb, table)
    assert described["TimeToLiveStatus"] in ("ENABLED", "ENABLING") and described["AttributeName"] == "ttl"
    assert switch(ddb, table, on=False) == {"Enabled": False, "AttributeName": "ttl"}
    assert status(ddb, table)["TimeToLiveStatus"] in ("DISABLED", "DISABLING")


def test_it_cannot_be_switched_on_twice_or_off_when_off(ddb, tables):
    table = tables.make("pk:S")
    with refused("ValidationException", "TimeToLive is already disabled"):
        switch(ddb, table, on=False)
    switch(ddb, table)
    with refused("ValidationException", "TimeToLive is already enabled"):
        switch(ddb, table)
    assert status(ddb, table)["AttributeName"] == "ttl"


def test_another_attribute_needs_it_switched_off_first(ddb, tables):
    table = tables.make("pk:S")
    switch(ddb, table)
    with refused("ValidationException"):
        switch(ddb, table, attribute="other")
    with refused("ValidationException"):
        switch(ddb, table, on=False, attribute="other")
    assert status(ddb, table)["AttributeName"] == "ttl"


@pytest.mark.parametrize("name", ["", "x" * 256], ids=["empty", "long"])
def test_an_attribute_name_has_1_to_255_bytes(ddb, tables, name):
    with refused("ValidationException"):
        switch(ddb, tables.make("pk:S"), attribute=name)


def test_a_table_that_is_not_there_has_none(ddb):
    for call in (lambda: switch(ddb, "e2e.not-there"), lambda: status(ddb, "e2e.not-there")):
        with refused("ResourceNotFoundException"):
            call()


# ---- what only Gatehouse does ----

GATEHOUSE = pytest.mark.gatehouse_only


@pytest.fixture(scope="module")
def expiring(ddb, module_tables):
    table = module_tables.make(
        "pk:S",
        "sk:S",
        hint="expiring",
        gsi=[index("by-g", "g:S")],
        lsi=[index("by-l", "pk:S", "l:S")],
    )
    switch(ddb, table)
    return table


def row(key, sk, expires, **more):
    return {"pk": s(key), "sk": s(sk), "g": s(key), "l": s(sk), "ttl": n(expires), **more}


@pytest.fixture
def mixed(ddb, expiring, key):
    """Two live items and two expired ones under the same hash key."""
    now = int(time.time())
    for sk, expires in (("a-dead", now - 10), ("b-live", now + 1000), ("c-dead", now - 1), ("d-live", now + 1000)):
        ddb.put_item(TableName=expiring, Item=row(key, sk, expires, c=n(5)))
    return key


@GATEHOUSE
def test_an_expired_item_is_absent_on_get(ddb, expiring, mixed):
    assert get(ddb, expiring, pk=s(mixed), sk=s("a-dead")) is None
    assert get(ddb, expiring, pk=s(mixed), sk=s("b-live")) is not None


@GATEHOUSE
@pytest.mark.parametrize("index_name", [None, "by-g", "by-l"])
def test_an_expired_item_is_absent_on_query(ddb, expiring, mixed, index_name):
    attribute = "g" if index_name == "by-g" else "pk"
    request = {
        "TableName": expiring,
        "KeyConditionExpression": f"{attribute} = :k",
        "ExpressionAttributeValues": {":k": s(mixed)},
        **({"IndexName": index_name} if index_name else {}),
    }
    assert sorted(strings(all_items(ddb.query, **request), "sk")) == ["b-live", "d-live"]
    assert sorted(strings(all_items(ddb.query, **request, Limit=1), "sk")) == ["b-live", "d-live"]
    assert ddb.query(**request, Select="COUNT")["Count"] == 2


@GATEHOUSE
@pytest.mark.parametrize("index_name", [None, "by-g", "by-l"])
def test_an_expired_item_is_absent_on_scan(ddb, expiring, mixed, index_name):
    request = {"IndexName": index_name} if index_name else {}
    items = all_items(ddb.scan, TableName=expiring, **request)
    assert sorted(item["sk"]["S"] for item in items if item["pk"] == s(mixed)) == ["b-live", "d-live"]


@GATEHOUSE
def test_an_expired_item_is_absent_in_batches_and_transactions(ddb, expiring, mixed):
    keys = [{"pk": s(mixed), "sk": s(sk)} for sk in ("a-dead", "b-live")]
    answer = ddb.batch_get_item(RequestItems={expiring: {"Keys": keys}})
    assert strings(answer["Responses"][expiring], "sk") == ["b-live"]
    answer = ddb.transact_get_items(TransactItems=[{"Get": {"TableName": expiring, "Key": key}} for key in keys])
    assert "Item" not in answer["Responses"][0] and "Item" in answer["Responses"][1]


@GATEHOUSE
def test_an_expired_item_is_absent_to_conditions(ddb, expiring, mixed):
    key = {"pk": s(mixed), "sk": s("a-dead")}
    with condition_failed():
        ddb.delete_item(TableName=expiring, Key=key, ConditionExpression="attribute_exists(pk)")
    with condition_failed():
        ddb.put_item(
            TableName=expiring,
            Item=key,
            ConditionExpression="c = :c",
            ExpressionAttributeValues={":c": n(5)},
        )
    fresh = {**key, "c": n(1)}
    ddb.put_item(TableName=expiring, Item=fresh, ConditionExpression="attribute_not_exists(pk)")
    assert get(ddb, expiring, **key) == fresh


@GATEHOUSE
def test_an_expired_item_is_absent_to_conditions_in_a_transaction(ddb, expiring, mixed):
    key = {"pk": s(mixed), "sk": s("c-dead")}
    check = {"TableName": expiring, "Key": key, "ConditionExpression": "attribute_exists(pk)"}
    with pytest.raises(ClientError) as caught:
        ddb.transact_write_items(TransactItems=[{"ConditionCheck": check}])
    assert caught.value.response["CancellationReasons"][0]["Code"] == "ConditionalCheckFailed"
    put = {"TableName": expiring, "Item": key, "ConditionExpression": "attribute_not_exists(pk)"}
    ddb.transact_write_items(TransactItems=[{"Put": put}])
    assert get(ddb, expiring, **key) == key


@GATEHOUSE
def test_a_counter_starts_again_from_zero(ddb, expiring, mixed):
    later = int(time.time()) + 1000
    answer = ddb.update_item(
        TableName=expiring,
        Key={"pk": s(mixed), "sk": s("a-dead")},
        UpdateExpression="ADD c :one SET #t = :t",
        ExpressionAttributeNames={"#t": "ttl"},
        ExpressionAttributeValues={":one": n(1), ":t": n(later)},
        ReturnValues="ALL_NEW",
    )
    assert answer["Attributes"] == {"pk": s(mixed), "sk": s("a-dead"), "c": n(1), "ttl": n(later)}


@GATEHOUSE
def test_old_values_of_an_expired_item_are_not_returned(ddb, expiring, mixed):
    key = {"pk": s(mixed), "sk": s("a-dead")}
    assert "Attributes" not in ddb.put_item(TableName=expiring, Item=key, ReturnValues="ALL_OLD")
    key = {"pk": s(mixed), "sk": s("c-dead")}
    assert "Attributes" not in ddb.delete_item(TableName=expiring, Key=key, ReturnValues="ALL_OLD")


@GATEHOUSE
def test_an_item_goes_at_its_second_and_not_before(ddb, expiring, key):
    expires = int(time.time()) + 2
    ddb.put_item(TableName=expiring, Item=row(key, "soon", expires))
    asked = time.time()  # on a busy machine an answer may come late
    while get(ddb, expiring, pk=s(key), sk=s("soon")) is not None:
        assert asked < expires + 1, "the item outlived its second"
        asked = time.time()
    assert time.time() >= expires, "the item went before its second"


@GATEHOUSE
@pytest.mark.parametrize(
    "value",
    [s("0"), {"L": []}, {"BOOL": True}, n(-1), n(0), n(10), n(int(time.time()) - LONG_AGO_S)],
    ids=["string", "list", "bool", "negative", "zero", "tiny", "six_years_ago"],
)
def test_what_is_no_recent_time_does_not_expire(ddb, expiring, key, value):
    """DynamoDB leaves alone what lies more than five years back, and what is no number."""
    item = {"pk": s(key), "sk": s("x"), "ttl": value}
    ddb.put_item(TableName=expiring, Item=item)
    assert get(ddb, expiring, pk=s(key), sk=s("x")) == item


@GATEHOUSE
def test_without_time_to_live_nothing_expires(ddb, tables):
    table = tables.make("pk:S")
    item = {"pk": s("a"), "ttl": n(int(time.time()) - 10)}
    ddb.put_item(TableName=table, Item=item)
    assert get(ddb, table, pk=s("a")) == item
    switch(ddb, table)
    assert get(ddb, table, pk=s("a")) is None
