"""Debian's aws cli over the main operations, and the runbook's scan as it is printed. Each call starts a program, so
that one test walks a table's whole life."""

import json

import pytest

from cli import Cli
from conftest import table_name
from helpers import n, s


@pytest.fixture(scope="module")
def aws(endpoint, client_env):
    return Cli(endpoint, client_env)


@pytest.fixture
def name(ddb):
    given = table_name("cli")
    yield given
    try:
        ddb.delete_table(TableName=given)
    except ddb.exceptions.ClientError:
        pass  # the test has removed it itself


def text(value):
    return json.dumps(value)


def test_a_tables_life_from_the_command_line(aws, name):
    table = ("--table-name", name)
    made = aws(
        "create-table",
        *table,
        "--attribute-definitions",
        "AttributeName=pk,AttributeType=S",
        "AttributeName=sk,AttributeType=S",
        "--key-schema",
        "AttributeName=pk,KeyType=HASH",
        "AttributeName=sk,KeyType=RANGE",
        "--billing-mode",
        "PAY_PER_REQUEST",
    )
    assert made["TableDescription"]["TableName"] == name
    assert aws("wait", "table-exists", *table) is None
    assert aws("describe-table", *table)["Table"]["TableStatus"] == "ACTIVE"
    assert name in aws("list-tables")["TableNames"]

    write_and_read(aws, table)
    read_many(aws, table, name)
    write_many(aws, table, name)

    on = "Enabled=true,AttributeName=ttl"
    answer = aws("update-time-to-live", *table, "--time-to-live-specification", on)
    assert answer["TimeToLiveSpecification"] == {"Enabled": True, "AttributeName": "ttl"}

    assert aws("delete-table", *table)["TableDescription"]["TableName"] == name
    assert aws("wait", "table-not-exists", *table) is None
    assert name not in aws("list-tables")["TableNames"]


def write_and_read(aws, table):
    item = {"pk": s("a"), "sk": s("1"), "v": n(1), "b": {"B": "AAH/"}}
    key = text({"pk": s("a"), "sk": s("1")})
    aws("put-item", *table, "--item", text(item))
    assert aws("get-item", *table, "--key", key, "--consistent-read")["Item"] == item
    answer = aws(
        "update-item",
        *table,
        "--key",
        key,
        "--update-expression",
        "ADD v :one",
        "--expression-attribute-values",
        text({":one": n(1)}),
        "--return-values",
        "UPDATED_NEW",
    )
    assert answer["Attributes"] == {"v": n(2)}
    error = aws.refused("put-item", *table, "--item", text(item), "--condition-expression", "attribute_not_exists(pk)")
    assert "ConditionalCheckFailedException" in error and "The conditional request failed" in error


def read_many(aws, table, name):
    for sk in ("2", "3"):
        aws("put-item", *table, "--item", text({"pk": s("a"), "sk": s(sk), "v": n(sk)}))
    values = text({":pk": s("a"), ":sk": s("1")})
    found = aws(
        "query",
        *table,
        "--key-condition-expression",
        "pk = :pk AND sk > :sk",
        "--expression-attribute-values",
        values,
        "--no-scan-index-forward",
    )
    assert [item["sk"]["S"] for item in found["Items"]] == ["3", "2"]
    # The cli follows the pages by itself.
    assert aws("scan", *table, "--page-size", "1")["Count"] == 3


def write_many(aws, table, name):
    delete = {"DeleteRequest": {"Key": {"pk": s("a"), "sk": s("3")}}}
    put = {"PutRequest": {"Item": {"pk": s("b"), "sk": s("1")}}}
    answer = aws("batch-write-item", "--request-items", text({name: [delete, put]}))
    assert answer["UnprocessedItems"] == {}
    check = {"TableName": name, "Key": {"pk": s("b"), "sk": s("1")}, "ConditionExpression": "attribute_exists(pk)"}
    put = {"TableName": name, "Item": {"pk": s("c"), "sk": s("1")}}
    aws("transact-write-items", "--transact-items", text([{"ConditionCheck": check}, {"Put": put}]))
    assert aws("get-item", *table, "--key", text(put["Item"]))["Item"] == put["Item"]


def test_limits_and_errors_are_shown(aws):
    assert aws("describe-limits")["TableMaxReadCapacityUnits"] > 0
    error = aws.refused("describe-table", "--table-name", "e2e.not-there")
    assert "ResourceNotFoundException" in error and "Table: e2e.not-there not found" in error


def test_the_runbooks_scan_for_stale_device_tokens(aws, ddb, tables):
    """As printed it lacks its values, and says so; with them it finds what it is meant to find."""
    name = "photoeditor-dev-device-tokens"
    tables.make("userId:S", "deviceId:S", name=name)
    for number, (active, updated) in enumerate(
        [(False, "2024-01-01T00:00:00.000Z"), (True, "2024-01-01T00:00:00.000Z"), (False, "2999-01-01T00:00:00.000Z")]
    ):
        item = {"userId": s("u"), "deviceId": s(f"d{number}"), "isActive": {"BOOL": active}, "updatedAt": s(updated)}
        ddb.put_item(TableName=name, Item=item)
    printed = [
        "scan",
        "--table-name",
        "photoeditor-dev-device-tokens",
        "--filter-expression",
        "isActive = :false AND updatedAt < :cutoff",
        "--projection-expression",
        "userId, deviceId",
    ]
    error = aws.refused(*printed)
    assert "ValidationException" in error
    assert "An expression attribute value used in expression is not defined; attribute value: :" in error
    values = text({":false": {"BOOL": False}, ":cutoff": s("2024-06-01T00:00:00.000Z")})
    found = aws(*printed, "--expression-attribute-values", values)
    assert found["Items"] == [{"userId": s("u"), "deviceId": s("d0")}]
    assert (found["Count"], found["ScannedCount"]) == (1, 3)
