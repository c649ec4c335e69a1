"""The literal requests of the services that Gatehouse was made for: device tokens, error counts and the rate
limiter. Requests that could never have worked as printed are shown to fail as they do
on DynamoDB, next to the ones that do."""

import time
from datetime import datetime, timedelta, timezone

import pytest

from conftest import index
from helpers import FALSE, TRUE, all_items, condition_failed, get, invalid, iso, n, s, strings


# ---- device tokens ----


@pytest.fixture
def devices(ddb, tables):
    table = tables.make("userId:S", "deviceId:S", hint="device-tokens")
    ddb.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expiresAt"}
    )
    return table


def device(user, name, active=TRUE):
    return {
        "userId": s(user),
        "deviceId": s(name),
        "expoPushToken": s(f"ExponentPushToken[{name}]"),
        "platform": s("ios"),
        "registeredAt": s(iso()),
        "updatedAt": s(iso()),
        "isActive": active,
        "expiresAt": n(int(time.time()) + 90 * 24 * 3600),
    }


def register(ddb, table, item):
    ddb.put_item(
        TableName=table,
        Item=item,
        ConditionExpression="attribute_not_exists(userId) OR attribute_not_exists(deviceId)",
    )


def test_device_1_registers_once(ddb, devices):
    item = device("u1", "phone")
    register(ddb, devices, item)
    with condition_failed():
        register(ddb, devices, device("u1", "phone", active=FALSE))
    assert get(ddb, devices, userId=s("u1"), deviceId=s("phone")) == item
    register(ddb, devices, device("u1", "tablet"))


def refresh(ddb, table, user, name, **values):
    return ddb.update_item(
        TableName=table,
        Key={"userId": s(user), "deviceId": s(name)},
        UpdateExpression="SET expoPushToken = :token, updatedAt = :now, isActive = :active, expiresAt = :expires",
        ConditionExpression="attribute_exists(userId)",
        ExpressionAttributeValues={
            ":token": s("ExponentPushToken[new]"),
            ":now": s(iso()),
            ":active": TRUE,
            ":expires": n(int(time.time()) + 1000),
            **values,
        },
    )


def test_device_2_is_refreshed_only_if_it_exists(ddb, devices):
    with condition_failed():
        refresh(ddb, devices, "u1", "phone")
    register(ddb, devices, device("u1", "phone", active=FALSE))
    refresh(ddb, devices, "u1", "phone")
    item = get(ddb, devices, userId=s("u1"), deviceId=s("phone"))
    assert item["expoPushToken"] == s("ExponentPushToken[new]") and item["isActive"] == TRUE
    assert item["platform"] == s("ios")


def test_device_3_is_read_consistently(ddb, devices):
    item = device("u1", "phone")
    register(ddb, devices, item)
    answer = ddb.get_item(
        TableName=devices, Key={"userId": s("u1"), "deviceId": s("phone")}, ConsistentRead=True
    )
    assert answer["Item"] == item


def active_devices(ddb, table, user):
    return ddb.query(
        TableName=table,
        KeyConditionExpression="userId = :userId",
        FilterExpression="isActive = :true",
        ExpressionAttributeValues={":userId": s(user), ":true": TRUE},
    )


def deactivate(ddb, table, user, name):
    ddb.update_item(
        TableName=table,
        Key={"userId": s(user), "deviceId": s(name)},
        UpdateExpression="SET isActive = :false, updatedAt = :now",
        ConditionExpression="attribute_exists(userId)",
        ExpressionAttributeValues={":false": FALSE, ":now": s(iso())},
    )


def test_device_4_and_5_only_active_devices_are_notified(ddb, devices):
    for name in ("phone", "tablet", "watch"):
        register(ddb, devices, device("u1", name))
    register(ddb, devices, device("u2", "phone"))
    deactivate(ddb, devices, "u1", "tablet")
    answer = active_devices(ddb, devices, "u1")
    assert strings(answer["Items"], "deviceId") == ["phone", "watch"]
    assert (answer["Count"], answer["ScannedCount"]) == (2, 3)
    with condition_failed():
        deactivate(ddb, devices, "u1", "never-registered")
    assert get(ddb, devices, userId=s("u1"), deviceId=s("never-registered")) is None


