"""What a peer may say in well-formed HTTP: nonsense, too much, too deep. Each is refused in order, nothing is
written, and the server goes on answering: on the same connection, and on a new one (the fixture `unharmed`)."""

import json

import pytest

from helpers import KNOWN_ERRORS, assert_refused, n, s


def deep(kind, levels):
    """DynamoDB's form of lists or maps in each other, as text: too deep for json.dumps."""
    if kind == "L":
        return '{"L":[' * levels + '{"S":"x"}' + "]}" * levels
    return '{"M":{"a":' * levels + '{"S":"x"}' + "}}" * levels


def short(text):
    """A name for a test that fits on a line."""
    return ascii(text)[1:17]


# ---- bodies ----

EVERY_OPERATION = [
    "CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "DescribeTimeToLive",
    "TagResource", "UntagResource", "ListTagsOfResource", "PutItem", "GetItem", "UpdateItem", "DeleteItem", "Query",
    "Scan", "BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems",
]  # fmt: skip
NO_OBJECT = [b"null", b"[]", b"[null]", b"[{}]", b'"text"', b"1", b"true", b"", b" ", b"\x00", b"{", b"}", b"nul"]


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_a_body_that_is_no_object_is_refused_by_every_operation(unharmed, operation):
    for body in NO_OBJECT:
        assert_refused(unharmed.call(operation, body))


@pytest.mark.parametrize("operation", EVERY_OPERATION)
def test_an_empty_object_is_refused_where_something_is_needed(unharmed, operation):
    assert_refused(unharmed.call(operation, {}))


@pytest.mark.parametrize(
    "requests",
    [[None], [[]], [[None]], [1], ["x"], [{"PutRequest": None}], [{"PutRequest": []}], [{"DeleteRequest": [None]}],
     [{"PutRequest": {"Item": None}}], [{"PutRequest": {"Item": [None]}}], [{"PutRequest": {"Item": {"pk": None}}}],
     [{"PutRequest": {"Item": {"pk": {"S": None}}}}], None, {}, "x", [{"PutRequest": {"Item": {"pk": {"L": [None]}}}}]],
    ids=repr,
)  # fmt: skip
def test_nulls_and_strays_in_a_batch_are_refused(unharmed, guarded, requests):
    good = {"PutRequest": {"Item": {"pk": s("new")}}}
    body = [good, *requests] if isinstance(requests, list) else requests
    assert_refused(unharmed.call("BatchWriteItem", {"RequestItems": {guarded: body}}))


@pytest.mark.parametrize(
    "actions",
    [[None], [[]], [{"Put": None}], [{"Put": []}], [{"Put": {"Item": None}}], None, {}, [1]],
    ids=repr,
)
def test_nulls_and_strays_in_a_transaction_are_refused(unharmed, guarded, actions):
    good = {"Put": {"TableName": guarded, "Item": {"pk": s("new")}}}
    body = [good, *actions] if isinstance(actions, list) else actions
    assert_refused(unharmed.call("TransactWriteItems", {"TransactItems": body}))


@pytest.mark.parametrize("keys", [[None], [[]], None, {}, [{"pk": None}], [1]], ids=repr)
def test_nulls_and_strays_in_a_batch_of_gets_are_refused(unharmed, guarded, keys):
    assert_refused(unharmed.call("BatchGetItem", {"RequestItems": {guarded: {"Keys": keys}}}))
    assert_refused(unharmed.call("BatchGetItem", {"RequestItems": {guarded: keys}}))


# ---- wrong types everywhere ----

