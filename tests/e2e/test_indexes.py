"""Secondary indexes, local and global: what they hold, how they are read, and adding and removing them later."""

import time

import pytest

from conftest import index, wait_for
from helpers import all_items, get, invalid, n, put_many, refused, s, strings

BACKFILL_S = 30


@pytest.fixture(scope="module")
def people(ddb, module_tables):
    """pk, sk, and indexes of each kind and each projection."""
    table = module_tables.make(
        "pk:S",
        "sk:S",
        hint="people",
        lsi=[
            index("by-age", "pk:S", "age:N"),
            index("by-age-keys", "pk:S", "age:N", projection="KEYS_ONLY"),
        ],
        gsi=[
            index("by-city", "city:S", "age:N"),
            index("by-city-keys", "city:S", projection="KEYS_ONLY"),
            index("by-city-some", "city:S", projection="INCLUDE", include=["name"]),
        ],
    )
    rows = [("1", "Bern", 30), ("2", "Bern", 20), ("3", "Oslo", 40), ("4", None, 10), ("5", "Bern", None)]
    for sk, city, age in rows:
        item = {"pk": s("p"), "sk": s(sk), "name": s(f"name{sk}"), "extra": s("e")}
        if city:
            item["city"] = s(city)
        if age:
            item["age"] = n(age)
        ddb.put_item(TableName=table, Item=item)
    return table


def by_city(ddb, table, name, city="Bern", **more):
    return all_items(
        ddb.query,
        TableName=table,
        IndexName=name,
        KeyConditionExpression="city = :c",
        ExpressionAttributeValues={":c": s(city)},
        **more,
    )


def by_age(ddb, table, name="by-age", **more):
    return all_items(
        ddb.query,
        TableName=table,
        IndexName=name,
        KeyConditionExpression="pk = :p",
        ExpressionAttributeValues={":p": s("p")},
        **more,
    )


def test_a_local_index_orders_by_its_own_range_key(ddb, people):
    assert strings(by_age(ddb, people), "sk") == ["4", "2", "1", "3"]
    assert strings(by_age(ddb, people, ScanIndexForward=False, Limit=1), "sk") == ["3", "1", "2", "4"]
    assert strings(by_age(ddb, people, ConsistentRead=True), "sk") == ["4", "2", "1", "3"]


def test_an_item_without_the_key_is_not_in_the_index(ddb, people):
    assert strings(by_city(ddb, people, "by-city"), "sk") == ["2", "1"]
    assert sorted(strings(by_city(ddb, people, "by-city-keys"), "sk")) == ["1", "2", "5"]


def test_projections_hold_what_they_were_told_to(ddb, people):
    assert set(by_city(ddb, people, "by-city")[0]) == {"pk", "sk", "city", "age", "name", "extra"}
    assert set(by_city(ddb, people, "by-city-keys")[0]) == {"pk", "sk", "city"}
    assert set(by_city(ddb, people, "by-city-some")[0]) == {"pk", "sk", "city", "name"}
    assert set(by_age(ddb, people, "by-age-keys")[0]) == {"pk", "sk", "age"}


def test_a_local_index_fetches_what_it_does_not_hold(ddb, people):
    full = by_age(ddb, people, "by-age-keys", Select="ALL_ATTRIBUTES")
    assert full[1] == get(ddb, people, pk=s("p"), sk=s("2"))
    some = by_age(ddb, people, "by-age-keys", ProjectionExpression="extra")
    assert some[0] == {"extra": s("e")}


def test_a_global_index_does_not_fetch_what_it_does_not_hold(ddb, people):
    with invalid():
        by_city(ddb, people, "by-city-keys", Select="ALL_ATTRIBUTES")
    with invalid():
        by_city(ddb, people, "by-city-keys", ProjectionExpression="extra")


def test_a_global_index_is_never_read_consistently(ddb, people):
    text = "Consistent reads are not supported on global secondary indexes"
    with invalid(text):
        by_city(ddb, people, "by-city", ConsistentRead=True)
    with invalid(text):
        ddb.scan(TableName=people, IndexName="by-city", ConsistentRead=True)


