"""BatchGetItem and BatchWriteItem: what they do, their sizes, and what they refuse as a whole."""

import pytest

from helpers import get, invalid, n, put_many, refused, s

BATCH_GET_MAX = 100
BATCH_WRITE_MAX = 25
DUPLICATES = "Provided list of item keys contains duplicates"


def key_list(prefix, count):
    return [{"pk": s(f"{prefix}{number}")} for number in range(count)]


def put_requests(prefix, count):
    return [{"PutRequest": {"Item": {**key, "v": n(1)}}} for key in key_list(prefix, count)]


def test_writes_put_and_delete_in_several_tables(ddb, table, pairs, key):
    ddb.put_item(TableName=table, Item={"pk": s(key + "gone")})
    answer = ddb.batch_write_item(
        RequestItems={
            table: [
                {"PutRequest": {"Item": {"pk": s(key), "v": n(1)}}},
                {"DeleteRequest": {"Key": {"pk": s(key + "gone")}}},
                {"DeleteRequest": {"Key": {"pk": s(key + "never")}}},
            ],
            pairs: [{"PutRequest": {"Item": {"pk": s(key), "sk": s("x")}}}],
        }
    )
    assert answer["UnprocessedItems"] == {}
    assert get(ddb, table, pk=s(key))["v"] == n(1)
    assert get(ddb, table, pk=s(key + "gone")) is None
    assert get(ddb, pairs, pk=s(key), sk=s("x")) is not None


def test_25_writes_are_accepted_and_26_refused(ddb, table, key):
    ddb.batch_write_item(RequestItems={table: put_requests(key, BATCH_WRITE_MAX)})
    assert get(ddb, table, pk=s(f"{key}24")) is not None
    with invalid():
        ddb.batch_write_item(RequestItems={table: put_requests(key + "b", BATCH_WRITE_MAX + 1)})
    assert get(ddb, table, pk=s(f"{key}b0")) is None


def test_26_writes_over_two_tables_are_refused_too(ddb, table, pairs, key):
    request = {table: put_requests(key, 13), pairs: []}
    request[pairs] = [{"PutRequest": {"Item": {"pk": s(key), "sk": s(f"{i}")}}} for i in range(13)]
    with invalid():
        ddb.batch_write_item(RequestItems=request)
    assert get(ddb, table, pk=s(f"{key}0")) is None


def test_the_same_key_twice_in_a_write_is_refused_and_nothing_written(ddb, table, key):
    put = {"PutRequest": {"Item": {"pk": s(key)}}}
    other = {"PutRequest": {"Item": {"pk": s(key + "other")}}}
    for again in (put, {"DeleteRequest": {"Key": {"pk": s(key)}}}):
        with invalid(DUPLICATES):
            ddb.batch_write_item(RequestItems={table: [other, put, again]})
    assert get(ddb, table, pk=s(key)) is None and get(ddb, table, pk=s(key + "other")) is None


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [{}],
        [{"PutRequest": {"Item": {"other": s("x")}}}],
        [{"PutRequest": {"Item": {"pk": n(1)}}}],
        [{"DeleteRequest": {"Key": {"pk": s("x"), "more": s("y")}}}],
        [{"DeleteRequest": {"Key": {}}}],
        [{"PutRequest": {}}],
        [{"PutRequest": {"Item": {"pk": s("")}}}],
    ],
)
def test_one_bad_write_refuses_the_whole_batch(ddb, table, key, requests):
    good = [{"PutRequest": {"Item": {"pk": s(key)}}}] if requests else []
    with invalid():
        ddb.batch_write_item(RequestItems={table: good + requests})
    assert get(ddb, table, pk=s(key)) is None


def test_a_put_without_its_key_is_told_of_the_schema(ddb, table):
    """Not of the missing key, as PutItem would: so measured on AWS."""
    for item in ({"other": s("x")}, {"pk": n(5)}):
        with invalid("The provided key element does not match the schema"):
            ddb.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": item}}]})


@pytest.mark.gatehouse_only
def test_a_request_that_is_both_put_and_delete_is_refused(ddb, table, key):
    """Others do one of the two and say nothing."""
    both = {"PutRequest": {"Item": {"pk": s(key)}}, "DeleteRequest": {"Key": {"pk": s(key + "2")}}}
    with invalid():
        ddb.batch_write_item(RequestItems={table: [both]})
    assert get(ddb, table, pk=s(key)) is None


