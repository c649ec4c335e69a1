"""Consumed capacity, as DynamoDB counts it: 4 KB a read unit (half if not consistent), 1 KB a write unit,
transactions twice, every index for itself."""

import pytest

from conftest import index
from helpers import get, n, put_many, s

KB = 1024


@pytest.fixture(scope="module")
def indexed(module_tables):
    return module_tables.make(
        "pk:S",
        "sk:S",
        hint="capacity",
        gsi=[index("all", "g:S"), index("keys", "g:S", projection="KEYS_ONLY")],
        lsi=[index("local", "pk:S", "l:S")],
    )


def item_of(key, total):
    """An item of exactly `total` bytes: names and values."""
    used = len("pk") + len(key) + len("v")
    return {"pk": s(key), "v": s("x" * (total - used))}


def units(answer):
    return answer["ConsumedCapacity"]["CapacityUnits"]


TOTAL = {"ReturnConsumedCapacity": "TOTAL"}
INDEXES = {"ReturnConsumedCapacity": "INDEXES"}


@pytest.mark.parametrize(
    ("size", "consistent", "expected"),
    [
        (100, True, 1.0),
        (100, False, 0.5),
        (4 * KB, True, 1.0),
        (4 * KB, False, 0.5),
        (4 * KB + 1, True, 2.0),
        (4 * KB + 1, False, 1.0),
        (40 * KB, True, 10.0),
        (40 * KB + 1, False, 5.5),
    ],
)
def test_a_get_costs_a_unit_for_each_4_kb(ddb, table, key, size, consistent, expected):
    ddb.put_item(TableName=table, Item=item_of(key, size))
    request = {"TableName": table, "Key": {"pk": s(key)}, "ConsistentRead": consistent}
    assert units(ddb.get_item(**request, **TOTAL)) == expected
    projected = ddb.get_item(**request, **TOTAL, ProjectionExpression="pk")
    assert units(projected) == expected, "a projection saves nothing"
    assert "ConsumedCapacity" not in ddb.get_item(**request)


def test_reading_what_is_absent_costs_the_least(ddb, table, key):
    request = {"TableName": table, "Key": {"pk": s(key)}, **TOTAL}
    assert units(ddb.get_item(**request)) == 0.5
    assert units(ddb.get_item(**request, ConsistentRead=True)) == 1.0


@pytest.mark.parametrize(
    ("size", "expected"), [(100, 1.0), (KB, 1.0), (KB + 1, 2.0), (10 * KB, 10.0), (10 * KB + 1, 11.0)]
)
def test_a_write_costs_a_unit_for_each_kb(ddb, table, key, size, expected):
    assert units(ddb.put_item(TableName=table, Item=item_of(key, size), **TOTAL)) == expected
    assert units(ddb.delete_item(TableName=table, Key={"pk": s(key)}, **TOTAL)) == expected
    assert units(ddb.delete_item(TableName=table, Key={"pk": s(key)}, **TOTAL)) == 1.0


def test_an_overwrite_costs_the_larger_of_old_and_new(ddb, table, key):
    ddb.put_item(TableName=table, Item=item_of(key, 5 * KB))
    assert units(ddb.put_item(TableName=table, Item=item_of(key, 100), **TOTAL)) == 5.0
    grown = {"UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": s("x" * 3 * KB)}}
    assert units(ddb.update_item(TableName=table, Key={"pk": s(key)}, **grown, **TOTAL)) == 4.0


def test_numbers_and_documents_have_dynamodb_sizes(ddb, table, key):
    """A number takes a byte for two digits and one more; a list or map three, and one for each member."""
    text = "x" * (KB - len("pk") - len(key) - len("v") - len("n") - 3)
    item = {"pk": s(key), "v": s(text), "n": n(1234)}
    assert units(ddb.put_item(TableName=table, Item=item, **TOTAL)) == 1.0
    item["v"] = s(text + "xx")
    assert units(ddb.put_item(TableName=table, Item=item, **TOTAL)) == 2.0