def test_key_conditions_work_on_the_keys_of_the_index(ddb, people):
    answer = ddb.query(
        TableName=people,
        IndexName="by-city",
        KeyConditionExpression="city = :c AND age > :a",
        FilterExpression="begins_with(#n, :n)",
        ExpressionAttributeNames={"#n": "name"},
        ExpressionAttributeValues={":c": s("Bern"), ":a": n(25), ":n": s("name")},
    )
    assert strings(answer["Items"], "sk") == ["1"]
    with invalid("Query condition missed key schema element: city"):
        ddb.query(
            TableName=people,
            IndexName="by-city",
            KeyConditionExpression="pk = :p",
            ExpressionAttributeValues={":p": s("p")},
        )


def test_pages_of_an_index_go_on_by_both_keys(ddb, people):
    answer = ddb.query(
        TableName=people,
        IndexName="by-city-keys",
        KeyConditionExpression="city = :c",
        ExpressionAttributeValues={":c": s("Bern")},
        Limit=1,
    )
    assert set(answer["LastEvaluatedKey"]) == {"pk", "sk", "city"}
    assert len(by_city(ddb, people, "by-city-keys", Limit=1)) == 3
    assert len(all_items(ddb.scan, TableName=people, IndexName="by-city", Limit=1)) == 3


def test_a_scan_of_an_index_in_segments_sees_all_of_it_once(ddb, people):
    seen = []
    for segment in range(3):
        seen += all_items(ddb.scan, TableName=people, IndexName="by-city-keys", Segment=segment, TotalSegments=3)
    assert sorted(strings(seen, "sk")) == ["1", "2", "3", "5"]


def test_an_index_follows_every_change_of_the_item(ddb, people):
    key = {"pk": s("moving"), "sk": s("1")}

    def towns():
        return [c for c in ("Rome", "Paris") if "moving" in strings(by_city(ddb, people, "by-city-some", c), "pk")]

    def change(expression, **values):
        request = {"TableName": people, "Key": key, "UpdateExpression": expression}
        if values:
            request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
        ddb.update_item(**request)

    change("SET city = :c", c=s("Rome"))
    assert towns() == ["Rome"]
    change("SET city = :c", c=s("Paris"))
    assert towns() == ["Paris"]
    change("SET extra = :e", e=s("x"))
    assert towns() == ["Paris"]
    change("REMOVE city")
    assert towns() == []
    ddb.put_item(TableName=people, Item={**key, "city": s("Rome")})
    assert towns() == ["Rome"]
    ddb.delete_item(TableName=people, Key=key)
    assert towns() == []