def test_an_unknown_table_refuses_the_whole_batch(ddb, table, key):
    request = {table: [{"PutRequest": {"Item": {"pk": s(key)}}}], "e2e.not-there": put_requests("x", 1)}
    with refused("ResourceNotFoundException", "Requested resource not found"):
        ddb.batch_write_item(RequestItems=request)
    assert get(ddb, table, pk=s(key)) is None
    with refused("ResourceNotFoundException", "Requested resource not found"):
        ddb.batch_get_item(RequestItems={"e2e.not-there": {"Keys": [{"pk": s("x")}]}})


def test_an_item_too_large_refuses_the_whole_batch(ddb, table, key):
    large = {"PutRequest": {"Item": {"pk": s(key + "large"), "v": s("x" * 400 * 1024)}}}
    with invalid("Item size has exceeded the maximum allowed size"):
        ddb.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": {"pk": s(key)}}}, large]})
    assert get(ddb, table, pk=s(key)) is None


def test_a_batch_of_no_tables_is_refused(ddb):
    with invalid():
        ddb.batch_write_item(RequestItems={})
    with invalid():
        ddb.batch_get_item(RequestItems={})


def test_gets_find_what_is_there_in_several_tables(ddb, table, pairs, key):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1), "w": n(2)})
    ddb.put_item(TableName=pairs, Item={"pk": s(key), "sk": s("x"), "v": n(3)})
    answer = ddb.batch_get_item(
        RequestItems={
            table: {"Keys": [{"pk": s(key)}, {"pk": s(key + "absent")}], "ProjectionExpression": "v"},
            pairs: {"Keys": [{"pk": s(key), "sk": s("x")}], "ConsistentRead": True},
        }
    )
    assert answer["Responses"] == {
        table: [{"v": n(1)}],
        pairs: [{"pk": s(key), "sk": s("x"), "v": n(3)}],
    }
    assert answer["UnprocessedKeys"] == {}


def test_100_gets_are_accepted_and_101_refused(ddb, table, key):
    put_many(ddb, table, [{**k, "v": n(1)} for k in key_list(key, BATCH_GET_MAX)])
    answer = ddb.batch_get_item(RequestItems={table: {"Keys": key_list(key, BATCH_GET_MAX)}})
    assert len(answer["Responses"][table]) == BATCH_GET_MAX
    with invalid():
        ddb.batch_get_item(RequestItems={table: {"Keys": key_list(key, BATCH_GET_MAX + 1)}})


def test_the_same_key_twice_in_a_get_is_refused(ddb, table, key):
    with invalid(DUPLICATES):
        ddb.batch_get_item(RequestItems={table: {"Keys": [{"pk": s(key)}, {"pk": s(key)}]}})


@pytest.mark.parametrize("keys", [[], [{}], [{"pk": n(1)}], [{"pk": s("a"), "b": s("b")}], [{"wrong": s("a")}]])
def test_keys_that_are_no_keys_of_the_table_are_refused(ddb, table, keys):
    with invalid():
        ddb.batch_get_item(RequestItems={table: {"Keys": keys}})


def test_what_does_not_fit_into_16_mb_comes_back_as_unprocessed(ddb, tables):
    """50 items of 390 KB: each answer holds at most 16 MB, and asking again for the rest gets everything."""
    table = tables.make("pk:S")
    text = "x" * 390 * 1024
    for number in range(50):
        ddb.put_item(TableName=table, Item={"pk": s(f"{number}"), "v": s(text)})
    wanted = {table: {"Keys": [{"pk": s(f"{number}")} for number in range(50)]}}
    seen, rounds = [], 0
    while wanted:
        answer = ddb.batch_get_item(RequestItems=wanted)
        items = answer["Responses"].get(table, [])
        assert 0 < len(items) <= 42
        seen += [item["pk"]["S"] for item in items]
        wanted = answer["UnprocessedKeys"]
        rounds += 1
    assert sorted(seen, key=int) == [f"{number}" for number in range(50)]
    assert rounds == 2
