"""TransactWriteItems and TransactGetItems: all or nothing, the reasons of a cancellation, and request tokens."""

import threading
import uuid

import pytest
from botocore.exceptions import ClientError

from helpers import get, invalid, n, refused, s

ACTIONS_MAX = 100
CANCELLED = "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]"


def put(table, key, **more):
    return {"Put": {"TableName": table, "Item": {"pk": s(key), "v": n(1)}, **more}}


def update(table, key, expression="ADD v :one", **more):
    values = {":one": n(1)}
    return {
        "Update": {
            "TableName": table,
            "Key": {"pk": s(key)},
            "UpdateExpression": expression,
            "ExpressionAttributeValues": values,
            **more,
        }
    }


def delete(table, key, **more):
    return {"Delete": {"TableName": table, "Key": {"pk": s(key)}, **more}}


def check(table, key, condition, **more):
    return {"ConditionCheck": {"TableName": table, "Key": {"pk": s(key)}, "ConditionExpression": condition, **more}}


def cancelled(ddb, actions, **more):
    """Runs a transaction that must be cancelled, and returns its reasons."""
    try:
        ddb.transact_write_items(TransactItems=actions, **more)
    except ClientError as error:
        answer = error.response
        assert answer["Error"]["Code"] == "TransactionCanceledException"
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
        reasons = answer["CancellationReasons"]
        codes = ", ".join(reason["Code"] for reason in reasons)
        assert answer["Error"]["Message"] == CANCELLED.format(codes)
        return reasons
    raise AssertionError("the transaction was not cancelled")


def test_all_four_actions_happen_together(ddb, table, pairs, key):
    ddb.put_item(TableName=table, Item={"pk": s(key + "old"), "v": n(5)})
    ddb.put_item(TableName=table, Item={"pk": s(key + "gone")})
    ddb.put_item(TableName=table, Item={"pk": s(key + "checked"), "ok": {"BOOL": True}})
    answer = ddb.transact_write_items(
        TransactItems=[
            put(table, key + "new", ConditionExpression="attribute_not_exists(pk)"),
            update(table, key + "old"),
            delete(table, key + "gone", ConditionExpression="attribute_exists(pk)"),
            check(table, key + "checked", "attribute_exists(ok)"),
            {"Put": {"TableName": pairs, "Item": {"pk": s(key), "sk": s("x")}}},
        ]
    )
    assert "Attributes" not in answer
    assert get(ddb, table, pk=s(key + "new"))["v"] == n(1)
    assert get(ddb, table, pk=s(key + "old"))["v"] == n(6)
    assert get(ddb, table, pk=s(key + "gone")) is None
    assert get(ddb, pairs, pk=s(key), sk=s("x")) is not None


def test_one_failed_condition_leaves_everything_as_it_was(ddb, table, key):
    ddb.put_item(TableName=table, Item={"pk": s(key + "b"), "v": n(1)})
    reasons = cancelled(
        ddb,
        [
            put(table, key + "a"),
            update(table, key + "b", ConditionExpression="v > :one"),
            check(table, key + "c", "attribute_exists(pk)"),
        ],
    )
    assert [reason["Code"] for reason in reasons] == ["None", "ConditionalCheckFailed", "ConditionalCheckFailed"]
    assert reasons[1]["Message"] == "The conditional request failed"
    assert "Message" not in reasons[0] and "Item" not in reasons[1]
    assert get(ddb, table, pk=s(key + "a")) is None
    assert get(ddb, table, pk=s(key + "b"))["v"] == n(1)


