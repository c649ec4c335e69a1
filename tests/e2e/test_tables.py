"""Tables from their making to their end: CreateTable, DescribeTable, ListTables, UpdateTable, DeleteTable, the
SDK's waiters, DescribeLimits and DescribeEndpoints. Changes of indexes are in test_indexes.py."""

import re

import boto3
import pytest
from botocore.exceptions import ClientError

from conftest import index, table_name, table_request, wait_for
from helpers import get, invalid, n, refused, s
from v1 import Server


def describe(ddb, name):
    return ddb.describe_table(TableName=name)["Table"]


def test_create_answers_with_the_whole_description(ddb, tables):
    request = table_request(
        table_name(),
        "pk:S",
        "sk:N",
        gsi=[index("by-mail", "mail:S", projection="INCLUDE", include=["name", "age"])],
        lsi=[index("by-age", "pk:S", "age:N", projection="KEYS_ONLY")],
    )
    made = ddb.create_table(**request)["TableDescription"]
    tables.names.append(request["TableName"])
    assert made["TableName"] == request["TableName"]
    assert made["TableStatus"] in ("CREATING", "ACTIVE")
    assert made["KeySchema"] == request["KeySchema"]
    assert sorted(map(repr, made["AttributeDefinitions"])) == sorted(map(repr, request["AttributeDefinitions"]))
    assert made["ItemCount"] == 0 and made["TableSizeBytes"] == 0
    assert made["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"


def test_describe_tells_keys_indexes_arn_and_id(ddb, tables):
    name = tables.make(
        "pk:S",
        "sk:N",
        gsi=[index("by-mail", "mail:S", projection="INCLUDE", include=["age", "name"])],
        lsi=[index("by-age", "pk:S", "age:N", projection="KEYS_ONLY")],
    )
    table = describe(ddb, name)
    assert table["TableStatus"] == "ACTIVE"
    assert re.fullmatch(rf"arn:aws:dynamodb:[a-z0-9-]+:\d{{12}}:table/{re.escape(name)}", table["TableArn"])
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", table["TableId"])
    assert table["CreationDateTime"].year >= 2024
    assert table["ProvisionedThroughput"]["ReadCapacityUnits"] == 0

    (gsi,) = table["GlobalSecondaryIndexes"]
    assert gsi["IndexName"] == "by-mail" and gsi["IndexStatus"] == "ACTIVE"
    assert gsi["IndexArn"] == table["TableArn"] + "/index/by-mail"
    assert gsi["Projection"]["ProjectionType"] == "INCLUDE"
    assert sorted(gsi["Projection"]["NonKeyAttributes"]) == ["age", "name"]

    (lsi,) = table["LocalSecondaryIndexes"]
    assert lsi["IndexName"] == "by-age" and lsi["IndexArn"] == table["TableArn"] + "/index/by-age"
    assert lsi["KeySchema"][1] == {"AttributeName": "age", "KeyType": "RANGE"}
    assert lsi["Projection"] == {"ProjectionType": "KEYS_ONLY"}


def test_provisioned_throughput_is_kept_and_shown(ddb, tables):
    throughput = {"ReadCapacityUnits": 7, "WriteCapacityUnits": 3}
    name = tables.make("pk:S", BillingMode="PROVISIONED", ProvisionedThroughput=throughput)
    shown = describe(ddb, name)["ProvisionedThroughput"]
    assert (shown["ReadCapacityUnits"], shown["WriteCapacityUnits"]) == (7, 3)
    assert shown["NumberOfDecreasesToday"] == 0


def test_billing_can_be_switched_both_ways(ddb, tables):
    name = tables.make("pk:S")
    throughput = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}
    ddb.update_table(TableName=name, BillingMode="PROVISIONED", ProvisionedThroughput=throughput)
    wait_for(ddb, "table_exists", name)
    shown = describe(ddb, name)["ProvisionedThroughput"]
    assert (shown["ReadCapacityUnits"], shown["WriteCapacityUnits"]) == (5, 6)

    ddb.update_table(TableName=name, BillingMode="PAY_PER_REQUEST")
    wait_for(ddb, "table_exists", name)
    table = describe(ddb, name)
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert table["ProvisionedThroughput"]["WriteCapacityUnits"] == 0


def test_a_name_can_be_used_once_and_again_after_deletion(ddb, tables):
    name = tables.make("pk:S")
    with refused("ResourceInUseException", f"Table already exists: {name}"):
        ddb.create_table(**table_request(name, "pk:S"))
    ddb.put_item(TableName=name, Item={"pk": s("old")})

    gone = ddb.delete_table(TableName=name)["TableDescription"]
    assert gone["TableName"] == name and gone["TableStatus"] in ("DELETING", "ACTIVE")
    wait_for(ddb, "table_not_exists", name)
    tables.make("pk:S", name=name)
    assert get(ddb, name, pk=s("old")) is None