def test_device_6_is_deleted_if_it_exists(ddb, devices):
    register(ddb, devices, device("u1", "phone"))
    request = {
        "TableName": devices,
        "Key": {"userId": s("u1"), "deviceId": s("phone")},
        "ConditionExpression": "attribute_exists(userId)",
    }
    ddb.delete_item(**request)
    assert active_devices(ddb, devices, "u1")["Count"] == 0
    with condition_failed():
        ddb.delete_item(**request)


def test_device_the_index_that_was_considered_needs_a_key_that_is_no_boolean(ddb, tables):
    """A boolean can be no key: the design that was put off for cost would have been refused."""
    with invalid():
        tables.make("userId:S", "deviceId:S", gsi=[index("PlatformIsActiveIndex", "platform:S", "isActive:BOOL")])


# ---- error counts ----

MFA = "LOGIN#MFA#ERROR"
FIRST, SECOND = f"{MFA}#EF444945-A8A9-4CBD-8E71-552C735E78A0", f"{MFA}#72CB4E28-CD8D-48A0-9899-02601480CE10"
NAMES = {"#count": "count", "#last_updated": "last_updated"}


@pytest.fixture(scope="module")
def counts(module_tables):
    return module_tables.make("PK:S", "SK:S", hint="error-counts")


def increment(ddb, table, subject, sk, expression, **more):
    values = {":incr": n(1), ":now": n(1234567800), **more.pop("values", {})}
    return ddb.update_item(
        TableName=table,
        Key={"PK": s(subject), "SK": s(sk)},
        UpdateExpression=expression,
        ExpressionAttributeNames={**NAMES, **more.pop("names", {})},
        ExpressionAttributeValues=values,
        **more,
    )


PRINTED = "SET #count = #count + :incr, #last_updated = :now"


def test_count_as_printed_fails_on_the_first_error_and_works_afterwards(ddb, counts, key):
    with invalid("The provided expression refers to an attribute that does not exist in the item"):
        increment(ddb, counts, key, FIRST, PRINTED)
    assert get(ddb, counts, PK=s(key), SK=s(FIRST)) is None
    increment(ddb, counts, key, FIRST, "ADD #count :incr SET #last_updated = :now")
    answer = increment(ddb, counts, key, FIRST, PRINTED, ReturnValues="ALL_NEW")
    assert answer["Attributes"] == {"PK": s(key), "SK": s(FIRST), "count": n(2), "last_updated": n(1234567800)}


def test_count_with_a_default_works_from_the_first_error_on(ddb, counts, key):
    expression = "SET #count = if_not_exists(#count, :zero) + :incr, #last_updated = :now"
    for expected in (1, 2, 3):
        answer = increment(
            ddb, counts, key, FIRST, expression, values={":zero": n(0)}, ReturnValues="UPDATED_NEW"
        )
        assert answer["Attributes"]["count"] == n(expected)


def test_count_with_a_name_that_the_expression_does_not_use_is_refused(ddb, counts, key):
    """The printed variant adds the method's name and value but not its clause."""
    unused = {"names": {"#mfa_method": "mfa_method_type"}, "values": {":mfa_method": s("SMS")}}
    with invalid():
        increment(ddb, counts, key, FIRST, "ADD #count :incr SET #last_updated = :now", **unused)
    expression = "ADD #count :incr SET #last_updated = :now, #mfa_method = :mfa_method"
    increment(ddb, counts, key, FIRST, expression, **unused)
    assert get(ddb, counts, PK=s(key), SK=s(FIRST))["mfa_method_type"] == s("SMS")


