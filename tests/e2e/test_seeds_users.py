"""The literal requests of a user service: unique emails through an index, the primary email's three-action transaction,
optimistic locking, and the outbox."""

import time

import pytest
from botocore.exceptions import ClientError

from conftest import index
from helpers import FALSE, TRUE, all_items, condition_failed, get, iso, n, refused, s, strings


@pytest.fixture(scope="module")
def users(module_tables):
    return module_tables.make("PK:S", "SK:S", hint="users", gsi=[index("GSI1", "GSI1PK:S", "GSI1SK:S")])


def add_email(ddb, table, user, email_id, email):
    """The check by index, then the conditional put."""
    existing = ddb.query(
        TableName=table,
        IndexName="GSI1",
        KeyConditionExpression="GSI1PK = :pk",
        ExpressionAttributeValues={":pk": s(f"EMAIL#{email}")},
        Limit=1,
    )
    if existing["Items"]:
        return False
    ddb.put_item(
        TableName=table,
        Item={
            "PK": s(f"USER#{user}"),
            "SK": s(f"EMAIL#{email_id}"),
            "GSI1PK": s(f"EMAIL#{email}"),
            "GSI1SK": s(f"USER#{user}"),
            "email": s(email),
            "isPrimary": FALSE,
            "isVerified": TRUE,
        },
        ConditionExpression="attribute_not_exists(PK)",
    )
    return True


@pytest.fixture
def user(ddb, users, key):
    """A profile, a primary email e1 and a second email e2."""
    ddb.put_item(
        TableName=users,
        Item={
            "PK": s(f"USER#{key}"), "SK": s("PROFILE"), "email": s(f"{key}1@x"), "version": n(1),
            "status": s("active"), "GSI1PK": s(f"EMAIL#{key}1@x"), "GSI1SK": s("PROFILE"),
        },
    )  # fmt: skip
    for email_id, primary in (("e1", TRUE), ("e2", FALSE)):
        ddb.put_item(
            TableName=users,
            Item={
                "PK": s(f"USER#{key}"), "SK": s(f"EMAIL#{email_id}"), "email": s(f"{key}{email_id[1]}@x"),
                "isPrimary": primary, "isVerified": TRUE,
            },
        )  # fmt: skip
    return key


def set_primary(ddb, table, user, new, current, email):
    def row(sk):
        return {"TableName": table, "Key": {"PK": s(f"USER#{user}"), "SK": s(sk)}}

    ddb.transact_write_items(
        TransactItems=[
            {
                "Update": {
                    **row(f"EMAIL#{current}"),
                    "UpdateExpression": "SET isPrimary = :false",
                    "ExpressionAttributeValues": {":false": FALSE},
                }
            },
            {
                "Update": {
                    **row(f"EMAIL#{new}"),
                    "UpdateExpression": "SET isPrimary = :true",
                    "ExpressionAttributeValues": {":true": TRUE},
                    "ConditionExpression": "isVerified = :true",
                }
            },
            {
                "Update": {
                    **row("PROFILE"),
                    "UpdateExpression": "SET email = :email, GSI1PK = :gsi1pk, updatedAt = :now",
                    "ExpressionAttributeValues": {
                        ":email": s(email),
                        ":gsi1pk": s(f"EMAIL#{email}"),
                        ":now": s(iso()),
                    },
                }
            },
        ]
    )


def rows_of(ddb, table, user):
    items = all_items(
        ddb.query,
        TableName=table,
        KeyConditionExpression="PK = :pk",
        ExpressionAttributeValues={":pk": s(f"USER#{user}")},
        ConsistentRead=True,
    )
    return {item["SK"]["S"]: item for item in items}


def test_email_is_unique_through_the_index(ddb, users, key):
    assert add_email(ddb, users, key + "a", "e1", f"{key}@x")
    assert not add_email(ddb, users, key + "b", "e1", f"{key}@x")
    with condition_failed():
        add_email(ddb, users, key + "a", "e1", f"{key}-other@x")