def test_many_items_may_share_one_index_key(ddb, tables):
    table = tables.make("pk:S", gsi=[index("same", "g:S", "r:N")])
    put_many(ddb, table, [{"pk": s(f"{i:03}"), "g": s("g"), "r": n(i % 2)} for i in range(60)])
    request = {"IndexName": "same", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": s("g")}}
    for forward in (True, False):
        items = all_items(ddb.query, TableName=table, **request, Limit=7, ScanIndexForward=forward)
        assert sorted(strings(items, "pk")) == [f"{i:03}" for i in range(60)]
        assert [int(item["r"]["N"]) for item in items] == sorted([i % 2 for i in range(60)], reverse=not forward)


@pytest.mark.parametrize("bad", [n(1), {"BOOL": True}, {"NULL": True}, s("")], ids=["N", "BOOL", "NULL", "empty"])
def test_an_index_key_of_a_wrong_type_refuses_the_item(ddb, people, bad):
    item = {"pk": s("bad"), "sk": s("1"), "city": bad}
    with invalid():
        ddb.put_item(TableName=people, Item=item)
    assert get(ddb, people, pk=s("bad"), sk=s("1")) is None
    with invalid():
        ddb.update_item(
            TableName=people,
            Key={"pk": s("bad"), "sk": s("1")},
            UpdateExpression="SET city = :c",
            ExpressionAttributeValues={":c": bad},
        )
    assert get(ddb, people, pk=s("bad"), sk=s("1")) is None


def test_the_text_for_a_wrong_index_key_names_the_index(ddb, tables):
    table = tables.make("pk:S", gsi=[index("by-g", "g:S")])
    mismatch = "Type mismatch for Index Key g Expected: S Actual: N IndexName: by-g"
    with invalid("One or more parameter values were invalid: " + mismatch):
        ddb.put_item(TableName=table, Item={"pk": s("a"), "g": n(1)})


# ---- changes ----


def index_status(ddb, table, name):
    described = ddb.describe_table(TableName=table)["Table"]
    found = [i["IndexStatus"] for i in described.get("GlobalSecondaryIndexes", []) if i["IndexName"] == name]
    return found[0] if found else None


def until_status(ddb, table, name, wanted):
    deadline = time.monotonic() + BACKFILL_S
    while index_status(ddb, table, name) != wanted:
        assert time.monotonic() < deadline, f"index {name} did not become {wanted}"
    wait_for(ddb, "table_exists", table)


def create_index(ddb, table, name, *keys, **more):
    shape, types = index(name, *keys, **more)
    ddb.update_table(
        TableName=table,
        AttributeDefinitions=[{"AttributeName": a, "AttributeType": t} for a, t in types.items()],
        GlobalSecondaryIndexUpdates=[{"Create": shape}],
    )


def test_an_index_made_later_is_filled_with_what_is_there(ddb, tables):
    table = tables.make("pk:S", hint="backfill")
    put_many(ddb, table, [{"pk": s(f"{i}"), "g": s(f"g{i % 3}"), "v": n(i)} for i in range(150)])
    put_many(ddb, table, [{"pk": s(f"no{i}"), "v": n(i)} for i in range(10)])
    ddb.put_item(TableName=table, Item={"pk": s("wrong-type"), "g": n(1)})
    create_index(ddb, table, "later", "g:S")
    until_status(ddb, table, "later", "ACTIVE")
    request = {"IndexName": "later", "KeyConditionExpression": "g = :g"}
    for group in range(3):
        values = {":g": s(f"g{group}")}
        items = all_items(ddb.query, TableName=table, **request, ExpressionAttributeValues=values)
        assert sorted(int(item["v"]["N"]) for item in items) == list(range(group, 150, 3))
    assert len(all_items(ddb.scan, TableName=table, IndexName="later")) == 150
    definitions = ddb.describe_table(TableName=table)["Table"]["AttributeDefinitions"]
    assert sorted(d["AttributeName"] for d in definitions) == ["g", "pk"]


def test_an_index_follows_writes_made_while_it_is_filled(ddb, tables):
    table = tables.make("pk:S", hint="busy")
    put_many(ddb, table, [{"pk": s(f"{i:04}"), "g": s("g")} for i in range(200)])
    create_index(ddb, table, "busy", "g:S", projection="KEYS_ONLY")
    ddb.put_item(TableName=table, Item={"pk": s("new"), "g": s("g")})
    ddb.delete_item(TableName=table, Key={"pk": s("0000")})
    ddb.update_item(TableName=table, Key={"pk": s("0199")}, UpdateExpression="REMOVE g")
    until_status(ddb, table, "busy", "ACTIVE")
    found = strings(all_items(ddb.scan, TableName=table, IndexName="busy"), "pk")
    assert sorted(found) == sorted([f"{i:04}" for i in range(1, 199)] + ["new"])


def test_an_index_can_be_removed(ddb, tables):
    table = tables.make("pk:S", gsi=[index("one", "g:S"), index("two", "g:S")])
    ddb.put_item(TableName=table, Item={"pk": s("a"), "g": s("g")})
    ddb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "one"}}])
    until_status(ddb, table, "one", None)
    with invalid("The table does not have the specified index: one"):
        ddb.scan(TableName=table, IndexName="one")
    assert ddb.scan(TableName=table, IndexName="two")["Count"] == 1
    with refused("ResourceNotFoundException"):
        ddb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "one"}}])


def test_an_index_that_is_already_there_is_refused(ddb, tables):
    table = tables.make("pk:S", gsi=[index("one", "g:S")])
    with invalid():
        create_index(ddb, table, "one", "g:S")
    with invalid():
        create_index(ddb, table, "bad!name", "g:S")
    with invalid():
        shape, _ = index("undefined", "nowhere:S")
        ddb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Create": shape}])
    assert index_status(ddb, table, "one") == "ACTIVE"


def test_an_index_removed_and_made_again_starts_afresh(ddb, tables):
    table = tables.make("pk:S", gsi=[index("one", "g:S")])
    ddb.put_item(TableName=table, Item={"pk": s("a"), "g": s("g"), "h": s("h")})
    ddb.update_table(TableName=table, GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "one"}}])
    until_status(ddb, table, "one", None)
    create_index(ddb, table, "one", "h:S")
    until_status(ddb, table, "one", "ACTIVE")
    assert strings(ddb.scan(TableName=table, IndexName="one")["Items"], "pk") == ["a"]
    values = {":h": s("h")}
    answer = ddb.query(
        TableName=table, IndexName="one", KeyConditionExpression="h = :h", ExpressionAttributeValues=values
    )
    assert answer["Count"] == 1
