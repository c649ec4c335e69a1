"""Shows that bench/remote takes a recorded attempt apart, and notices when the SDK sends something else than the server."""
import copy
import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import recorded  # noqa: E402

NOW = 1794916662
KEY = {"PK": {"S": "ann"}, "SK": {"S": recorded.ROW}}
PARTITION = {"PK": {"S": "ann"}, "SK": {"S": recorded.VERSION}}


def put(token, count, now):
    """As a server writes the count: the first time on condition that there is none, later on condition that it is as it was read."""
    condition = {"ConditionExpression": "attribute_not_exists(#0)", "ExpressionAttributeNames": {"#0": "PK"}} if count == 1 else {
        "ConditionExpression": "#0=:0 AND #1=:1", "ExpressionAttributeNames": {"#0": "count", "#1": "last_updated"},
        "ExpressionAttributeValues": {":0": {"N": str(count - 1)}, ":1": {"N": str(now - 1)}}}
    item = {**KEY, "count": {"N": str(count)}, "history": {"S": f"{now} failure v7"}, "last_updated": {"N": str(now)}, "ttl": {"N": str(now + 900)}}
    return {"ClientRequestToken": token, "TransactItems": [{"Put": {"TableName": "state", "Item": item, **condition}}, {"Put": move(token, count, now)}]}


def move(token, count, now):
    """As a server moves the version of the partition, on condition that it is the one that it read: the token of the attempt before."""
    condition = {"ConditionExpression": "attribute_not_exists(#0)", "ExpressionAttributeNames": {"#0": "PK"}} if count == 1 else {
        "ConditionExpression": "#0=:0", "ExpressionAttributeNames": {"#0": "version"}, "ExpressionAttributeValues": {":0": {"S": token_of(now - 1, count - 1)}}}
    return {"TableName": "state", "Item": {**PARTITION, "version": {"S": token}, "ttl": {"N": str(now + 86400)}}, **condition}


def token_of(now, count):
    return f"{now:034x}{count:02x}"


def seen(subject="ann", now=NOW):
    reads = {"TransactItems": [{"Get": {"TableName": table, "Key": key}} for table, key in (("users", {"id": {"S": "ann"}}), ("state", KEY), ("state", PARTITION))]}
    both = [body for n in (1, 2) for body in (("TransactGetItems", reads), ("TransactWriteItems", put(token_of(now + n, n), n, now + n)))]
    return [(name, json.dumps(body).replace('"ann"', f'"{subject}"')) for name, body in both]


def test_what_differs_from_attempt_to_attempt_is_marked():
    form = recorded.form(recorded.attempts_of(seen(), "ann"), "ann")
    assert form["get"]["TransactItems"][0]["Get"]["Key"] == {"id": {"S": "%subject"}}
    assert (form["table"], form["policy"], form["next"]["ClientRequestToken"]) == ("state", "7", "%token")
    assert form["next"]["TransactItems"][1]["Put"]["ExpressionAttributeValues"] == {":0": {"S": "%version"}}
    assert form["next"]["TransactItems"][0]["Put"]["Item"] == {
        "PK": {"S": "%subject"}, "SK": {"S": recorded.ROW}, "count": {"N": "%count"}, "history": {"S": "%history"}, "last_updated": {"N": "%now+0"}, "ttl": {"N": "%now+900"}}
    assert form["next"]["TransactItems"][0]["Put"]["ExpressionAttributeValues"] == {":0": {"N": "%old.count"}, ":1": {"N": "%old.last_updated"}}
    assert form["first"]["TransactItems"][0]["Put"]["ConditionExpression"] == "attribute_not_exists(#0)"


def test_the_same_attempts_of_another_subject_later_are_the_same():
    ours, theirs = recorded.attempts_of(seen(), "ann"), recorded.attempts_of(seen("bob", NOW + 5), "bob")
    assert recorded.plain(ours, "ann") == recorded.plain(theirs, "bob")


@pytest.mark.parametrize("change", [
    lambda write: write["TransactItems"][0]["Put"].update(ConditionExpression="#0=:0"),
    lambda write: write["TransactItems"][0]["Put"]["Item"].update(count={"N": "9"}),
    lambda write: write["TransactItems"][1]["Put"].pop("ConditionExpression"),
    lambda write: write["TransactItems"][0]["Put"]["Item"].update(ttl={"N": str(NOW + 86400)}),
    lambda write: write["TransactItems"].append({"Put": {"TableName": "state", "Item": KEY}}),
    lambda write: write.update(ReturnConsumedCapacity="TOTAL"),
])
def test_another_request_is_noticed(change):
    ours = recorded.attempts_of(seen(), "ann")
    theirs = copy.deepcopy(ours)
    change(theirs[1][1])
    assert recorded.plain(ours, "ann") != recorded.plain(theirs, "ann")


def test_an_attempt_that_sends_something_else_is_refused():
    with pytest.raises(recorded.NotRecorded, match="Query"):
        recorded.attempts_of([*seen()[:1], ("Query", '{"a": "ann"}'), *seen()[1:]], "ann")