def test_primary_email_moves_in_one_transaction(ddb, users, user):
    set_primary(ddb, users, user, "e2", "e1", f"{user}2@x")
    rows = rows_of(ddb, users, user)
    assert rows["EMAIL#e1"]["isPrimary"] == FALSE and rows["EMAIL#e2"]["isPrimary"] == TRUE
    assert rows["PROFILE"]["email"] == s(f"{user}2@x")
    for email, expected in ((f"{user}2@x", ["PROFILE"]), (f"{user}1@x", [])):
        answer = ddb.query(
            TableName=users,
            IndexName="GSI1",
            KeyConditionExpression="GSI1PK = :pk",
            ExpressionAttributeValues={":pk": s(f"EMAIL#{email}")},
        )
        assert strings(answer["Items"], "SK") == expected


def test_primary_email_that_is_not_verified_leaves_all_three_untouched(ddb, users, user):
    key = {"PK": s(f"USER#{user}"), "SK": s("EMAIL#e2")}
    values = {":v": FALSE}
    ddb.update_item(
        TableName=users, Key=key, UpdateExpression="SET isVerified = :v", ExpressionAttributeValues=values
    )
    before = rows_of(ddb, users, user)
    with pytest.raises(ClientError) as caught:
        set_primary(ddb, users, user, "e2", "e1", f"{user}2@x")
    answer = caught.value.response
    assert answer["Error"]["Code"] == "TransactionCanceledException"
    codes = [reason["Code"] for reason in answer["CancellationReasons"]]
    assert codes == ["None", "ConditionalCheckFailed", "None"]
    assert rows_of(ddb, users, user) == before


def update_profile(ddb, table, user, expected_version):
    return ddb.update_item(
        TableName=table,
        Key={"PK": s(f"USER#{user}"), "SK": s("PROFILE")},
        UpdateExpression="""
SET firstName = :firstName,
lastName = :lastName,
phone = :phone,
version = version + :inc,
updatedAt = :now
""",
        ConditionExpression="version = :expectedVersion",
        ExpressionAttributeValues={
            ":firstName": s("Ada"),
            ":lastName": s("Lovelace"),
            ":phone": s("+44"),
            ":inc": n(1),
            ":expectedVersion": n(expected_version),
            ":now": s(iso()),
        },
        ReturnValues="ALL_NEW",
    )


def test_profile_is_updated_only_from_the_version_that_was_read(ddb, users, user):
    assert update_profile(ddb, users, user, 1)["Attributes"]["version"] == n(2)
    with condition_failed():
        update_profile(ddb, users, user, 1)
    assert update_profile(ddb, users, user, 2)["Attributes"]["version"] == n(3)


def test_status_as_printed_is_a_reserved_word(ddb, users, user):
    request = {"TableName": users, "Key": {"PK": s(f"USER#{user}"), "SK": s("PROFILE")}}
    with refused("ValidationException"):
        ddb.get_item(**request, ProjectionExpression="status")
    answer = ddb.get_item(**request, ProjectionExpression="#s", ExpressionAttributeNames={"#s": "status"})
    assert answer["Item"] == {"status": s("active")}


def test_outbox_takes_the_event_with_the_change_or_not_at_all(ddb, users, tables, user):
    outbox = tables.make("PK:S", "SK:S", hint="outbox")
    changed = {"PK": s(f"USER#{user}"), "SK": s("PROFILE"), "email": s("new@x"), "version": n(2)}
    event = {
        "PK": s(f"OUTBOX#{int(time.time() * 1000)}"),
        "SK": s("event-1"),
        "eventType": s("user.updated"),
        "payload": s('{"userId":"' + user + '"}'),
        "createdAt": s(iso()),
    }

    def save(**condition):
        put = {"TableName": users, "Item": changed, **condition}
        ddb.transact_write_items(TransactItems=[{"Put": put}, {"Put": {"TableName": outbox, "Item": event}}])

    with pytest.raises(ClientError):
        save(ConditionExpression="version = :v", ExpressionAttributeValues={":v": n(99)})
    assert ddb.scan(TableName=outbox)["Count"] == 0
    save()
    assert ddb.scan(TableName=outbox)["Items"] == [event]
    assert get(ddb, users, PK=changed["PK"], SK=changed["SK"]) == changed
    ddb.delete_item(TableName=outbox, Key={"PK": event["PK"], "SK": event["SK"]})
    assert ddb.scan(TableName=outbox)["Count"] == 0