GOOD = {
    "GetItem": {"TableName": "t", "Key": {"pk": s("x")}, "ConsistentRead": True, "ProjectionExpression": "a",
                "ExpressionAttributeNames": {"#a": "a"}, "ReturnConsumedCapacity": "TOTAL"},
    "PutItem": {"TableName": "t", "Item": {"pk": s("x")}, "ConditionExpression": "a = :a", "ReturnValues": "NONE",
                "ExpressionAttributeValues": {":a": n(1)}, "ExpressionAttributeNames": {"#a": "a"}},
    "UpdateItem": {"TableName": "t", "Key": {"pk": s("x")}, "UpdateExpression": "SET a = :a", "ReturnValues": "NONE",
                   "ExpressionAttributeValues": {":a": n(1)}, "ConditionExpression": "a = :a"},
    "DeleteItem": {"TableName": "t", "Key": {"pk": s("x")}, "ConditionExpression": "a = :a",
                   "ExpressionAttributeValues": {":a": n(1)}, "ReturnItemCollectionMetrics": "NONE"},
    "Query": {"TableName": "t", "IndexName": "abc", "KeyConditionExpression": "pk = :a", "Limit": 1, "Select": "COUNT",
              "ExpressionAttributeValues": {":a": n(1)}, "ScanIndexForward": True, "ExclusiveStartKey": {"pk": s("x")},
              "FilterExpression": "a = :a"},
    "Scan": {"TableName": "t", "Limit": 1, "Segment": 0, "TotalSegments": 1, "FilterExpression": "a = :a",
             "ExclusiveStartKey": {"pk": s("x")}, "ConsistentRead": False},
    "BatchGetItem": {"RequestItems": {"t": {"Keys": [{"pk": s("x")}]}}},
    "BatchWriteItem": {"RequestItems": {"t": [{"DeleteRequest": {"Key": {"pk": s("x")}}}]}},
    "TransactWriteItems": {"TransactItems": [{"Delete": {"TableName": "t", "Key": {"pk": s("x")}}}],
                           "ClientRequestToken": "abc"},
    "TransactGetItems": {"TransactItems": [{"Get": {"TableName": "t", "Key": {"pk": s("x")}}}]},
    "CreateTable": {"TableName": "t", "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
                    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                    "BillingMode": "PAY_PER_REQUEST", "Tags": [{"Key": "a", "Value": "b"}],
                    "ProvisionedThroughput": {"ReadCapacityUnits": 1}, "GlobalSecondaryIndexes": [{"IndexName": "a"}],
                    "LocalSecondaryIndexes": [{"IndexName": "a"}]},
    "UpdateTable": {"TableName": "t", "BillingMode": "PAY_PER_REQUEST", "GlobalSecondaryIndexUpdates": [{}],
                    "AttributeDefinitions": [{"AttributeName": "pk"}]},
    "DescribeTable": {"TableName": "t"},
    "DeleteTable": {"TableName": "t"},
    "ListTables": {"Limit": 1, "ExclusiveStartTableName": "abc"},
    "UpdateTimeToLive": {"TableName": "t", "TimeToLiveSpecification": {"Enabled": True, "AttributeName": "x"}},
    "TagResource": {"ResourceArn": "arn", "Tags": [{"Key": "a", "Value": "b"}]},
    "UntagResource": {"ResourceArn": "arn", "TagKeys": ["a"]},
}  # fmt: skip
STRAYS = {str: [1, 1.5, True, [], ["x"], {}, {"a": 1}], bool: [[], {}, [True], {"a": 1}], int: [[], {}, True, "x"]}
STRAYS |= {list: [1, "x", True, {"a": 1}], dict: [1, "x", True, [], [1]]}


def spoiled(value, path=()):
    """Every way to put a value of another kind somewhere into a request: (path, request) pairs."""
    for stray in STRAYS[type(value)] if path else []:
        yield path, stray
    if isinstance(value, dict):
        for name, inner in value.items():
            for where, changed in spoiled(inner, (*path, name)):
                yield where, {**value, name: changed}
    if isinstance(value, list):
        for where, changed in spoiled(value[0], (*path, 0)):
            yield where, [changed]


@pytest.mark.parametrize("operation", GOOD)
def test_a_value_of_the_wrong_type_is_refused_wherever_it_stands(unharmed, guarded, operation):
    request = json.loads(json.dumps(GOOD[operation]).replace('"t"', json.dumps(guarded)))
    for path, changed in spoiled(request):
        reply = unharmed.call(operation, changed)
        where = (path, changed, reply.body[:200])
        assert reply.status == 400, where
        assert reply.error.endswith("Exception"), where


