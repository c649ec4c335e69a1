"""One item at a time: PutItem, GetItem, DeleteItem, and what a value may be. UpdateItem is in test_updates.py."""

from decimal import Decimal

import pytest
from botocore.exceptions import ClientError

from helpers import b, condition_failed, get, invalid, n, s

ITEM_BYTES_MAX = 400 * 1024
DEPTH_MAX = 32
TOO_DEEP = (
    "1 validation error detected: Nesting Levels have exceeded supported limits: "
    "Attributes in the item have nested levels beyond supported limit"
)

EVERY_TYPE = {
    "S": s("text"),
    "S-empty": s(""),
    "S-unicode": s("grüße 漢字 🗝 \u0000 \u2028 \\ \" /"),
    "N-int": n(42),
    "N-negative": n("-0.5"),
    "N-38-digits": n("12345678901234567890123456789012345678"),
    "N-38-decimals": n("0.12345678901234567890123456789012345678"),
    "B": b(bytes(range(256))),
    "B-empty": b(b""),
    "BOOL-true": {"BOOL": True},
    "BOOL-false": {"BOOL": False},
    "NULL": {"NULL": True},
    "L": {"L": [s("a"), n(1), {"L": []}, {"NULL": True}]},
    "L-empty": {"L": []},
    "M": {"M": {"a": s("x"), "b": {"M": {"c": {"L": [b(b"\x00")]}}}}},
    "M-empty": {"M": {}},
    "M-empty-name-inside": {"M": {"x": s("")}},
}
SETS = {
    "SS": {"SS": ["b", "a", "ü"]},
    "NS": {"NS": ["3", "-1", "2.5"]},
    "BS": {"BS": [b"\x02", b"\x01\xff"]},
}


@pytest.mark.parametrize("name", EVERY_TYPE)
def test_a_value_comes_back_as_it_was_put(ddb, table, key, name):
    item = {"pk": s(key), "v": EVERY_TYPE[name]}
    ddb.put_item(TableName=table, Item=item)
    assert get(ddb, table, pk=s(key)) == item


@pytest.mark.parametrize("name", SETS)
def test_a_set_comes_back_with_the_same_members(ddb, table, key, name):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": SETS[name]})
    found = get(ddb, table, pk=s(key))["v"]
    assert list(found) == [name]
    assert sorted(found[name]) == sorted(SETS[name][name])


def test_all_types_live_together_in_one_item(ddb, table, key):
    item = {"pk": s(key), **EVERY_TYPE}
    ddb.put_item(TableName=table, Item=item)
    assert get(ddb, table, pk=s(key)) == item


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("007", "7"),
        ("1.500", "1.5"),
        ("1e2", "100"),
        ("1.0E+2", "100"),
        ("-12e-3", "-0.012"),
        ("1000000000000000000000000000000000000000", "1000000000000000000000000000000000000000"),
        ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
    ],
)
def test_numbers_come_back_in_their_shortest_plain_form(ddb, table, key, sent, kept):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(sent)})
    assert get(ddb, table, pk=s(key))["v"] == n(kept)


@pytest.mark.parametrize("number", ["9.9999999999999999999999999999999999999E+125", "-1E125", "1E-130", "-1E-130"])
def test_numbers_at_the_edge_of_the_range_are_kept_exactly(ddb, table, key, number):
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(number)})
    assert Decimal(get(ddb, table, pk=s(key))["v"]["N"]) == Decimal(number)


def test_names_may_be_any_unicode(ddb, table, key):
    names = ["ключ", "鍵", "🔑", "with space", "a.b", "a[0]", "#x", ":y", 'q"uote', "x" * 255]
    item = {"pk": s(key), **{name: s(name) for name in names}}
    ddb.put_item(TableName=table, Item=item)
    assert get(ddb, table, pk=s(key)) == item
    answer = ddb.get_item(
        TableName=table,
        Key={"pk": s(key)},
        ProjectionExpression="#a, #b",
        ExpressionAttributeNames={"#a": "🔑", "#b": "a.b"},
    )
    assert answer["Item"] == {"🔑": s("🔑"), "a.b": s("a.b")}


@pytest.mark.parametrize(
    ("types", "value"),
    [("S", s("grüße")), ("N", n("-12.5")), ("B", b(b"\x00\xff"))],
    ids=["string", "number", "binary"],
)
def test_keys_may_be_strings_numbers_and_binary(ddb, tables, types, value):
    name = tables.make(f"pk:{types}")
    ddb.put_item(TableName=name, Item={"pk": value, "v": s("x")})
    assert get(ddb, name, pk=value) == {"pk": value, "v": s("x")}
    ddb.delete_item(TableName=name, Key={"pk": value})
    assert get(ddb, name, pk=value) is None


def test_a_number_key_is_found_in_any_spelling(ddb, tables):
    name = tables.make("pk:N")
    ddb.put_item(TableName=name, Item={"pk": n("1.50")})
    assert get(ddb, name, pk=n("15e-1")) == {"pk": n("1.5")}


