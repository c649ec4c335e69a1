"""Query and Scan: every key operator, both directions, pages, filters, projections, counts, parallel segments."""

import pytest

from helpers import all_items, b, get, invalid, n, pages, put_many, refused, s, strings


@pytest.fixture(scope="module")
def words(ddb, module_tables):
    """Two partitions: the first has ten range keys w00 … w09 and x, with a number each."""
    table = module_tables.make("pk:S", "sk:S", hint="words")
    keys = [f"w{number:02}" for number in range(10)] + ["x"]
    items = [{"pk": s("a"), "sk": s(key), "v": n(i), "even": {"BOOL": i % 2 == 0}} for i, key in enumerate(keys)]
    put_many(ddb, table, items + [{"pk": s("other"), "sk": s("w00"), "v": n(100)}])
    return table


@pytest.fixture(scope="module")
def numbers(ddb, module_tables):
    table = module_tables.make("pk:S", "sk:N", hint="numbers")
    put_many(ddb, table, [{"pk": s("a"), "sk": n(value)} for value in NUMBERS])
    return table


@pytest.fixture(scope="module")
def big(ddb, module_tables):
    """Nine items of 250 KB in one partition."""
    table = module_tables.make("pk:S", "sk:S", hint="big")
    for number in range(9):
        item = {"pk": s("a"), "sk": s(f"{number}"), "v": s("x" * 250 * 1024)}
        ddb.put_item(TableName=table, Item=item)
    return table


WRONG_TYPE = "One or more parameter values were invalid: Condition parameter type does not match schema type"
NUMBERS = ["-1E+20", "-10", "-9.5", "-0.001", "0", "1E-100", "0.5", "2", "10", "100", "12345678901234567890"]


def found(ddb, table, condition, values=None, **more):
    values = {":pk": s("a"), **(values or {})}
    items = all_items(
        ddb.query,
        TableName=table,
        KeyConditionExpression="pk = :pk" + condition,
        ExpressionAttributeValues=values,
        **more,
    )
    return strings(items, "sk")


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("", {}, ["w00", "w01", "w02", "w03", "w04", "w05", "w06", "w07", "w08", "w09", "x"]),
        (" AND sk = :x", {":x": s("w03")}, ["w03"]),
        (" AND sk = :x", {":x": s("w")}, []),
        (" AND sk < :x", {":x": s("w02")}, ["w00", "w01"]),
        (" AND sk <= :x", {":x": s("w02")}, ["w00", "w01", "w02"]),
        (" AND sk > :x", {":x": s("w08")}, ["w09", "x"]),
        (" AND sk >= :x", {":x": s("w08")}, ["w08", "w09", "x"]),
        (" AND sk BETWEEN :x AND :y", {":x": s("w03"), ":y": s("w05")}, ["w03", "w04", "w05"]),
        (" AND begins_with(sk, :x)", {":x": s("w0")}, [f"w{i:02}" for i in range(10)]),
        (" AND begins_with(sk, :x)", {":x": s("zz")}, []),
    ],
)
@pytest.mark.parametrize("forward", [True, False], ids=["forward", "backward"])
def test_key_conditions(ddb, words, condition, values, expected, forward):
    wanted = expected if forward else expected[::-1]
    assert found(ddb, words, condition, values, ScanIndexForward=forward) == wanted
    assert found(ddb, words, condition, values, ScanIndexForward=forward, Limit=2) == wanted


def test_the_key_condition_may_come_in_either_order(ddb, words):
    answer = ddb.query(
        TableName=words,
        KeyConditionExpression="#sk = :sk AND #pk = :pk",
        ExpressionAttributeNames={"#pk": "pk", "#sk": "sk"},
        ExpressionAttributeValues={":pk": s("a"), ":sk": s("x")},
    )
    assert answer["Count"] == 1


def test_number_keys_are_ordered_as_numbers(ddb, numbers):
    request = {
        "TableName": numbers,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": s("a")},
    }
    upward = [float(item["sk"]["N"]) for item in all_items(ddb.query, **request, Limit=3)]
    assert upward == [float(value) for value in NUMBERS]
    downward = [float(item["sk"]["N"]) for item in all_items(ddb.query, **request, ScanIndexForward=False)]
    assert downward == upward[::-1]


def test_numbers_between(ddb, numbers):
    answer = ddb.query(
        TableName=numbers,
        KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
        ExpressionAttributeValues={":pk": s("a"), ":low": n("-9.50"), ":high": n("5e-1")},
    )
    assert [item["sk"]["N"] for item in answer["Items"]][:3] == ["-9.5", "-0.001", "0"]
    assert answer["Count"] == 5