# ---- expressions ----


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4096,
        "(" * 20 + "a = :v" + ")" * 20,
        "(" * 2000 + "a = :v" + ")" * 2000,
        "NOT " * 1000 + "a = :v",
        "a = :v" + " AND a = :v" * 360,
        "a[" * 1300 + "0" + "]" * 1300,
        "a = :v AND " * 300,
        "size(" * 800 + "a" + ")" * 800 + " = :v",
        "a IN (" + ":v," * 1300 + ":v)",
        "a[99999999999999999999] = :v",
        "a[-1] = :v",
        "a[1.5] = :v",
        "a BETWEEN :v",
        ":v :v",
        "a",
        "a = 'x'",
        "a = \x00",
        "a = \u202e:v",
        "# = :v",
        "a = :",
        "= = =",
        "x" * 5000,
        "\U0001f512" * 1000,
    ],
    ids=short,
)
def test_a_hostile_expression_is_refused(unharmed, guarded, text):
    values = {"ExpressionAttributeValues": {":v": n(1)}}
    table = {"TableName": guarded}
    key = {"pk": s("1")}
    assert_refused(unharmed.call("PutItem", {**table, **values, "Item": {"pk": s("new")}, "ConditionExpression": text}))
    assert_refused(unharmed.call("DeleteItem", {**table, **values, "Key": key, "ConditionExpression": text}))
    assert_refused(unharmed.call("UpdateItem", {**table, **values, "Key": key, "UpdateExpression": "SET b = " + text}))
    assert_refused(unharmed.call("Scan", {**table, **values, "FilterExpression": text}))
    assert_refused(unharmed.call("Query", {**table, **values, "KeyConditionExpression": text}))


@pytest.mark.parametrize(
    "text",
    ["a,", ",a", "a b", "a[", "a[0", "a..b", ".a", "a," * 2000, "(a)", "a = b", "((((", "a[0][", "[0]"],
    ids=short,
)  # fmt: skip
def test_a_hostile_projection_is_refused(unharmed, guarded, text):
    request = {"TableName": guarded, "Key": {"pk": s("1")}, "ProjectionExpression": text}
    assert_refused(unharmed.call("GetItem", request))


@pytest.mark.parametrize(
    "text",
    ["SET", "SET a", "SET a =", "SET = :v", "SET a = :v,", "SET a = :v + ", "SET a = (:v", "SET a = if_not_exists(a)",
     "SET a = list_append(:v)", "SET a = if_not_exists(:v, :v)", "REMOVE", "REMOVE a,", "ADD a", "ADD a :v :v", "ADD :v a",
     "DELETE a", "SET a = :v REMOVE a", "SET a = nope(:v)", "SET a = :v ; DROP", "SET a = if_not_exists(" * 200 + ":v",
     "SET a = " + "(" * 4000, "SET " + ", ".join(f"a{i} = :v + :v" for i in range(301)), "SET a = :v + :v + " * 200 + ":v"],
    ids=short,
)  # fmt: skip
def test_a_hostile_update_is_refused(unharmed, guarded, text):
    request = {"TableName": guarded, "Key": {"pk": s("1")}, "UpdateExpression": text}
    if ":v" in text:
        request["ExpressionAttributeValues"] = {":v": n(1)}
    assert_refused(unharmed.call("UpdateItem", request))


@pytest.mark.parametrize("path", ["a" + "[0]" * 1300, "a" + ".a" * 2000, "l" + "[0]" * 1300], ids=short)
def test_a_very_long_path_leads_nowhere(unharmed, guarded, path):
    """Refused or found to be absent: both are right; nothing else is."""
    table, key = {"TableName": guarded}, {"pk": s("1")}
    reply = unharmed.call("GetItem", {**table, "Key": key, "ProjectionExpression": path})
    assert reply.status == 400 or reply.json()["Item"] == {}
    request = {**table, "Key": key, "ConditionExpression": f"attribute_exists({path})"}
    assert unharmed.call("DeleteItem", request).status == 400
    assert unharmed.call("UpdateItem", {**table, "Key": key, "UpdateExpression": f"REMOVE {path}"}).status == 400


# ---- depth, text, numbers ----


@pytest.mark.parametrize("levels", [33, 5000, 20000])
@pytest.mark.parametrize("kind", ["L", "M"])
def test_deep_values_are_refused(unharmed, guarded, kind, levels):
    text = '{"TableName":"%s","Item":{"pk":{"S":"new"},"v":%s}}' % (guarded, deep(kind, levels))
    assert_refused(unharmed.call("PutItem", text.encode()))


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("operation", ["PutItem", "ListTables", "BatchWriteItem", "Nothing"])
def test_json_nested_100000_deep_is_refused(unharmed, operation, opening):
    reply = unharmed.call(operation, ('{"Item":' + opening * 100_000).encode())
    assert_refused(reply, (*KNOWN_ERRORS, "UnknownOperationException"))
    closing = "]" if opening == "[" else "}"
    whole = '{"Item":' + opening * 100_000 + "1" + closing * 100_000 + "}"
    reply = unharmed.call(operation, whole.encode())
    assert_refused(reply, (*KNOWN_ERRORS, "UnknownOperationException"))


