"""UpdateItem: every clause of the update expression, every ReturnValues, and what an update may not do."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from helpers import b, condition_failed, get, invalid, n, s

REFERS_TO_NOTHING = "The provided expression refers to an attribute that does not exist in the item"
WRONG_OPERAND = "An operand in the update expression has an incorrect data type"
PART_OF_THE_KEY = (
    "One or more parameter values were invalid: Cannot update attribute pk. This attribute is part of the key"
)
BAD_PATH = "The document path provided in the update expression is invalid for update"


class Row:
    """One item, and updates of it."""

    def __init__(self, ddb, table, key):
        self.ddb, self.table, self.key = ddb, table, {"pk": s(key)}

    def put(self, **attributes):
        self.ddb.put_item(TableName=self.table, Item={**self.key, **attributes})

    def update(self, expression, values=None, names=None, **more):
        request = {"TableName": self.table, "Key": self.key, "UpdateExpression": expression, **more}
        if values:
            request["ExpressionAttributeValues"] = values
        if names:
            request["ExpressionAttributeNames"] = names
        return self.ddb.update_item(**request)

    def now(self):
        """The item without its key; None if it is absent."""
        item = get(self.ddb, self.table, **self.key)
        return item and {name: value for name, value in item.items() if name != "pk"}


@pytest.fixture
def row(ddb, table, key):
    return Row(ddb, table, key)


START = {"n": n(10), "s": s("x"), "l": {"L": [n(1), n(2), n(3)]}, "m": {"M": {"a": n(1)}}, "ss": {"SS": ["a", "b"]}}


@pytest.mark.parametrize(
    ("expression", "values", "changed"),
    [
        ("SET n = :v", {":v": s("new")}, {"n": s("new")}),
        ("SET n = n + :v", {":v": n("0.5")}, {"n": n("10.5")}),
        ("SET n = n - :v", {":v": n(12)}, {"n": n(-2)}),
        ("SET n = :v - n", {":v": n(1)}, {"n": n(-9)}),
        ("SET y = :v + :w", {":v": n(1), ":w": n(2)}, {"y": n(3)}),
        ("SET y = n", None, {"y": n(10)}),
        ("SET y = if_not_exists(y, :v)", {":v": n(1)}, {"y": n(1)}),
        ("SET n = if_not_exists(n, :v)", {":v": n(1)}, {}),
        ("SET y = if_not_exists(y, :z) + :v", {":z": n(0), ":v": n(1)}, {"y": n(1)}),
        ("SET y = if_not_exists(y, n)", None, {"y": n(10)}),
        ("SET l = list_append(l, :v)", {":v": {"L": [n(4)]}}, {"l": {"L": [n(1), n(2), n(3), n(4)]}}),
        ("SET l = list_append(:v, l)", {":v": {"L": [n(0)]}}, {"l": {"L": [n(0), n(1), n(2), n(3)]}}),
        ("SET l[1] = :v", {":v": n(9)}, {"l": {"L": [n(1), n(9), n(3)]}}),
        ("SET l[99] = :v", {":v": n(9)}, {"l": {"L": [n(1), n(2), n(3), n(9)]}}),
        ("SET m.b = :v", {":v": n(2)}, {"m": {"M": {"a": n(1), "b": n(2)}}}),
        ("SET m.a = m.a + :v", {":v": n(1)}, {"m": {"M": {"a": n(2)}}}),
        ("SET n = s, s = n", None, {"n": s("x"), "s": n(10)}),
        ("set n = :v", {":v": n(1)}, {"n": n(1)}),
        ("REMOVE n", None, {"n": None}),
        ("REMOVE n, s, nope", None, {"n": None, "s": None}),
        ("REMOVE l[0]", None, {"l": {"L": [n(2), n(3)]}}),
        ("REMOVE l[0], l[2]", None, {"l": {"L": [n(2)]}}),
        ("REMOVE l[9]", None, {}),
        ("REMOVE m.a", None, {"m": {"M": {}}}),
        ("ADD n :v", {":v": n(5)}, {"n": n(15)}),
        ("ADD y :v", {":v": n(5)}, {"y": n(5)}),
        ("ADD y :v", {":v": {"NS": ["1"]}}, {"y": {"NS": ["1"]}}),
        ("ADD m.c :v", {":v": n(5)}, {"m": {"M": {"a": n(1), "c": n(5)}}}),
        ("DELETE ss :v", {":v": {"SS": ["a", "zz"]}}, {"ss": {"SS": ["b"]}}),
        ("DELETE ss :v", {":v": {"SS": ["a", "b"]}}, {"ss": None}),
        ("DELETE nope :v", {":v": {"SS": ["a"]}}, {}),
        ("SET y = :v REMOVE n ADD c :w DELETE ss :x", {":v": n(1), ":w": n(2), ":x": {"SS": ["b"]}},
         {"y": n(1), "n": None, "c": n(2), "ss": {"SS": ["a"]}}),
        ("REMOVE n SET y = n", None, {"n": None, "y": n(10)}),
    ],
)  # fmt: skip
def test_an_update_expression_does_what_it_says(row, expression, values, changed):
    row.put(**START)
    row.update(expression, values)
    expected = {name: value for name, value in {**START, **changed}.items() if value is not None}
    assert row.now() == expected


def test_add_makes_a_union_of_sets(row):
    row.put(**START)
    row.update("ADD ss :v", {":v": {"SS": ["b", "c"]}})
    assert sorted(row.now()["ss"]["SS"]) == ["a", "b", "c"]
    row.update("ADD bs :v", {":v": {"BS": [b"\x01"]}})
    row.update("ADD bs :v", {":v": {"BS": [b"\x02", b"\x01"]}})
    assert sorted(row.now()["bs"]["BS"]) == [b"\x01", b"\x02"]


def test_numbers_are_added_exactly(row):
    big, one = "12345678901234567890123456789012345678", "1"
    row.put(v=n(big))
    row.update("ADD v :one", {":one": n(one)})
    assert row.now()["v"] == n("12345678901234567890123456789012345679")
    row.put(v=n("0.1"))
    row.update("SET v = v + :v", {":v": n("0.2")})
    assert row.now()["v"] == n("0.3")


def test_a_sum_of_more_than_38_digits_is_refused(row):
    row.put(v=n("1e37"))
    with invalid():
        row.update("ADD v :tiny", {":tiny": n("0.01")})
    row.put(v=n("9.9e125"))
    with invalid():
        row.update("ADD v :v", {":v": n("9e125")})
    assert row.now()["v"]["N"].startswith("99")


def test_an_update_of_nothing_creates_the_item(ddb, table, row):
    assert row.now() is None
    ddb.update_item(TableName=table, Key=row.key)
    assert row.now() == {}


@pytest.mark.gatehouse_only
@pytest.mark.parametrize("expression", ["REMOVE nope", "REMOVE nope.deep, nope_too[1]"])
def test_a_remove_on_an_absent_item_creates_nothing(row, expression):
    row.update(expression)
    assert row.ddb.get_item(TableName=row.table, Key=row.key).get("Item") is None


RETURNS = {
    "NONE": None,
    "ALL_OLD": {"n": n(1), "keep": s("k")},
    "UPDATED_OLD": {"n": n(1)},
    "ALL_NEW": {"n": n(2), "keep": s("k"), "fresh": n(7)},
    "UPDATED_NEW": {"n": n(2), "fresh": n(7)},
}


@pytest.mark.parametrize("returns", RETURNS)
def test_return_values_of_a_change(row, returns):
    row.put(n=n(1), keep=s("k"))
    answer = row.update("SET n = n + :v, fresh = :f", {":v": n(1), ":f": n(7)}, ReturnValues=returns)
    expected = RETURNS[returns]
    if expected is not None and returns.startswith("ALL"):
        expected = {**row.key, **expected}
    assert answer.get("Attributes") == expected


@pytest.mark.parametrize(
    ("returns", "expected"),
    [("ALL_OLD", None), ("UPDATED_OLD", None), ("UPDATED_NEW", {"n": n(1)})],
)
def test_return_values_of_a_new_item(row, returns, expected):
    answer = row.update("ADD n :v", {":v": n(1)}, ReturnValues=returns)
    assert answer.get("Attributes") == expected


def test_updated_values_of_a_path_show_that_path_only(row):
    row.put(m={"M": {"a": n(1), "b": n(2)}}, l={"L": [n(1), n(2)]})
    answer = row.update("SET m.a = :v, l[1] = :v", {":v": n(5)}, ReturnValues="UPDATED_NEW")
    assert answer["Attributes"] == {"m": {"M": {"a": n(5)}}, "l": {"L": [n(5)]}}
    answer = row.update("SET m.a = :v", {":v": n(6)}, ReturnValues="UPDATED_OLD")
    assert answer["Attributes"] == {"m": {"M": {"a": n(5)}}}


def test_a_condition_guards_an_update(row):
    row.put(v=n(1))
    row.update("SET v = :new", {":new": n(2), ":old": n(1)}, ConditionExpression="v = :old")
    with condition_failed():
        row.update("SET v = :new", {":new": n(3), ":old": n(1)}, ConditionExpression="v = :old")
    assert row.now()["v"] == n(2)


def test_a_failed_condition_on_an_absent_item_creates_nothing(row):
    with condition_failed():
        row.update("SET v = :v", {":v": n(1)}, ConditionExpression="attribute_exists(pk)")
    assert row.now() is None


def test_the_refused_item_is_shown_where_asked_for(wire, row, table):
    """Sent as JSON: Debian's boto3 is older than the parameter. Dynalite does not know it either."""
    row.put(v=n(1))
    for operation, change in (
        ("UpdateItem", {"Key": row.key, "UpdateExpression": "SET v = :v"}),
        ("PutItem", {"Item": row.key}),
        ("DeleteItem", {"Key": row.key}),
    ):
        request = {
            "TableName": table,
            **change,
            "ConditionExpression": "v = :v",
            "ExpressionAttributeValues": {":v": n(9)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        reply = wire.call(operation, request)
        assert (reply.status, reply.error) == (400, "ConditionalCheckFailedException")
        assert reply.json()["Item"] == {**row.key, "v": n(1)}
        request.pop("ReturnValuesOnConditionCheckFailure")
        assert "Item" not in wire.call(operation, request).json()


@pytest.mark.parametrize(
    ("expression", "values", "message"),
    [
        ("SET y = nope", None, REFERS_TO_NOTHING),
        ("SET nope = nope + :v", {":v": n(1)}, REFERS_TO_NOTHING),
        ("SET l = list_append(nope, :v)", {":v": {"L": []}}, REFERS_TO_NOTHING),
        ("SET n = s + :v", {":v": n(1)}, WRONG_OPERAND),
        ("SET n = list_append(n, :v)", {":v": {"L": []}}, WRONG_OPERAND),
        ("ADD s :v", {":v": n(1)}, WRONG_OPERAND),
        ("ADD ss :v", {":v": {"NS": ["1"]}}, WRONG_OPERAND),
        ("DELETE ss :v", {":v": {"NS": ["1"]}}, WRONG_OPERAND),
        ("DELETE n :v", {":v": {"NS": ["1"]}}, WRONG_OPERAND),
        ("SET nope.a = :v", {":v": n(1)}, BAD_PATH),
        ("SET n.a = :v", {":v": n(1)}, BAD_PATH),
        ("SET m[0] = :v", {":v": n(1)}, BAD_PATH),
        ("SET nope[0] = :v", {":v": n(1)}, BAD_PATH),
        ("REMOVE nope.a", None, BAD_PATH),
    ],
)
def test_an_update_that_the_item_does_not_allow_changes_nothing(row, expression, values, message):
    row.put(**START)
    separator = ", " if expression.startswith("SET ") else " "
    whole = "SET extra = :extra" + separator + expression.removeprefix("SET ")
    with invalid(message):
        row.update(whole, {**(values or {}), ":extra": n(1)})
    assert row.now() == START


@pytest.mark.parametrize("expression", ["SET pk = :v", "REMOVE pk", "ADD pk :v", "DELETE pk :v"])
def test_the_key_cannot_be_updated(row, expression):
    values = None if expression == "REMOVE pk" else {":v": {"SS": ["a"]} if "DEL" in expression else n(1)}
    row.put(n=n(1))
    with invalid(PART_OF_THE_KEY):
        row.update(expression, values)
    assert row.now() == {"n": n(1)}


def test_binary_values_compare_as_bytes(row):
    row.put(v=b(b"\x80"))
    row.update("SET y = :y", {":y": n(1), ":b": b(b"\x7f")}, ConditionExpression="v > :b")
    assert row.now()["y"] == n(1)


def test_a_hundred_updates_from_ten_threads_all_count(ddb, table, key):
    def add(_):
        row = Row(ddb, table, key)
        return row.update("ADD c :one", {":one": n(1)}, ReturnValues="UPDATED_NEW")["Attributes"]["c"]["N"]

    with ThreadPoolExecutor(10) as threads:
        seen = list(threads.map(add, range(100)))
    assert sorted(map(int, seen)) == list(range(1, 101))