def test_put_replaces_the_whole_item_and_can_return_the_old_one(ddb, table, key):
    first = {"pk": s(key), "a": n(1), "b": n(2)}
    assert "Attributes" not in ddb.put_item(TableName=table, Item=first, ReturnValues="ALL_OLD")
    second = {"pk": s(key), "c": n(3)}
    assert ddb.put_item(TableName=table, Item=second, ReturnValues="ALL_OLD")["Attributes"] == first
    assert get(ddb, table, pk=s(key)) == second


@pytest.mark.parametrize("values", ["ALL_NEW", "UPDATED_OLD", "UPDATED_NEW", "SOME"])
def test_put_and_delete_return_only_none_or_all_old(ddb, table, key, values):
    with invalid():
        ddb.put_item(TableName=table, Item={"pk": s(key)}, ReturnValues=values)
    with invalid():
        ddb.delete_item(TableName=table, Key={"pk": s(key)}, ReturnValues=values)
    assert get(ddb, table, pk=s(key)) is None


def test_an_absent_item_is_an_answer_without_item(ddb, table, key):
    answer = ddb.get_item(TableName=table, Key={"pk": s(key)})
    assert "Item" not in answer


def test_delete_removes_returns_and_does_not_mind_what_is_absent(ddb, table, key):
    item = {"pk": s(key), "v": n(1)}
    ddb.put_item(TableName=table, Item=item)
    assert ddb.delete_item(TableName=table, Key={"pk": s(key)}, ReturnValues="ALL_OLD")["Attributes"] == item
    assert "Attributes" not in ddb.delete_item(TableName=table, Key={"pk": s(key)}, ReturnValues="ALL_OLD")


def test_conditions_guard_put_and_delete(ddb, table, key):
    fresh = {"ConditionExpression": "attribute_not_exists(pk)"}
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1)}, **fresh)
    with condition_failed():
        ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(2)}, **fresh)
    wrong = {"ConditionExpression": "v = :v", "ExpressionAttributeValues": {":v": n(2)}}
    with condition_failed():
        ddb.delete_item(TableName=table, Key={"pk": s(key)}, **wrong)
    assert get(ddb, table, pk=s(key))["v"] == n(1)
    ddb.delete_item(TableName=table, Key={"pk": s(key)}, ConditionExpression="attribute_exists(pk)")
    with condition_failed():
        ddb.delete_item(TableName=table, Key={"pk": s(key)}, ConditionExpression="attribute_exists(pk)")


CONDITION_ITEM = {
    "n": n(5),
    "s": s("hello"),
    "b": b(b"abc"),
    "t": {"BOOL": True},
    "z": {"NULL": True},
    "l": {"L": [n(1), s("two"), {"M": {"deep": s("x")}}]},
    "m": {"M": {"in": {"M": {"side": n(7)}}}},
    "ss": {"SS": ["a", "b"]},
    "ns": {"NS": ["1", "2"]},
}
VALUES = {
    ":5": n(5), ":6": n("6.0"), ":1": n(1), ":7": n(7), ":he": s("he"), ":ell": s("ell"), ":a": s("a"), ":x": s("x"),
    ":two": s("two"), ":yes": {"BOOL": True}, ":N": s("N"), ":SS": s("SS"), ":L": s("L"), ":ab": b(b"ab"), ":3": n(3),
    ":s5": s("5"), ":list": {"L": [n(1)]}, ":2": n(2),
}  # fmt: skip
TRUE = [
    "n = :5", "n <> :6", "n < :6", "n <= :5", "n > :1", "n >= :5", "n BETWEEN :1 AND :6", "n IN (:1, :5)",
    "NOT n = :6", "n = :5 AND s <> :he", "n = :6 OR t = :yes", "NOT (n = :6 OR n = :1)",
    "attribute_exists(n)", "attribute_not_exists(nope)", "attribute_exists(m.#in.side)", "attribute_not_exists(l[7])",
    "attribute_type(n, :N)", "attribute_type(ss, :SS)", "attribute_type(l, :L)", "begins_with(s, :he)",
    "begins_with(b, :ab)", "contains(s, :ell)", "contains(ss, :a)", "contains(ns, :2)", "contains(l, :two)",
    "size(s) = :5", "size(l) = :3", "size(b) = :3", "size(ss) > :1", "size(m) = :1", "l[0] = :1", "l[2].deep = :x",
    "m.#in.side = :7", "n <> :s5", "nope <> :5", "s > :he", "NOT attribute_exists(nope) AND n=:5",
    "n = :6 OR n = :5 AND t = :yes", "(n = :5)", "NOT NOT n = :5",
]  # fmt: skip
FALSE = [
    "n = :6", "nope = :5", "n = :s5", "n < :s5", "attribute_exists(nope)", "attribute_type(n, :SS)",
    "begins_with(s, :ell)", "contains(ss, :he)", "size(nope) = :5", "l[7] = :1", "s.x = :5", "n BETWEEN :6 AND :7",
    "n IN (:1, :6)", "NOT n = :5", "nope < :5", "z = :5", "l = :list",
]  # fmt: skip