def test_count_reads_by_prefix(ddb, counts, key):
    for sk, times in ((FIRST, 3), (SECOND, 2), ("LOGIN#MFA#LOCK#X", 1), ("SIGN_IN#ERROR_COUNT#PASSWORD", 1)):
        for _ in range(times):
            increment(ddb, counts, key, sk, "ADD #count :incr SET #last_updated = :now")
    request = {
        "TableName": counts,
        "KeyConditionExpression": "PK = :pk AND begins_with(SK, :sk)",
        "ExpressionAttributeValues": {":pk": s(key), ":sk": s(MFA)},
    }
    items = ddb.query(**request)["Items"]
    assert strings(items, "SK") == [SECOND, FIRST]
    assert sum(int(item["count"]["N"]) for item in items) == 5
    # Select COUNT counts items, not errors: the sum above is what the lockout needs.
    assert ddb.query(**request, Select="COUNT")["Count"] == 2
    one = {":pk": s(key), ":sk": s(FIRST)}
    (item,) = ddb.query(**{**request, "ExpressionAttributeValues": one})["Items"]
    assert item["count"] == n(3)


def test_count_of_reauthentication_keeps_its_classes_apart(ddb, counts, key):
    for times, name in enumerate(("EMAIL_ENTRY", "PASSWORD_ENTRY", "SECURITY_CODE_ENTRY"), start=1):
        sk = f"REAUTHENTICATION#ERROR_COUNT#{name}"
        for _ in range(times):
            increment(ddb, counts, key, sk, "ADD #count :incr SET #last_updated = :now")
    items = all_items(
        ddb.query,
        TableName=counts,
        KeyConditionExpression="PK = :pk AND begins_with(SK, :sk)",
        ExpressionAttributeValues={":pk": s(key), ":sk": s("REAUTHENTICATION#ERROR_COUNT#")},
        ConsistentRead=True,
    )
    assert [int(item["count"]["N"]) for item in items] == [1, 2, 3]


@pytest.mark.gatehouse_only
def test_count_that_has_expired_starts_again(ddb, tables, key):
    table = tables.make("PK:S", "SK:S", hint="expiring-counts")
    ddb.update_time_to_live(TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    item = {"PK": s(key), "SK": s(FIRST), "count": n(5), "ttl": n(int(time.time()) - 1)}
    ddb.put_item(TableName=table, Item=item)
    answer = increment(ddb, table, key, FIRST, "ADD #count :incr SET #last_updated = :now", ReturnValues="ALL_NEW")
    assert answer["Attributes"]["count"] == n(1) and "ttl" not in answer["Attributes"]


# ---- rate limiter ----


@pytest.fixture(scope="module")
def limits(module_tables):
    return module_tables.make("PK:S", hint="rate-limits")


def allow(ddb, table, key, window):
    return ddb.update_item(
        TableName=table,
        Key={"PK": s("RL#" + key)},
        UpdateExpression=(
            "SET #count = if_not_exists(#count, :zero) + :one, #ws = if_not_exists(#ws, :ws), #ttl = :ttl"
        ),
        ConditionExpression="attribute_not_exists(#ws) OR #ws = :ws",
        ExpressionAttributeNames={"#count": "Count", "#ws": "WindowStart", "#ttl": "TTL"},
        ExpressionAttributeValues={
            ":zero": n(0),
            ":one": n(1),
            ":ws": s(iso(window)),
            ":ttl": n(int(window.timestamp()) + 60 + 3600),
        },
        ReturnValues="ALL_NEW",
    )["Attributes"]


def reset(ddb, table, key, window):
    return ddb.update_item(
        TableName=table,
        Key={"PK": s("RL#" + key)},
        UpdateExpression="SET #count = :one, #ws = :ws",
        ExpressionAttributeNames={"#count": "Count", "#ws": "WindowStart"},
        ExpressionAttributeValues={":one": n(1), ":ws": s(iso(window))},
        ReturnValues="ALL_NEW",
    )["Attributes"]


def test_limiter_counts_in_a_window_and_fails_when_the_window_rolls_over(ddb, limits, key):
    window = datetime.now(timezone.utc).replace(second=0, microsecond=0)
    for expected in range(1, 6):
        row = allow(ddb, limits, key, window)
        assert row["Count"] == n(expected) and row["WindowStart"] == s(iso(window))
    later = window + timedelta(minutes=1)
    with condition_failed():
        allow(ddb, limits, key, later)
    assert get(ddb, limits, PK=s("RL#" + key))["Count"] == n(5)
    assert reset(ddb, limits, key, later)["Count"] == n(1)
    assert allow(ddb, limits, key, later)["Count"] == n(2)