def test_what_is_not_there_is_refused_by_every_table_operation(ddb):
    name = table_name("absent")
    text = f"Requested resource not found: Table: {name} not found"
    for operation in (ddb.describe_table, ddb.delete_table):
        with refused("ResourceNotFoundException", text):
            operation(TableName=name)
    with refused("ResourceNotFoundException", text):
        ddb.update_table(TableName=name, BillingMode="PAY_PER_REQUEST")


def test_list_tables_pages_through_all_names_once(ddb, tables):
    made = sorted(tables.make("pk:S", hint=f"list{number}") for number in range(5))
    seen, request = [], {"Limit": 2}
    while True:
        page = ddb.list_tables(**request)
        assert len(page["TableNames"]) <= 2
        seen += page["TableNames"]
        if "LastEvaluatedTableName" not in page:
            break
        assert page["LastEvaluatedTableName"] == page["TableNames"][-1]
        request["ExclusiveStartTableName"] = page["LastEvaluatedTableName"]
    assert len(seen) == len(set(seen))
    assert [name for name in seen if name in made] == made
    paginated = ddb.get_paginator("list_tables").paginate(PaginationConfig={"PageSize": 3})
    assert sorted(name for page in paginated for name in page["TableNames"]) == sorted(seen)


def test_list_tables_may_start_after_a_name_that_does_not_exist(ddb, tables):
    name = tables.make("pk:S", hint="zz")
    page = ddb.list_tables(ExclusiveStartTableName=name[:-1])
    assert name in page["TableNames"]


@pytest.mark.parametrize("limit", [0, 101, -1])
def test_list_tables_refuses_a_limit_outside_1_to_100(ddb, limit):
    with invalid():
        ddb.list_tables(Limit=limit)


@pytest.mark.parametrize("name", ["ab", "a" * 256, "sp ace", "sl/ash", "ünicode", ""])
def test_names_that_are_no_table_names_are_refused(ddb, name):
    with invalid():
        ddb.create_table(**table_request(name, "pk:S"))


@pytest.mark.parametrize("name", ["abc", "a" * 255, "A.b-c_9"])
def test_names_at_the_edge_of_the_rule_are_accepted(ddb, tables, name):
    try:
        ddb.delete_table(TableName=name)
        wait_for(ddb, "table_not_exists", name)
    except ClientError:
        pass
    assert describe(ddb, tables.make("pk:S", name=name))["TableName"] == name


def broken(change):
    request = table_request(table_name(), "pk:S", "sk:S")
    change(request)
    return request


BROKEN = {
    "no_key_schema": lambda r: r.pop("KeySchema"),
    "empty_key_schema": lambda r: r.update(KeySchema=[]),
    "no_definitions": lambda r: r.pop("AttributeDefinitions"),
    "key_not_defined": lambda r: r["AttributeDefinitions"].pop(),
    "definition_not_used": lambda r: r["AttributeDefinitions"].append({"AttributeName": "x", "AttributeType": "S"}),
    "two_hash_keys": lambda r: r["KeySchema"][1].update(KeyType="HASH"),
    "range_first": lambda r: r["KeySchema"].reverse(),
    "three_keys": lambda r: r["KeySchema"].append({"AttributeName": "x", "KeyType": "RANGE"}),
    "one_attribute_twice": lambda r: r["KeySchema"][1].update(AttributeName="pk"),
    "unknown_type": lambda r: r["AttributeDefinitions"][0].update(AttributeType="BOOL"),
    "unknown_billing": lambda r: r.update(BillingMode="FREE"),
    "provisioned_without_numbers": lambda r: r.update(BillingMode="PROVISIONED"),
    "on_demand_with_numbers": lambda r: r.update(
        ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}
    ),
    "zero_units": lambda r: r.update(
        BillingMode="PROVISIONED", ProvisionedThroughput={"ReadCapacityUnits": 0, "WriteCapacityUnits": 1}
    ),
    "no_indexes_in_list": lambda r: r.update(GlobalSecondaryIndexes=[]),
    "lsi_with_other_hash": lambda r: r.update(LocalSecondaryIndexes=[index("ix", "sk:S", "pk:S")[0]]),
    "gsi_key_not_defined": lambda r: r.update(GlobalSecondaryIndexes=[index("ix", "nowhere:S")[0]]),
    "same_index_twice": lambda r: r.update(GlobalSecondaryIndexes=[index("ix", "sk:S")[0]] * 2),
    "index_name_short": lambda r: r.update(GlobalSecondaryIndexes=[index("ix"[:1], "sk:S")[0]]),
    "unknown_projection": lambda r: r.update(GlobalSecondaryIndexes=[index("ix1", "sk:S", projection="SOME")[0]]),
    "include_without_names": lambda r: r.update(GlobalSecondaryIndexes=[index("ix1", "sk:S", projection="INCLUDE")[0]]),
    "names_without_include": lambda r: r.update(GlobalSecondaryIndexes=[index("ix1", "sk:S", include=["a"])[0]]),
    "six_lsis": lambda r: r.update(LocalSecondaryIndexes=[index(f"ix{i}", "pk:S", "sk:S")[0] for i in range(6)]),
    "twenty_one_gsis": lambda r: r.update(GlobalSecondaryIndexes=[index(f"ix{i:02}", "sk:S")[0] for i in range(21)]),
}