def check(ddb, table, key, expression):
    words = expression.replace("(", " ").replace(")", " ").replace(",", " ").replace("=", " ").split()
    values = {word: VALUES[word] for word in words if word in VALUES}
    request = {"ConditionExpression": expression}
    if values:
        request["ExpressionAttributeValues"] = values
    if "#in" in expression:
        request["ExpressionAttributeNames"] = {"#in": "in"}
    ddb.put_item(TableName=table, Item={"pk": s(key), **CONDITION_ITEM}, **request)


@pytest.mark.parametrize("expression", TRUE)
def test_a_condition_that_holds(ddb, table, key, expression):
    ddb.put_item(TableName=table, Item={"pk": s(key), **CONDITION_ITEM})
    check(ddb, table, key, expression)


@pytest.mark.parametrize("expression", FALSE)
def test_a_condition_that_does_not_hold(ddb, table, key, expression):
    ddb.put_item(TableName=table, Item={"pk": s(key), **CONDITION_ITEM})
    with condition_failed():
        check(ddb, table, key, expression)


def test_a_projection_picks_paths_and_leaves_out_what_is_absent(ddb, table, key):
    item = {"pk": s(key), "a": n(1), "m": {"M": {"x": n(2), "y": n(3)}}, "l": {"L": [n(10), n(11), n(12)]}}
    ddb.put_item(TableName=table, Item=item)
    answer = ddb.get_item(
        TableName=table, Key={"pk": s(key)}, ProjectionExpression="a, m.x, l[2], l[0], nope, m.nope"
    )
    assert answer["Item"] == {"a": n(1), "m": {"M": {"x": n(2)}}, "l": {"L": [n(10), n(12)]}}
    nothing = ddb.get_item(TableName=table, Key={"pk": s(key)}, ProjectionExpression="nope")
    assert nothing["Item"] == {}


def filled(key, total):
    """An item of exactly `total` bytes, as DynamoDB counts: names and values, in UTF-8."""
    return {"pk": s(key), "v": s("x" * (total - len("pk") - len(key.encode()) - len("v")))}


def test_an_item_of_400_kb_is_accepted_and_a_byte_more_refused(ddb, table):
    ddb.put_item(TableName=table, Item=filled("large", ITEM_BYTES_MAX))
    assert len(get(ddb, table, pk=s("large"))["v"]["S"]) == ITEM_BYTES_MAX - 8
    with invalid("Item size has exceeded the maximum allowed size"):
        ddb.put_item(TableName=table, Item=filled("larger", ITEM_BYTES_MAX + 1))
    assert get(ddb, table, pk=s("larger")) is None
    grow = {"UpdateExpression": "SET w = :w", "ExpressionAttributeValues": {":w": s("")}}
    with invalid("Item size to update has exceeded the maximum allowed size"):
        ddb.update_item(TableName=table, Key={"pk": s("large")}, **grow)
    assert "w" not in get(ddb, table, pk=s("large"))
    ddb.delete_item(TableName=table, Key={"pk": s("large")})


def nested(kind, levels):
    value = s("core")
    for _ in range(levels):
        value = {"L": [value]} if kind == "L" else {"M": {"a": value}}
    return value


@pytest.mark.parametrize("kind", ["L", "M"])
def test_values_nest_32_deep_and_no_deeper(ddb, table, key, kind):
    """The innermost value counts: 31 lists around a string make 32 levels, as measured on AWS."""
    item = {"pk": s(key), "v": nested(kind, DEPTH_MAX - 1)}
    ddb.put_item(TableName=table, Item=item)
    assert get(ddb, table, pk=s(key)) == item
    with invalid(TOO_DEEP):
        ddb.put_item(TableName=table, Item={"pk": s(key), "v": nested(kind, DEPTH_MAX)})
    assert get(ddb, table, pk=s(key)) == item


def test_keys_have_a_longest_length(ddb, pairs):
    """2048 bytes for a hash key, 1024 for a range key."""
    item = {"pk": s("p" * 2048), "sk": s("s" * 1024)}
    ddb.put_item(TableName=pairs, Item=item)
    assert get(ddb, pairs, **item) == item
    with invalid():
        ddb.put_item(TableName=pairs, Item={**item, "pk": s("p" * 2049)})
    with invalid():
        ddb.put_item(TableName=pairs, Item={**item, "sk": s("s" * 1025)})


def test_legacy_parameters_are_read_or_refused_but_never_ignored(ddb, table, key):
    """Expected and AttributeUpdates are the protocol of 2012. A server may refuse them; it must not drop them."""
    ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(1)})
    try:
        ddb.put_item(TableName=table, Item={"pk": s(key), "v": n(2)}, Expected={"v": {"Value": n(9)}})
    except ClientError as error:
        assert error.response["Error"]["Code"] in ("ConditionalCheckFailedException", "ValidationException")
    assert get(ddb, table, pk=s(key))["v"] == n(1)