def test_binary_keys_are_ordered_as_unsigned_bytes(ddb, tables):
    table = tables.make("pk:B", "sk:B")
    keys = [b"\x00", b"\x00\x00", b"\x01", b"\x7f", b"\x80", b"\xfe\xff", b"\xff", b"\xff\x00"]
    put_many(ddb, table, [{"pk": b(b"p"), "sk": b(key)} for key in reversed(keys)])
    request = {"TableName": table, "ExpressionAttributeValues": {":pk": b(b"p")}}
    answer = ddb.query(KeyConditionExpression="pk = :pk", **request)
    assert [item["sk"]["B"] for item in answer["Items"]] == keys
    request["ExpressionAttributeValues"][":x"] = b(b"\xff")
    answer = ddb.query(KeyConditionExpression="pk = :pk AND begins_with(sk, :x)", **request)
    assert [item["sk"]["B"] for item in answer["Items"]] == [b"\xff", b"\xff\x00"]


def test_strings_are_ordered_by_their_utf8_bytes(ddb, pairs, key):
    keys = ["\u0000", "A", "Z", "a", "aa", "é", "漢", "\uffff", "🔑"]
    put_many(ddb, pairs, [{"pk": s(key), "sk": s(text)} for text in reversed(keys)])
    assert found(ddb, pairs, "", {":pk": s(key)}) == keys


def test_one_partition_does_not_show_in_another(ddb, pairs, key):
    """Keys that share a prefix, or whose parts join to the same bytes, stay apart."""
    for pk, sk in (("a", "bc"), ("ab", "c"), ("a\u0000", "b"), ("a", "\u0000b")):
        ddb.put_item(TableName=pairs, Item={"pk": s(key + pk), "sk": s(sk)})
    assert found(ddb, pairs, "", {":pk": s(key + "a")}) == ["\u0000b", "bc"]
    assert found(ddb, pairs, "", {":pk": s(key + "ab")}) == ["c"]
    assert found(ddb, pairs, "", {":pk": s(key + "a\u0000")}) == ["b"]


def test_limit_counts_what_is_examined_not_what_passes_the_filter(ddb, words):
    answer = ddb.query(
        TableName=words,
        KeyConditionExpression="pk = :pk",
        FilterExpression="even = :no",
        ExpressionAttributeValues={":pk": s("a"), ":no": {"BOOL": False}},
        Limit=4,
    )
    assert (answer["ScannedCount"], answer["Count"]) == (4, 2)
    assert strings(answer["Items"], "sk") == ["w01", "w03"]
    assert answer["LastEvaluatedKey"] == {"pk": s("a"), "sk": s("w03")}


def test_a_page_may_be_empty_and_still_not_the_last(ddb, words):
    request = {
        "TableName": words,
        "KeyConditionExpression": "pk = :pk",
        "FilterExpression": "v = :v",
        "ExpressionAttributeValues": {":pk": s("a"), ":v": n(10)},
        "Limit": 1,
    }
    counts = [page["Count"] for page in pages(ddb.query, **request)]
    assert sum(counts) == 1 and counts[0] == 0


def test_a_query_may_start_at_a_key_that_is_not_there(ddb, words):
    start = {"pk": s("a"), "sk": s("w045")}
    assert found(ddb, words, "", ExclusiveStartKey=start)[0] == "w05"
    assert found(ddb, words, "", ExclusiveStartKey=start, ScanIndexForward=False)[0] == "w04"


def test_count_gives_numbers_without_items(ddb, words):
    answer = ddb.query(
        TableName=words,
        Select="COUNT",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": s("a")},
    )
    assert (answer["Count"], answer["ScannedCount"]) == (11, 11)
    assert "Items" not in answer


def test_a_projection_limits_what_comes_back(ddb, words):
    answer = ddb.query(
        TableName=words,
        KeyConditionExpression="pk = :pk AND sk = :sk",
        ExpressionAttributeValues={":pk": s("a"), ":sk": s("w01")},
        ProjectionExpression="#v, sk",
        ExpressionAttributeNames={"#v": "v"},
    )
    assert answer["Items"] == [{"sk": s("w01"), "v": n(1)}]
    answer = ddb.query(
        TableName=words,
        KeyConditionExpression="pk = :pk AND sk = :sk",
        ExpressionAttributeValues={":pk": s("a"), ":sk": s("w01")},
        Select="SPECIFIC_ATTRIBUTES",
        ProjectionExpression="v",
    )
    assert answer["Items"] == [{"v": n(1)}]


