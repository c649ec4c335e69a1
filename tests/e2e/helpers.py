"""Small words the tests are written in: values in DynamoDB's form, pages, refusals, and free ports."""

import contextlib
import json
import random
import socket
from datetime import datetime, timezone

from botocore.exceptions import ClientError


def s(text):
    return {"S": text}


def n(number):
    return {"N": str(number)}


def b(raw):
    return {"B": raw}


TRUE, FALSE = {"BOOL": True}, {"BOOL": False}


def iso(moment=None):
    """A time as the services write it; now, if none is given."""
    return (moment or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def strings(items, attribute):
    return [item[attribute]["S"] for item in items]


def pages(operation, **request):
    """Every page of a query, scan or list, following LastEvaluatedKey."""
    while True:
        page = operation(**request)
        yield page
        if not page.get("LastEvaluatedKey"):
            return
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def all_items(operation, **request):
    return [item for page in pages(operation, **request) for item in page["Items"]]


@contextlib.contextmanager
def refused(code, message=None, status=400):
    """The block must end in this error; `message`, where given, is the whole text."""
    try:
        yield
    except ClientError as error:
        answer = error.response
        assert answer["Error"]["Code"] == code, answer["Error"]
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status
        if message is not None:
            assert answer["Error"]["Message"] == message
        return
    raise AssertionError(f"was not refused with {code}")


def invalid(message=None):
    return refused("ValidationException", message)


CONDITION_FAILED = "The conditional request failed"


def condition_failed():
    return refused("ConditionalCheckFailedException", CONDITION_FAILED)


def put_many(ddb, table, items):
    """Puts items in as few batches as are allowed."""
    for start in range(0, len(items), 25):
        batch = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        answer = ddb.batch_write_item(RequestItems={table: batch})
        assert not answer.get("UnprocessedItems")


def get(ddb, table, **key):
    """The item, or None."""
    return ddb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")


def is_marker(item):
    """A row of Gatehouse's own, beside what the documents draw: the version that an engine with other writers adds, how many
    locks there were in a row, and failures in a row while they are no lock."""
    key = item["SK"]["S"]
    streak = key == "AUTHENTICATION#LOCK#CONSECUTIVE_FAILURES" and item["count"]["N"] == "0"
    return streak or key == "#VERSION" or "#LOCK_LEVEL#" in key


def scan_sorted(ddb, table):
    """All that a table holds, in an order that does not depend on the server's."""
    items = all_items(ddb.scan, TableName=table, ConsistentRead=True)
    return sorted(json.dumps(item, sort_keys=True, default=repr) for item in items)


# ---- requests as bytes ----

KNOWN_ERRORS = ("ValidationException", "SerializationException")


def assert_refused(reply, errors=KNOWN_ERRORS):
    assert reply.status == 400, (reply.status, reply.body[:300])
    assert reply.error in errors, reply.body[:300]


def assert_alive(connection, table):
    reply = connection.call("GetItem", {"TableName": table, "Key": {"pk": s("3")}})
    assert reply.status == 200 and reply.json()["Item"]["v"] == n(3)


def free_port():
    """Below the range that the system chooses from: it is used later, while other suites start servers."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randrange(10_000, 20_000)))
                return probe.getsockname()[1]
            except OSError:
                continue