def test_a_batch_adds_up_item_by_item(ddb, table, pairs, key):
    request = {
        table: [{"PutRequest": {"Item": item_of(f"{key}{i}", KB + 1)}} for i in range(3)],
        pairs: [{"PutRequest": {"Item": {"pk": s(key), "sk": s("x")}}}],
    }
    answer = ddb.batch_write_item(RequestItems=request, **TOTAL)
    assert {c["TableName"]: c["CapacityUnits"] for c in answer["ConsumedCapacity"]} == {table: 6.0, pairs: 1.0}
    keys = [{"pk": s(f"{key}{i}")} for i in range(4)]
    answer = ddb.batch_get_item(RequestItems={table: {"Keys": keys}}, **TOTAL)
    assert [c["CapacityUnits"] for c in answer["ConsumedCapacity"]] == [2.0]
    answer = ddb.batch_get_item(RequestItems={table: {"Keys": keys, "ConsistentRead": True}}, **TOTAL)
    assert [c["CapacityUnits"] for c in answer["ConsumedCapacity"]] == [4.0]


def test_transactions_cost_twice(ddb, table, key):
    actions = [{"Put": {"TableName": table, "Item": item_of(f"{key}{i}", KB + 1)}} for i in range(2)]
    answer = ddb.transact_write_items(TransactItems=actions, **TOTAL)
    (spent,) = answer["ConsumedCapacity"]
    assert (spent["TableName"], spent["CapacityUnits"]) == (table, 8.0)
    ddb.put_item(TableName=table, Item=item_of(f"{key}big", 4 * KB + 1))
    gets = [{"Get": {"TableName": table, "Key": {"pk": s(key + suffix)}}} for suffix in ("0", "big")]
    (spent,) = ddb.transact_get_items(TransactItems=gets, **TOTAL)["ConsumedCapacity"]
    assert spent["CapacityUnits"] == 6.0


def test_a_query_is_rounded_once_for_the_whole_page(ddb, pairs, key):
    put_many(ddb, pairs, [{"pk": s(key), "sk": s(f"{i}"), "v": s("x" * 1000)} for i in range(10)])
    request = {
        "TableName": pairs,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": s(key)},
        **TOTAL,
    }
    # Ten items of a little more than 1000 bytes: three units of 4 KB.
    assert units(ddb.query(**request, ConsistentRead=True)) == 3.0
    assert units(ddb.query(**request)) == 1.5
    filtered = {**request, "FilterExpression": "attribute_not_exists(v)"}
    assert units(ddb.query(**filtered)) == 1.5, "what a filter drops was still read"
    assert units(ddb.query(**{**request, "ExpressionAttributeValues": {":pk": s("nobody")}})) == 0.5


def test_indexes_are_counted_one_by_one(ddb, indexed, key):
    item = {"pk": s(key), "sk": s("1"), "g": s("g"), "l": s("l"), "v": s("x" * 1500)}
    spent = ddb.put_item(TableName=indexed, Item=item, **INDEXES)["ConsumedCapacity"]
    assert spent["TableName"] == indexed
    assert spent["Table"]["CapacityUnits"] == 2.0
    assert {k: v["CapacityUnits"] for k, v in spent["GlobalSecondaryIndexes"].items()} == {"all": 2.0, "keys": 1.0}
    assert {k: v["CapacityUnits"] for k, v in spent["LocalSecondaryIndexes"].items()} == {"local": 2.0}
    assert spent["CapacityUnits"] == 7.0
    total = ddb.put_item(TableName=indexed, Item={**item, "sk": s("2")}, **TOTAL)["ConsumedCapacity"]
    assert total["CapacityUnits"] == 7.0 and "Table" not in total