def test_an_empty_partition_answers_with_no_items(ddb, words):
    answer = ddb.query(
        TableName=words, KeyConditionExpression="pk = :pk", ExpressionAttributeValues={":pk": s("nobody")}
    )
    assert answer["Items"] == [] and answer["Count"] == 0 and answer["ScannedCount"] == 0
    assert "LastEvaluatedKey" not in answer


@pytest.mark.parametrize("read", ["query", "scan"])
def test_a_page_ends_at_one_megabyte(ddb, big, read):
    asked = {"TableName": big}
    if read == "query":
        asked |= {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": s("a")}}
    seen = list(pages(getattr(ddb, read), **asked))
    assert sorted(strings([item for page in seen for item in page["Items"]], "sk")) == [f"{i}" for i in range(9)]
    # Four items of 250 KB fit, the fifth passes the mark: it may close the page or open the next one.
    assert len(seen) in (2, 3) and seen[0]["Count"] in (4, 5)
    assert seen[0]["LastEvaluatedKey"]["pk"] == s("a")


@pytest.mark.parametrize(
    ("request_part", "message"),
    [
        ({}, "1 validation error detected: Either the KeyConditions or KeyConditionExpression parameter must be specified in the request."),
        ({"KeyConditionExpression": "sk = :a"}, "Query condition missed key schema element: pk"),
        ({"KeyConditionExpression": "pk = :a AND v = :b"}, "Query condition missed key schema element: sk"),
        ({"KeyConditionExpression": "pk > :a"}, "1 validation error detected: Query key condition not supported"),
        ({"KeyConditionExpression": "begins_with(pk, :a)"}, "1 validation error detected: Query key condition not supported"),
        ({"KeyConditionExpression": "pk = :a AND sk <> :b"}, None),
        ({"KeyConditionExpression": "pk = :a OR sk = :b"}, None),
        ({"KeyConditionExpression": "pk = :a AND NOT sk = :b"}, None),
        ({"KeyConditionExpression": "pk = :a AND contains(sk, :b)"}, None),
        ({"KeyConditionExpression": "pk = :a AND sk = :b AND v = :c"}, None),
        ({"KeyConditionExpression": "pk = :a AND sk = :b AND sk > :c"}, None),
        ({"KeyConditionExpression": "pk = :a AND sk IN (:b, :c)"}, None),
        ({"KeyConditionExpression": "pk = :n"}, WRONG_TYPE),
        ({"KeyConditionExpression": "pk = :a AND begins_with(sk, :n)"}, None),
        ({"KeyConditionExpression": "pk = :a", "FilterExpression": "sk = :b"},
         "Filter Expression can only contain non-primary key attributes: Primary key attribute: sk"),
        ({"KeyConditionExpression": "pk = :a", "Limit": 0}, None),
        ({"KeyConditionExpression": "pk = :a", "Limit": -5}, None),
        ({"KeyConditionExpression": "pk = :a", "Select": "SOME"}, None),
        ({"KeyConditionExpression": "pk = :a", "Select": "SPECIFIC_ATTRIBUTES"}, None),
        ({"KeyConditionExpression": "pk = :a", "Select": "ALL_PROJECTED_ATTRIBUTES"}, None),
        ({"KeyConditionExpression": "pk = :a", "Select": "COUNT", "ProjectionExpression": "v"}, None),
        ({"KeyConditionExpression": "pk = :a", "IndexName": "nope"},
         "The table does not have the specified index: nope"),
        ({"KeyConditionExpression": "pk = :a", "ExclusiveStartKey": {"pk": s("a")}},
         "The provided starting key is invalid: The provided key element does not match the schema"),
        ({"KeyConditionExpression": "pk = :a", "ExclusiveStartKey": {"pk": s("z"), "sk": s("1")}},
         "The provided starting key is outside query boundaries based on provided conditions"),
    ],
)  # fmt: skip
def test_a_query_that_makes_no_sense_is_refused(ddb, words, request_part, message):
    known = {":a": s("a"), ":b": s("b"), ":c": s("c"), ":n": n(1)}
    text = request_part.get("KeyConditionExpression", "") + request_part.get("FilterExpression", "")
    values = {name: value for name, value in known.items() if name in text}
    request = {"TableName": words, **request_part}
    if values:
        request["ExpressionAttributeValues"] = values
    with invalid(message):
        ddb.query(**request)


def test_an_index_that_is_not_there_is_refused_on_scan_too(ddb, words):
    with invalid("The table does not have the specified index: nope"):
        ddb.scan(TableName=words, IndexName="nope")


# ---- scan ----


@pytest.fixture(scope="module")
def many(ddb, module_tables):
    """300 items in 60 partitions."""
    table = module_tables.make("pk:S", "sk:S", hint="many")
    items = [{"pk": s(f"p{i % 60}"), "sk": s(f"s{i // 60}"), "v": n(i)} for i in range(300)]
    put_many(ddb, table, items)
    return table


def values_of(items):
    return sorted(int(item["v"]["N"]) for item in items)


@pytest.mark.parametrize("limit", [None, 1, 7, 299, 300, 301])
def test_a_scan_in_pages_sees_each_item_once(ddb, many, limit):
    request = {"TableName": many} if limit is None else {"TableName": many, "Limit": limit}
    seen = list(pages(ddb.scan, **request))
    assert values_of(item for page in seen for item in page["Items"]) == list(range(300))
    assert all(page["Count"] == len(page["Items"]) <= (limit or 300) for page in seen)


@pytest.mark.parametrize("segments", [1, 2, 5, 64, 1000])
def test_parallel_segments_cover_everything_exactly_once(ddb, many, segments):
    seen = []
    for segment in range(segments):
        seen += all_items(ddb.scan, TableName=many, Segment=segment, TotalSegments=segments, Limit=50)
    assert values_of(seen) == list(range(300))


def test_segments_share_the_work(ddb, many):
    sizes = [len(all_items(ddb.scan, TableName=many, Segment=i, TotalSegments=4)) for i in range(4)]
    assert max(sizes) < 300 and sizes.count(0) <= 1


@pytest.mark.parametrize(
    "part",
    [
        {"Segment": 0},
        {"TotalSegments": 2},
        {"Segment": 2, "TotalSegments": 2},
        {"Segment": -1, "TotalSegments": 2},
        {"Segment": 0, "TotalSegments": 0},
        {"Segment": 0, "TotalSegments": 1000001},
        {"Limit": 0},
    ],
)
def test_segments_and_limits_that_make_no_sense_are_refused(ddb, many, part):
    with invalid():
        ddb.scan(TableName=many, **part)


def test_a_start_key_of_another_segment_is_refused(ddb, many):
    """Dynoxide accepts it."""
    keys = [ddb.scan(TableName=many, Segment=i, TotalSegments=4, Limit=1).get("LastEvaluatedKey") for i in range(4)]
    mine, theirs = [i for i, key in enumerate(keys) if key][:2]
    with invalid():
        ddb.scan(TableName=many, Segment=mine, TotalSegments=4, ExclusiveStartKey=keys[theirs])


def test_a_scan_filters_and_projects(ddb, many):
    request = {
        "TableName": many,
        "FilterExpression": "v BETWEEN :low AND :high AND begins_with(sk, :sk)",
        "ProjectionExpression": "v",
        "ExpressionAttributeValues": {":low": n(10), ":high": n(69), ":sk": s("s1")},
    }
    items = all_items(ddb.scan, **request)
    assert sorted(items, key=repr) == [{"v": n(value)} for value in range(60, 70)]
    request.pop("ProjectionExpression")
    assert ddb.scan(**request, Select="COUNT")["Count"] == 10


def test_the_sdk_pages_by_itself(ddb, many):
    found_pages = ddb.get_paginator("scan").paginate(TableName=many, PaginationConfig={"PageSize": 70})
    assert values_of(item for page in found_pages for item in page["Items"]) == list(range(300))


def test_what_was_written_is_read_at_once(ddb, pairs, key):
    for number in range(20):
        ddb.put_item(TableName=pairs, Item={"pk": s(key), "sk": s(f"{number:02}")})
        assert len(found(ddb, pairs, "", {":pk": s(key)}, ConsistentRead=True)) == number + 1
    ddb.delete_item(TableName=pairs, Key={"pk": s(key), "sk": s("00")})
    assert found(ddb, pairs, "", {":pk": s(key)}, ConsistentRead=True)[0] == "01"


def test_reads_of_a_table_that_is_not_there_are_refused(ddb):
    condition = {"KeyConditionExpression": "a = :a", "ExpressionAttributeValues": {":a": s("a")}}
    with refused("ResourceNotFoundException", "Requested resource not found"):
        ddb.query(TableName="e2e.not-there", **condition)
    with refused("ResourceNotFoundException", "Requested resource not found"):
        ddb.scan(TableName="e2e.not-there")
    with refused("ResourceNotFoundException", "Requested resource not found"):
        get(ddb, "e2e.not-there", pk=s("a"))