def test_the_reasons_show_the_item_where_asked_for(ddb, table, key):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1)})
    asked = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    for action in (put(table, key, **asked), update(table, key, **asked), delete(table, key, **asked)):
        reasons = cancelled(ddb, [put(table, key + "other"), action])
        assert reasons[1]["Item"] == {"pk": s(key), "v": n(1)}
    reasons = cancelled(
        ddb, [check(table, key, "attribute_not_exists(pk)", ReturnValuesOnConditionCheckFailure="ALL_OLD")]
    )
    assert reasons[0]["Item"] == {"pk": s(key), "v": n(1)}
    absent = {"ConditionExpression": "attribute_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    reasons = cancelled(ddb, [put(table, key + "absent", **absent)])
    assert "Item" not in reasons[0]


def test_an_update_that_the_item_does_not_allow_cancels_with_a_validation_error(ddb, table, key):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": s("text")})
    reasons = cancelled(ddb, [put(table, key + "other"), update(table, key)])
    assert [reason["Code"] for reason in reasons] == ["None", "ValidationError"]
    assert get(ddb, table, pk=s(key + "other")) is None
    assert get(ddb, table, pk=s(key))["v"] == s("text")


def test_an_item_can_be_touched_once_only(ddb, table, key):
    text = "Transaction request cannot include multiple operations on one item"
    for again in (put(table, key), delete(table, key), check(table, key, "attribute_exists(pk)")):
        with invalid(text):
            ddb.transact_write_items(TransactItems=[update(table, key), again])
    assert get(ddb, table, pk=s(key)) is None


def test_100_actions_are_accepted_and_101_refused(ddb, table, key):
    ddb.transact_write_items(TransactItems=[put(table, f"{key}{i}") for i in range(ACTIONS_MAX)])
    assert get(ddb, table, pk=s(f"{key}99")) is not None
    with invalid():
        ddb.transact_write_items(TransactItems=[put(table, f"{key}b{i}") for i in range(ACTIONS_MAX + 1)])
    assert get(ddb, table, pk=s(f"{key}b0")) is None
    gets = [{"Get": {"TableName": table, "Key": {"pk": s(f"{key}{i}")}}} for i in range(ACTIONS_MAX + 1)]
    answer = ddb.transact_get_items(TransactItems=gets[:-1])
    assert [r["Item"]["pk"]["S"] for r in answer["Responses"]] == [f"{key}{i}" for i in range(ACTIONS_MAX)]
    with invalid():
        ddb.transact_get_items(TransactItems=gets)


def test_more_than_4_mb_in_one_transaction_is_refused(ddb, table, key):
    large = [
        {"Put": {"TableName": table, "Item": {"pk": s(f"{key}{i}"), "v": s("x" * 399 * 1024)}}} for i in range(11)
    ]
    try:
        ddb.transact_write_items(TransactItems=large)
    except ClientError as error:
        assert error.response["Error"]["Code"] in ("ValidationException", "TransactionCanceledException")
    else:
        raise AssertionError("was not refused")
    assert get(ddb, table, pk=s(f"{key}0")) is None


@pytest.mark.parametrize(
    "actions",
    [
        lambda t: [],
        lambda t: [{}],
        lambda t: [{**put(t, "x"), **delete(t, "x")}],
        lambda t: [{"ConditionCheck": {"TableName": t, "Key": {"pk": s("x")}}}],
        lambda t: [{"Update": {"TableName": t, "Key": {"pk": s("x")}}}],
        lambda t: [{"Delete": {"TableName": t}}],
        lambda t: [delete(t, "x", ConditionExpression="a = = b")],
        lambda t: [delete(t, "")],
        lambda t: [put(t, "x", ReturnValuesOnConditionCheckFailure="SOME")],
    ],
    ids=["none", "empty", "two_in_one", "no_condition", "no_update", "no_key", "syntax", "empty_key", "bad_enum"],
)
def test_an_action_that_makes_no_sense_refuses_the_request(ddb, table, key, actions):
    bad = actions(table)
    with invalid():
        ddb.transact_write_items(TransactItems=([put(table, key)] if bad else []) + bad)
    assert get(ddb, table, pk=s(key)) is None


def test_a_key_that_does_not_fit_the_table_cancels_the_transaction(ddb, table, key):
    """As measured on AWS: what can be seen without the table is a plain error, the rest a cancellation."""
    bad_key = {"TableName": table, "Key": {"pk": n(1)}}
    bad_item = {"TableName": table, "Item": {"pk": n(1)}}
    mismatch = "The provided key element does not match the schema"
    wrong_type = "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N"
    for action, text in (({"Delete": bad_key}, mismatch), ({"Put": bad_item}, wrong_type)):
        reasons = cancelled(ddb, [put(table, key), action])
        assert [reason["Code"] for reason in reasons] == ["None", "ValidationError"]
        assert reasons[1]["Message"] == text
    assert get(ddb, table, pk=s(key)) is None


def test_an_unknown_table_refuses_the_transaction(ddb, table, key):
    with refused("ResourceNotFoundException", "Requested resource not found"):
        ddb.transact_write_items(TransactItems=[put(table, key), put("e2e.not-there", key)])
    assert get(ddb, table, pk=s(key)) is None


# ---- tokens ----


def test_a_repeated_token_does_the_work_once(ddb, table, key):
    request = {"TransactItems": [update(table, key)], "ClientRequestToken": str(uuid.uuid4())}
    for _ in range(3):
        ddb.transact_write_items(**request)
    assert get(ddb, table, pk=s(key))["v"] == n(1)
    ddb.transact_write_items(**{**request, "ClientRequestToken": str(uuid.uuid4())})
    assert get(ddb, table, pk=s(key))["v"] == n(2)


def test_a_token_used_for_another_request_is_refused(ddb, table, key):
    token = str(uuid.uuid4())
    ddb.transact_write_items(TransactItems=[update(table, key)], ClientRequestToken=token)
    with refused("IdempotentParameterMismatchException"):
        ddb.transact_write_items(TransactItems=[update(table, key + "other")], ClientRequestToken=token)
    assert get(ddb, table, pk=s(key + "other")) is None


def test_a_cancelled_transaction_does_not_use_up_its_token(ddb, table, key):
    token = str(uuid.uuid4())
    request = [update(table, key, ConditionExpression="attribute_exists(pk)")]
    cancelled(ddb, request, ClientRequestToken=token)
    ddb.put_item(TableName=table, Item={"pk": s(key)})
    ddb.transact_write_items(TransactItems=request, ClientRequestToken=token)
    assert get(ddb, table, pk=s(key))["v"] == n(1)


def test_a_token_is_at_most_36_characters_long(ddb, table, key):
    ddb.transact_write_items(TransactItems=[put(table, key)], ClientRequestToken=str(uuid.uuid4()))
    for token in ("t" * 37, ""):
        with invalid():
            ddb.transact_write_items(TransactItems=[put(table, key + "x")], ClientRequestToken=token)
    assert get(ddb, table, pk=s(key + "x")) is None


# ---- reads ----


def test_a_transaction_reads_in_order_with_gaps_for_what_is_absent(ddb, table, pairs, key):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1), "w": n(2)})
    ddb.put_item(TableName=pairs, Item={"pk": s(key), "sk": s("x")})
    answer = ddb.transact_get_items(
        TransactItems=[
            {"Get": {"TableName": pairs, "Key": {"pk": s(key), "sk": s("x")}}},
            {"Get": {"TableName": table, "Key": {"pk": s(key + "absent")}}},
            {"Get": {"TableName": table, "Key": {"pk": s(key)}, "ProjectionExpression": "w"}},
        ]
    )
    assert answer["Responses"] == [{"Item": {"pk": s(key), "sk": s("x")}}, {}, {"Item": {"w": n(2)}}]