@pytest.mark.parametrize(
    "raw",
    [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf8\x88\x80\x80\x80"],
    ids=repr,
)
def test_text_that_is_no_utf8_is_refused(unharmed, guarded, raw):
    body = b'{"TableName":"%s","Item":{"pk":{"S":"new"},"v":{"S":"%s"}}}' % (guarded.encode(), raw)
    assert_refused(unharmed.call("PutItem", body))
    body = b'{"TableName":"%s","Item":{"pk":{"S":"new"},"%s":{"S":"v"}}}' % (guarded.encode(), raw)
    assert_refused(unharmed.call("PutItem", body))


@pytest.mark.parametrize("text", [r"\ud800", r"\udc00\ud800", r"\u12", r"\x41", "\n", "\t", "\x00", "\x1f"], ids=ascii)
def test_strings_that_json_does_not_allow_are_refused(unharmed, guarded, text):
    body = '{"TableName":"%s","Item":{"pk":{"S":"new"},"v":{"S":"%s"}}}' % (guarded, text)
    assert_refused(unharmed.call("PutItem", body.encode()))


@pytest.mark.parametrize("text", ["a", "ab", "abc", "a===", "====", "ab=c", "ab c", "ab\n=", "äöü=", "abcde", "-_-_"])
def test_bad_base64_is_refused(unharmed, guarded, text):
    for value in ({"B": text}, {"BS": [text]}, {"L": [{"B": text}]}):
        request = {"TableName": guarded, "Item": {"pk": s("new"), "v": value}}
        assert_refused(unharmed.call("PutItem", request))


BAD_NUMBERS = [
    "", " ", "abc", "1 ", " 1", "1a", "0x1", "1e", "e1", "1e+", "--1", "1.2.3", ".", "-", "+", "NaN", "Infinity",
    "-Infinity", "1_000", "1,0", "١", "1e1000000000000", "1e-1000000000000", "1e126", "-1e126", "1e-131", "1" * 39,
    "0." + "1" * 39, "1" + "0" * 37 + "1.1", "9" * 100_000, "0." + "0" * 130 + "1", "1e99999999999999999999",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_NUMBERS, ids=short)
def test_bad_numbers_are_refused_wherever_they_stand(unharmed, guarded, text):
    table = {"TableName": guarded}
    for value in ({"N": text}, {"NS": [text]}, {"M": {"a": {"N": text}}}):
        assert_refused(unharmed.call("PutItem", {**table, "Item": {"pk": s("new"), "v": value}}))
    update = {"UpdateExpression": "ADD v :v", "ExpressionAttributeValues": {":v": {"N": text}}}
    assert_refused(unharmed.call("UpdateItem", {**table, "Key": {"pk": s("1")}, **update}))
    scan = {"FilterExpression": "v = :v", "ExpressionAttributeValues": {":v": {"N": text}}}
    assert_refused(unharmed.call("Scan", {**table, **scan}))


@pytest.mark.parametrize("number", [1, 1.5, True, None, [], {}])
def test_a_number_that_is_no_string_is_refused(unharmed, guarded, number):
    assert_refused(unharmed.call("PutItem", {"TableName": guarded, "Item": {"pk": s("new"), "v": {"N": number}}}))


def test_the_same_member_twice_does_not_confuse(unharmed, guarded):
    """JSON leaves open what this means: any answer will do that writes nothing to the guarded table."""
    body = '{"TableName":"nope","TableName":"e2e.also-not","Item":{"pk":{"S":"new"},"pk":{"S":"newer"}}}'
    assert unharmed.call("PutItem", body.encode()).status == 400


def test_huge_names_and_many_attributes_are_refused_in_time(unharmed, guarded):
    table = {"TableName": guarded}
    assert_refused(unharmed.call("PutItem", {**table, "Item": {"pk": s("new"), "n" * 70_000: s("v")}}))
    many = {f"attribute{i}": n(i) for i in range(40_000)}
    assert_refused(unharmed.call("PutItem", {**table, "Item": {"pk": s("new"), **many}}))
    assert_refused(unharmed.call("GetItem", {**table, "Key": {"pk": s("1"), **many}}))
    twice = {"SS": [f"{i}" for i in range(60_000)] + ["7"]}
    assert_refused(unharmed.call("PutItem", {**table, "Item": {"pk": s("new"), "v": twice}}))