def test_an_item_in_no_index_costs_the_table_only(ddb, indexed, key):
    item = {"pk": s(key), "sk": s("1")}
    spent = ddb.put_item(TableName=indexed, Item=item, **INDEXES)["ConsumedCapacity"]
    assert spent["CapacityUnits"] == 1.0 and spent["Table"]["CapacityUnits"] == 1.0
    assert not spent.get("GlobalSecondaryIndexes") and not spent.get("LocalSecondaryIndexes")


def test_a_changed_index_key_costs_a_delete_and_a_put(ddb, indexed, key):
    row = {"pk": s(key), "sk": s("1")}
    ddb.put_item(TableName=indexed, Item={**row, "g": s("one")})
    spent = ddb.update_item(
        TableName=indexed,
        Key=row,
        UpdateExpression="SET g = :g",
        ExpressionAttributeValues={":g": s("two")},
        **INDEXES,
    )["ConsumedCapacity"]
    assert {k: v["CapacityUnits"] for k, v in spent["GlobalSecondaryIndexes"].items()} == {"all": 2.0, "keys": 2.0}
    assert spent["CapacityUnits"] == 5.0


def test_a_change_outside_an_index_costs_it_nothing(ddb, indexed, key):
    row = {"pk": s(key), "sk": s("1")}
    ddb.put_item(TableName=indexed, Item={**row, "g": s("one")})
    spent = ddb.update_item(
        TableName=indexed,
        Key=row,
        UpdateExpression="SET extra = :o",
        ExpressionAttributeValues={":o": s("two")},
        **INDEXES,
    )["ConsumedCapacity"]
    assert {k: v["CapacityUnits"] for k, v in spent["GlobalSecondaryIndexes"].items()} == {"all": 1.0}
    assert spent["CapacityUnits"] == 2.0


def test_reading_an_index_is_counted_for_the_index(ddb, indexed, key):
    ddb.put_item(TableName=indexed, Item={"pk": s(key), "sk": s("1"), "g": s(key), "v": s("x" * 5000)})
    request = {
        "TableName": indexed,
        "KeyConditionExpression": "g = :g",
        "ExpressionAttributeValues": {":g": s(key)},
        **INDEXES,
    }
    spent = ddb.query(**request, IndexName="all")["ConsumedCapacity"]
    assert spent["CapacityUnits"] == 1.0
    assert spent["GlobalSecondaryIndexes"]["all"]["CapacityUnits"] == 1.0
    assert spent["Table"]["CapacityUnits"] == 0.0
    spent = ddb.query(**request, IndexName="keys")["ConsumedCapacity"]
    assert spent["CapacityUnits"] == 0.5


def test_item_collection_metrics_are_given_where_there_is_a_local_index(ddb, indexed, table, key):
    request = {"ReturnItemCollectionMetrics": "SIZE"}
    answer = ddb.put_item(TableName=indexed, Item={"pk": s(key), "sk": s("1")}, **request)
    metrics = answer["ItemCollectionMetrics"]
    assert metrics["ItemCollectionKey"] == {"pk": s(key)}
    low, high = metrics["SizeEstimateRangeGB"]
    assert 0 <= low <= high <= 1
    answer = ddb.put_item(TableName=table, Item={"pk": s(key)}, **request)
    assert "ItemCollectionMetrics" not in answer


def test_a_failed_condition_writes_nothing(ddb, table, key):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1)})
    with pytest.raises(ddb.exceptions.ConditionalCheckFailedException):
        ddb.put_item(TableName=table, Item={"pk": s(key)}, ConditionExpression="attribute_not_exists(pk)", **TOTAL)
    assert get(ddb, table, pk=s(key))["v"] == n(1)


def test_an_unknown_kind_of_report_is_refused(ddb, table, key):
    with pytest.raises(ddb.exceptions.ClientError) as caught:
        ddb.put_item(TableName=table, Item={"pk": s(key)}, ReturnConsumedCapacity="SOME")
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    assert get(ddb, table, pk=s(key)) is None