def test_a_bad_read_in_a_transaction_is_refused(ddb, table):
    with invalid():
        ddb.transact_get_items(TransactItems=[])
    with refused("ResourceNotFoundException"):
        ddb.transact_get_items(TransactItems=[{"Get": {"TableName": "e2e.not-there", "Key": {"pk": s("x")}}}])


def test_no_reader_sees_half_a_transaction(ddb, table, key):
    """One thread moves a unit from a to b, over and over; the sum every reader sees never changes."""
    ddb.put_item(TableName=table, Item={"pk": s(key + "a"), "v": n(50)})
    ddb.put_item(TableName=table, Item={"pk": s(key + "b"), "v": n(0)})
    gets = [{"Get": {"TableName": table, "Key": {"pk": s(key + side)}}} for side in "ab"]

    def move():
        for _ in range(50):
            take = update(table, key + "a", "SET v = v - :one", ConditionExpression="v >= :one")
            ddb.transact_write_items(TransactItems=[take, update(table, key + "b")])

    mover = threading.Thread(target=move)
    mover.start()
    sums = set()
    while mover.is_alive():
        answer = ddb.transact_get_items(TransactItems=gets)
        sums.add(sum(int(response["Item"]["v"]["N"]) for response in answer["Responses"]))
    mover.join()
    assert sums <= {50}
    assert get(ddb, table, pk=s(key + "b"))["v"] == n(50)