@pytest.mark.parametrize("change", BROKEN)
def test_a_broken_definition_is_refused_and_makes_no_table(ddb, change):
    request = broken(BROKEN[change])
    try:
        ddb.create_table(**request)
    except ClientError as error:
        # DynamoDB calls too many indexes either a validation error or a limit, depending on the kind.
        assert error.response["Error"]["Code"] in ("ValidationException", "LimitExceededException")
    else:
        raise AssertionError("was not refused")
    with refused("ResourceNotFoundException"):
        ddb.describe_table(TableName=request["TableName"])


def test_an_lsi_needs_a_table_with_a_range_key(ddb):
    with invalid():
        ddb.create_table(**table_request(table_name(), "pk:S", lsi=[index("ix1", "pk:S", "x:S")]))


def test_twenty_gsis_and_five_lsis_are_accepted(ddb, tables):
    name = tables.make(
        "pk:S",
        "sk:S",
        gsi=[index(f"g{i:02}", "sk:S") for i in range(20)],
        lsi=[index(f"l{i:02}", "pk:S", "x:S") for i in range(5)],
    )
    table = describe(ddb, name)
    assert len(table["GlobalSecondaryIndexes"]) == 20 and len(table["LocalSecondaryIndexes"]) == 5


def test_item_count_and_size_follow_the_items(ddb, tables):
    """DynamoDB refreshes these every six hours only, so that any value up to the truth is a right answer."""
    name = tables.make("pk:S")
    for number in range(3):
        ddb.put_item(TableName=name, Item={"pk": s(f"{number}"), "v": n(number)})
    table = describe(ddb, name)
    assert 0 <= table["ItemCount"] <= 3
    assert 0 <= table["TableSizeBytes"] <= 3 * 200


def test_an_update_that_changes_nothing_is_refused(ddb, table):
    with invalid():
        ddb.update_table(TableName=table)


def test_a_deleted_table_is_answered_without_its_keys(wire, tables):
    name = tables.make("pk:S", "sk:S")
    answer = wire.call("DeleteTable", {"TableName": name}).json()["TableDescription"]
    assert answer["TableName"] == name and answer["TableStatus"] == "DELETING"
    assert not {"KeySchema", "AttributeDefinitions"} & set(answer)


def test_deletion_protection_refuses_deletion_until_it_is_lifted(wire, ddb, tables):
    """Sent as JSON: Debian's boto3 is older than the parameter."""
    request = {**table_request(table_name(), "pk:S"), "DeletionProtectionEnabled": True}
    name = request["TableName"]
    assert wire.call("CreateTable", request).status == 200
    tables.names.append(name)
    wait_for(ddb, "table_exists", name)
    described = wire.call("DescribeTable", {"TableName": name}).json()["Table"]
    if "DeletionProtectionEnabled" not in described:
        pytest.skip("this endpoint knows no deletion protection")
    assert described["DeletionProtectionEnabled"] is True
    reply = wire.call("DeleteTable", {"TableName": name})
    assert (reply.status, reply.error) == (400, "ValidationException")
    reply = wire.call("UpdateTable", {"TableName": name, "DeletionProtectionEnabled": False})
    assert reply.status == 200, reply.body
    wait_for(ddb, "table_exists", name)
    assert wire.call("DeleteTable", {"TableName": name}).status == 200


def test_describe_limits_gives_four_numbers(ddb):
    limits = ddb.describe_limits()
    for name in ("AccountMaxRead", "AccountMaxWrite", "TableMaxRead", "TableMaxWrite"):
        assert limits[f"{name}CapacityUnits"] > 0


def test_describe_endpoints_names_this_server(ddb, endpoint):
    (found,) = ddb.describe_endpoints()["Endpoints"]
    assert found["CachePeriodInMinutes"] > 0
    assert found["Address"]


@pytest.mark.gatehouse_only
def test_describe_endpoints_gives_an_address_a_client_can_reach(ddb, endpoint):
    (found,) = ddb.describe_endpoints()["Endpoints"]
    assert found["Address"] == endpoint.removeprefix("http://")


@pytest.mark.gatehouse_only
def test_the_item_count_is_right_after_each_of_several_kills():
    server = Server()
    for number in range(3):
        ddb = boto3.client("dynamodb", endpoint_url=server.endpoint)
        if number == 0:
            ddb.create_table(**table_request("counted", "pk:S", gsi=[index("by-g", "g:S")]))
        for i in range(40):
            ddb.put_item(TableName="counted", Item={"pk": s(f"{number}-{i}"), "g": s("x")})
        ddb.delete_item(TableName="counted", Key={"pk": s(f"{number}-0")})
        server.kill()
        server.start()
        ddb = boto3.client("dynamodb", endpoint_url=server.endpoint)
        described = describe(ddb, "counted")
        assert described["ItemCount"] == ddb.scan(TableName="counted", Select="COUNT")["Count"] == 39 * (number + 1)
        assert described["GlobalSecondaryIndexes"][0]["ItemCount"] == 39 * (number + 1)
    server.close()
