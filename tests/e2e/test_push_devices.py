"""Registered devices over HTTP: what docs/devices.md promises, the document's six patterns through both doors, races over real connections,
kills under load, time travel, and bad input field by field."""
import http.client
import json
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from conftest import CREDENTIALS, stop
from test_access import ACCOUNT, CONFIG, REGION, Guarded
from issuer import Issuer
from test_cli_remote import Cli
from test_clock import Moved
from test_metrics import PROMTOOL, RULES
from test_token_routes import started
from test_users import Peer, call, new_id, ok, rows, together
from v1 import Server
from webhooks import wait_for

pytestmark = pytest.mark.gatehouse_only

DAY_S = 86400
LIFE_S = 90 * DAY_S
SEED_ATTRIBUTES = {"userId", "deviceId", "expoPushToken", "platform", "registeredAt", "updatedAt", "isActive", "expiresAt"}


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def fresh():
    """One that nobody wrote to past /v1."""
    made = Server()
    yield made
    made.close()


def ddb_of(server):
    return boto3.client("dynamodb", endpoint_url=server.endpoint, region_name=REGION, config=CONFIG,
                        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"], aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"])


def token():
    return f"ExponentPushToken[{uuid.uuid4().hex}]"


def register(server, user, device, push=None, **more):
    return call(server, "PUT", f"/v1/users/{user}/devices/{device}", {"platform": "ios", "expoPushToken": push or token(), **more})[:2]


def key(user, device):
    return {"userId": {"S": user}, "deviceId": {"S": device}}


def job_done(server, answer):
    """The job, once it has ended."""
    while True:
        job = ok(server, "GET", f"/v1/jobs/{answer['id']}")
        if job["state"] != "running":
            assert job["state"] == "done", job
            return job
        time.sleep(0.02)


# ---- the six patterns, each through one door and read through the other ----


def literal_put(ddb, table, user, device, push, now="2026-11-17T04:00:00.000Z", expires=4102444800):
    ddb.put_item(TableName=table, Item={**key(user, device), "expoPushToken": {"S": push}, "platform": {"S": "ios"}, "registeredAt": {"S": now},
                                        "updatedAt": {"S": now}, "isActive": {"BOOL": True}, "expiresAt": {"N": str(expires)}},
                 ConditionExpression="attribute_not_exists(userId) OR attribute_not_exists(deviceId)")


def literal_refresh(ddb, table, user, device, push, now="2026-11-18T04:00:00.000Z", expires=4102448400):
    ddb.update_item(TableName=table, Key=key(user, device),
                    UpdateExpression="SET expoPushToken = :token, updatedAt = :now, isActive = :active, expiresAt = :expires",
                    ConditionExpression="attribute_exists(userId)",
                    ExpressionAttributeValues={":token": {"S": push}, ":now": {"S": now}, ":active": {"BOOL": True}, ":expires": {"N": str(expires)}})


def literal_get(ddb, table, user, device):
    return ddb.get_item(TableName=table, Key=key(user, device), ConsistentRead=True).get("Item")


def literal_list(ddb, table, user):
    return ddb.query(TableName=table, KeyConditionExpression="userId = :userId", FilterExpression="isActive = :true",
                     ExpressionAttributeValues={":userId": {"S": user}, ":true": {"BOOL": True}})["Items"]


def literal_deactivate(ddb, table, user, device, now="2026-11-19T04:00:00.000Z"):
    ddb.update_item(TableName=table, Key=key(user, device), UpdateExpression="SET isActive = :false, updatedAt = :now",
                    ConditionExpression="attribute_exists(userId)", ExpressionAttributeValues={":false": {"BOOL": False}, ":now": {"S": now}})


def literal_delete(ddb, table, user, device):
    ddb.delete_item(TableName=table, Key=key(user, device), ConditionExpression="attribute_exists(userId)")


def fails(code, function, *args):
    with pytest.raises(ClientError) as failed:
        function(*args)
    assert failed.value.response["Error"]["Code"] == code


def test_each_pattern_through_v1_is_read_literally(server):
    ddb, user, push = ddb_of(server), new_id(), token()
    status, made = register(server, user, "phone", push)
    assert status == 201
    row = literal_get(ddb, "device-tokens", user, "phone")
    assert set(row) == SEED_ATTRIBUTES | {"expiryDueAt"}  # data-model.md: for device.expired
    assert row["expoPushToken"] == {"S": push} and row["isActive"] == {"BOOL": True} and row["platform"] == {"S": "ios"}
    assert made == {"userId": user, "deviceId": "phone", "expoPushToken": push, "platform": "ios", "isActive": True, "registeredAt": row["registeredAt"]["S"],
                    "updatedAt": row["updatedAt"]["S"], "expiresAt": int(row["expiresAt"]["N"])}
    fails("ConditionalCheckFailedException", literal_put, ddb, "device-tokens", user, "phone", push)
    status, again = register(server, user, "phone", push)
    assert status == 200 and again["registeredAt"] == made["registeredAt"]
    assert [item["deviceId"]["S"] for item in literal_list(ddb, "device-tokens", user)] == ["phone"]
    assert not ok(server, "POST", f"/v1/users/{user}/devices/phone/deactivate")["isActive"]
    assert literal_list(ddb, "device-tokens", user) == []
    assert ok(server, "DELETE", f"/v1/users/{user}/devices/phone")["removed"]
    assert literal_get(ddb, "device-tokens", user, "phone") is None
    fails("ConditionalCheckFailedException", literal_delete, ddb, "device-tokens", user, "phone")


def test_each_pattern_sent_literally_is_read_through_v1(server):
    ddb, user, push, later = ddb_of(server), new_id(), token(), token()
    register(server, new_id(), "phone")  # so that there is a table
    path = f"/v1/users/{user}/devices"
    literal_put(ddb, "device-tokens", user, "phone", push)
    found = ok(server, "GET", path + "/phone")
    assert (found["expoPushToken"], found["isActive"], found["expiresAt"]) == (push, True, 4102444800)
    literal_refresh(ddb, "device-tokens", user, "phone", later)
    assert ok(server, "GET", path + "/phone")["expoPushToken"] == later
    assert [device["deviceId"] for device in ok(server, "GET", path)["devices"]] == ["phone"]
    literal_deactivate(ddb, "device-tokens", user, "phone")
    assert ok(server, "GET", path)["devices"] == []
    assert [device["isActive"] for device in ok(server, "GET", path + "?include=inactive")["devices"]] == [False]
    status, answer = register(server, user, "phone", later)
    assert (status, answer["isActive"], answer["registeredAt"]) == (200, True, "2026-11-17T04:00:00.000Z")
    literal_delete(ddb, "device-tokens", user, "phone")
    assert call(server, "GET", path + "/phone")[0] == 404
    assert call(server, "POST", path + "/phone/deactivate")[0] == 404
    assert call(server, "DELETE", path + "/phone")[0] == 404


LEAST_PRIVILEGE = """{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Action": ["dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Query"],
   "Resource": "arn:aws:dynamodb:REGION:ACCOUNT:table/photoeditor-ENV-device-tokens"},
  {"Effect": "Allow", "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "arn:aws:kms:REGION:ACCOUNT:key/KMS_KEY_ID"}]}"""


def other_operations(table):
    """Every operation that the server knows beside the five, with parameters that it would take; and the five on what the policy does not name."""
    arn, one = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{table}", key("ann", "first")
    shape = {"AttributeDefinitions": [{"AttributeName": "userId", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "userId", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
    markers, values = "gatehouse-push-tokens", {":u": {"S": "ann"}}
    return [
        ("Scan", {"TableName": table}), ("DescribeTable", {"TableName": table}), ("ListTables", {}), ("DeleteTable", {"TableName": table}),
        ("CreateTable", {"TableName": "another", **shape}), ("UpdateTable", {"TableName": table, "BillingMode": "PAY_PER_REQUEST"}),
        ("UpdateTimeToLive", {"TableName": table, "TimeToLiveSpecification": {"Enabled": False, "AttributeName": "expiresAt"}}), ("DescribeTimeToLive", {"TableName": table}),
        ("TagResource", {"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "b"}]}), ("UntagResource", {"ResourceArn": arn, "TagKeys": ["a"]}), ("ListTagsOfResource", {"ResourceArn": arn}),
        ("DescribeLimits", {}), ("DescribeEndpoints", {}),
        *((name, {"TableName": table}) for name in ("DescribeContinuousBackups", "DescribeContributorInsights", "DescribeKinesisStreamingDestination", "DescribeTableReplicaAutoScaling")),
        *((name, {}) for name in ("ListContributorInsights", "ListGlobalTables", "ListImports", "ListExports", "ListBackups")),
        ("DescribeGlobalTable", {"GlobalTableName": table}), ("DescribeGlobalTableSettings", {"GlobalTableName": table}),
        ("DescribeImport", {"ImportArn": arn + "/import/01234567890123456789"}), ("DescribeExport", {"ExportArn": arn + "/export/01234567890123456789"}),
        ("DescribeBackup", {"BackupArn": arn + "/backup/01234567890123456789"}),
        ("BatchGetItem", {"RequestItems": {table: {"Keys": [one]}}}), ("BatchWriteItem", {"RequestItems": {table: [{"DeleteRequest": {"Key": one}}]}}),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": {"TableName": table, "Key": one, "ConditionExpression": "attribute_exists(userId)"}}]}),
        ("TransactWriteItems", {"TransactItems": [{"Delete": {"TableName": table, "Key": one}}, {"Put": {"TableName": markers, "Item": {"PK": {"S": "x"}}}}]}),
        ("TransactGetItems", {"TransactItems": [{"Get": {"TableName": markers, "Key": {"PK": {"S": "x"}}}}]}),
        ("Query", {"TableName": table, "IndexName": "PlatformIsActiveIndex", "KeyConditionExpression": "platformShard = :u", "ExpressionAttributeValues": values}),
        ("Query", {"TableName": table + "2", "KeyConditionExpression": "userId = :u", "ExpressionAttributeValues": values}),
        ("PutItem", {"TableName": markers, "Item": {"PK": {"S": "x"}}}), ("GetItem", {"TableName": markers, "Key": {"PK": {"S": "x"}}}),
        ("UpdateItem", {"TableName": "users", "Key": {"PK": {"S": "x"}, "SK": {"S": "PROFILE"}}}), ("DeleteItem", {"TableName": "users", "Key": {"PK": {"S": "x"}, "SK": {"S": "PROFILE"}}}),
    ]


def bearer(server, credential, method, path, body=None):
    request = urllib.request.Request(server.endpoint + path, None if body is None else json.dumps(body).encode(),
                                     {"Authorization": f"Bearer {credential[0]}.{credential[1]}"}, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read())


@pytest.fixture
def guarded():
    made = Guarded("--table-devices", "photoeditor-dev-device-tokens", "--device-index")
    yield made
    stop(made.process)
    shutil.rmtree(made.data, ignore_errors=True)


def test_the_documents_policy_suffices_for_the_six_patterns_and_for_nothing_else(guarded):
    policy = json.loads(LEAST_PRIVILEGE.replace("REGION", REGION).replace("ACCOUNT", ACCOUNT).replace("ENV", "dev").replace("KMS_KEY_ID", "1234"))
    table, push, body = "photoeditor-dev-device-tokens", token(), {"platform": "ios", "expoPushToken": token()}
    admin, credential = guarded.key("show", "administrator"), guarded.make("app", policy)
    assert bearer(guarded, admin, "PUT", "/v1/users/ann/devices/first", body)[0] == 201
    assert bearer(guarded, admin, "POST", "/v1/users", {"id": "ann"})[0] == 201  # so that there is a table of users
    app = guarded.client(credential)
    literal_put(app, table, "ann", "phone", push)
    literal_refresh(app, table, "ann", "phone", push)
    assert literal_get(app, table, "ann", "phone")["expoPushToken"] == {"S": push}
    assert len(literal_list(app, table, "ann")) == 2
    literal_deactivate(app, table, "ann", "phone")
    literal_delete(app, table, "ann", "phone")
    tried = set()
    for operation, request in other_operations(table):
        fails("AccessDeniedException", lambda operation=operation, request=request: app._make_api_call(operation, request))
        tried.add(operation)
    allowed = {"PutItem", "GetItem", "UpdateItem", "DeleteItem", "Query"}
    for operation in set(app.meta.service_model.operation_names) - tried - allowed:
        assert not is_known(guarded, admin, operation), f"{operation} is known to the server, and was not tried"
    for method, path, sent in (("PUT", "/v1/users/ann/devices/first", body), ("GET", "/v1/users/ann/devices/first", None), ("GET", "/v1/users/ann/devices", None),
                               ("POST", "/v1/users/ann/devices/first/deactivate", None), ("DELETE", "/v1/users/ann/devices/first", None), ("DELETE", "/v1/users/ann/devices", None),
                               ("POST", "/v1/devices/feedback", {"results": [{"token": push, "error": "x"}]}), ("GET", "/v1/devices?platform=ios", None),
                               ("POST", "/v1/devices/cleanup", {}), ("POST", "/v1/users/ann/notify", {"title": "x"}), ("GET", "/v1/notifications", None)):
        assert bearer(guarded, credential, method, path, sent)[0] == 403, (method, path)


def is_known(server, credential, operation):
    """Does the server have that operation? With a body that says nothing; whether it is taken is another matter."""
    client = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name=REGION, aws_access_key_id=credential[0], aws_secret_access_key=credential[1],
                          config=CONFIG.merge(botocore.config.Config(parameter_validation=False, inject_host_prefix=False)))
    try:
        client._make_api_call(operation, {})
    except ClientError as refused:
        return refused.response["Error"]["Code"] != "UnknownOperationException"
    return True


# ---- policies for /v1 ----


def allow(*denied):
    """All of /v1, but what is denied: (actions, resource)."""
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "gatehouse:*", "Resource": "*"}] + [
        {"Effect": "Deny", "Action": [f"gatehouse:{action}" for action in actions.split()], "Resource": f"arn:aws:gatehouse:{REGION}:{ACCOUNT}:{resource}"}
        for actions, resource in denied]}


def test_a_deny_of_a_user_or_a_platform_wins(guarded):
    admin = guarded.key("show", "administrator")
    credential = guarded.make("app", allow(("RegisterDevice GetDevice ListDevices DeactivateDevice DeleteDevice EraseDevices NotifyUser", "user/vip"),
                                           ("ListPlatformDevices Broadcast", "platform/ios")))
    body = {"platform": "ios", "expoPushToken": token()}
    for user in ("vip", "ann"):
        assert bearer(guarded, admin, "PUT", f"/v1/users/{user}/devices/phone", {**body, "expoPushToken": token()})[0] == 201
    for method, path, sent in (("PUT", "/phone", body), ("GET", "/phone", None), ("GET", "", None), ("POST", "/phone/deactivate", None), ("DELETE", "/phone", None), ("DELETE", "", None)):
        assert bearer(guarded, credential, method, f"/v1/users/vip/devices{path}", sent)[0] == 403, (method, path)
        assert bearer(guarded, credential, method, f"/v1/users/ann/devices{path}", sent)[0] in (200, 201), (method, path)
    assert bearer(guarded, credential, "POST", "/v1/users/vip/notify", {"title": "x"})[0] == 403
    assert bearer(guarded, credential, "GET", "/v1/devices?platform=ios")[0] == 403
    assert bearer(guarded, credential, "GET", "/v1/devices?platform=android")[0] == 200
    for sent in ({"title": "x", "platform": "ios"}, {"title": "x"}):  # to all is to ios, too
        assert bearer(guarded, credential, "POST", "/v1/notifications", sent)[0] == 403, sent
    assert bearer(guarded, credential, "POST", "/v1/notifications", {"title": "x", "platform": "android"})[0] == 409  # allowed, and not set up
    assert bearer(guarded, admin, "GET", "/v1/users/vip/devices/phone")[0] == 200


# ---- tokens, the maximum, races ----


def test_a_token_that_another_user_registers_moves(server):
    ann, bob, push = new_id(), new_id(), token()
    assert register(server, ann, "phone", push)[0] == 201
    assert register(server, bob, "phone", push)[0] == 201
    assert ok(server, "GET", f"/v1/users/{ann}/devices?include=inactive")["devices"] == []
    assert ok(server, "GET", f"/v1/users/{bob}/devices")["devices"][0]["expoPushToken"] == push


def policies_etag(server):
    return next(value for name, value in call(server, "GET", "/v1/policies/users")[2].items() if name.lower() == "etag")


def test_a_user_has_100_devices_and_a_policy_may_say_otherwise(server):
    user = new_id()
    for i in range(101):
        assert register(server, user, f"device-{i:03}")[0] == 201
    left = ok(server, "GET", f"/v1/users/{user}/devices?limit=500")["devices"]
    assert len(left) == 100
    assert call(server, "PUT", "/v1/policies/users", {"devices": 90}, If_Match=policies_etag(server))[0] == 200
    try:
        register(server, user, "one-more")
        assert len(ok(server, "GET", f"/v1/users/{user}/devices?limit=500")["devices"]) == 90
    finally:
        assert call(server, "DELETE", "/v1/policies/users", If_Match=policies_etag(server))[0] == 200


def test_of_32_who_register_one_device_at_once_one_is_told_201_and_there_is_one_row(fresh):
    user, push, statuses = new_id(), token(), []

    def enter():
        peer = Peer(fresh)
        statuses.append(register(peer, user, "phone", push)[0])

    together(*[enter] * 32)
    assert sorted(statuses) == [200] * 31 + [201]
    assert len(ok(fresh, "GET", f"/v1/users/{user}/devices")["devices"]) == 1
    check_markers(fresh)


def test_of_32_users_who_register_one_token_at_once_exactly_one_has_it(fresh):
    users, push = [new_id() for _ in range(32)], token()
    together(*[lambda user=user: register(Peer(fresh), user, "phone", push) for user in users])
    having = [user for user in users if ok(fresh, "GET", f"/v1/users/{user}/devices")["devices"]]
    assert len(having) == 1
    check_markers(fresh)


def check_markers(server):
    """No device without its markers, no marker without its device."""
    ddb = ddb_of(server)
    devices, markers = [], {}
    for page in ddb.get_paginator("scan").paginate(TableName="device-tokens"):
        devices += page["Items"]
    for page in ddb.get_paginator("scan").paginate(TableName="gatehouse-push-tokens"):
        markers.update({item["PK"]["S"]: item for item in page["Items"] if not item["PK"]["S"].startswith("USER#")})
    wanted = {}
    for item in devices:
        for name, prefix in (("expoPushToken", "EXPO#"), ("fcmToken", "FCM#"), ("apnsToken", "APNS#")):
            if name in item:
                assert prefix + item[name]["S"] not in wanted
                wanted[prefix + item[name]["S"]] = (item["userId"], item["deviceId"], item["expiresAt"])
    assert {pk: (m["userId"], m["deviceId"], m["expiresAt"]) for pk, m in markers.items()} == wanted
    return len(devices)


def test_a_kill_under_load_leaves_no_device_without_its_marker_and_no_marker_without_its_device(rounds=5):
    server = Server()
    pushes = [token() for _ in range(4)]

    def churn(user):
        peer = Peer(server)
        try:
            for i in range(100000):
                register(peer, user, f"device-{i % 3}", pushes[i % 4] if i % 2 else token())
                if i % 5 == 4:
                    call(peer, "DELETE", f"/v1/users/{user}/devices/device-{i % 3}")
                if i % 17 == 16:
                    call(peer, "DELETE", f"/v1/users/{user}/devices")
        except (OSError, http.client.HTTPException):
            pass  # it was killed

    try:
        users = [new_id() for _ in range(6)]
        for _ in range(rounds):
            killer = threading.Timer(0.25, server.kill)
            killer.start()
            together(*[lambda user=user: churn(user) for user in users])
            killer.join()
            server.start()
            check_markers(server)
    finally:
        server.close()


# ---- time travel ----


def test_a_device_expires_90_days_after_its_last_refresh_and_is_free_then():
    server = Moved()
    try:
        push = token()
        first = register(server, "ann", "phone", push)[1]
        server.clock.passes(LIFE_S - 60)
        status, refreshed = register(server, "ann", "phone", push)
        assert status == 200 and refreshed["registeredAt"] == first["registeredAt"] and LIFE_S - 70 < refreshed["expiresAt"] - first["expiresAt"] < LIFE_S
        server.clock.passes(LIFE_S - 60)
        assert ok(server, "GET", "/v1/users/ann/devices/phone")["expoPushToken"] == push
        server.clock.passes(61)
        assert call(server, "GET", "/v1/users/ann/devices/phone")[0] == 404
        assert ok(server, "GET", "/v1/users/ann/devices?include=inactive")["devices"] == []
        assert literal_get(server.ddb, "device-tokens", "ann", "phone") is None
        assert server.ddb.scan(TableName="gatehouse-push-tokens")["Items"] == []
        assert register(server, "ann", "phone", push)[0] == 201
    finally:
        server.close()


# ---- broadcast, jobs, erasing, feedback ----


def test_a_broadcast_is_paged_resumed_and_complete_after_the_index_is_switched_on():
    server = Server()
    try:
        users = [new_id() for _ in range(60)]
        for user in users[:30]:
            register(server, user, "phone")
        literal_put(ddb_of(server), "device-tokens", "lit", "phone", token())
        assert call(server, "GET", "/v1/devices?platform=ios")[0] == 409
        server.v1.close()
        server.process.terminate()
        server.process.wait()
        server.words = ("--device-index", "--device-shards", "5")
        server.start()
        for user in users[30:]:
            register(server, user, "phone")
        jobs = eventually(lambda: [job for job in ok(server, "GET", "/v1/jobs?kind=device-repair")["jobs"] if job["state"] == "done"])
        assert jobs[0]["progress"]["rowsIndexed"] == 31  # by itself, once a day
        assert job_done(server, ok_job(server, "/v1/devices/repair", {}))["progress"].get("rowsIndexed", 0) == 0
        seen, query = [], ""
        while True:
            page = ok(server, "GET", f"/v1/devices?platform=ios&limit=7{query}")
            seen += [device["userId"] for device in page["devices"]]
            assert all(device["expoPushToken"] for device in page["devices"])
            if not page["more"]:
                break
            query = "&cursor=" + page["cursor"]
        assert sorted(seen) == sorted(users + ["lit"])
        items = ddb_of(server).query(TableName="device-tokens", IndexName="PlatformIsActiveIndex",
                                     KeyConditionExpression="platformShard = :p AND isActiveText = :a",
                                     ExpressionAttributeValues={":p": {"S": "ios#0"}, ":a": {"S": "true"}})["Items"]
        assert items and all(set(item) == {"userId", "deviceId", "platformShard", "isActiveText", "expoPushToken", "expiresAt"} for item in items)
    finally:
        server.close()


def eventually(found, end_s=60):
    until = time.monotonic() + end_s
    while not found():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.02)
    return found()


def test_a_list_of_a_platform_leaves_out_devices_that_other_code_signed_out():
    server = Server("--device-index")
    try:
        users = [new_id() for _ in range(3)]
        for user in users:
            register(server, user, "phone")
        literal_deactivate(ddb_of(server), "device-tokens", users[1], "phone")
        literal_delete(ddb_of(server), "device-tokens", users[2], "phone")
        listed = ok(server, "GET", "/v1/devices?platform=ios")
        assert [device["userId"] for device in listed["devices"]] == [users[0]] and not listed["more"]
    finally:
        server.close()


def ways_to_write(ddb, user):
    """Each way of DynamoDB's to write an item; what the row of device `d` of the user becomes."""
    where = {"TableName": "device-tokens"}

    def item(device, **more):
        return {**key(user, device), "expoPushToken": {"S": token()}, "platform": {"S": "ios"}, "isActive": {"BOOL": True}, "expiresAt": {"N": "4102444800"}, **more}

    literal_put(ddb, "device-tokens", user, "put", token())
    ddb.put_item(**where, Item=item("forged", platformShard={"S": "android#1"}, isActiveText={"S": "false"}))
    ddb.batch_write_item(RequestItems={"device-tokens": [{"PutRequest": {"Item": item(name)}} for name in ("batch-1", "batch-2")]})
    ddb.transact_write_items(TransactItems=[{"Put": {**where, "Item": item("transaction")}}, {"Update": {
        **where, "Key": key(user, "updated in one"), "UpdateExpression": "SET platform = :p, isActive = :t",
        "ExpressionAttributeValues": {":p": {"S": "ios"}, ":t": {"BOOL": True}}}}])
    ddb.update_item(**where, Key=key(user, "update"), AttributeUpdates={"platform": {"Value": {"S": "ios"}}, "isActive": {"Value": {"BOOL": True}}})
    ddb.put_item(**where, Item=item("refreshed", isActive={"BOOL": False}))
    literal_refresh(ddb, "device-tokens", user, "refreshed", token())
    ddb.put_item(**where, Item=item("moved", platform={"S": "android"}))
    ddb.update_item(**where, Key=key(user, "moved"), UpdateExpression="SET platform = :p", ExpressionAttributeValues={":p": {"S": "ios"}})
    return {"put", "forged", "batch-1", "batch-2", "transaction", "updated in one", "update", "refreshed", "moved"}


def platform_of(server, platform="ios"):
    return {(device["userId"], device["deviceId"]) for device in ok(server, "GET", f"/v1/devices?platform={platform}&limit=500")["devices"]}


@pytest.fixture(scope="module")
def indexed():
    made = Server("--device-index", "--create-tables", "now")
    yield made
    made.close()


def test_a_list_of_a_platform_has_what_other_code_wrote_at_once_however_it_was_written(indexed):
    ddb, user = ddb_of(indexed), new_id()
    names = ways_to_write(ddb, user)
    mine = lambda: {device for owner, device in platform_of(indexed) if owner == user}  # noqa: E731
    assert mine() == names
    assert not any(owner == user for owner, _ in platform_of(indexed, "android"))
    literal_deactivate(ddb, "device-tokens", user, "put")
    ddb.update_item(TableName="device-tokens", Key=key(user, "update"), UpdateExpression="REMOVE platform")
    ddb.transact_write_items(TransactItems=[{"Update": {"TableName": "device-tokens", "Key": key(user, "moved"), "UpdateExpression": "SET isActive = :f",
                                                        "ExpressionAttributeValues": {":f": {"BOOL": False}}}}])
    literal_delete(ddb, "device-tokens", user, "batch-1")
    assert mine() == names - {"put", "update", "moved", "batch-1"}
    index = {"TableName": "device-tokens", "IndexName": "PlatformIsActiveIndex"}
    entries = {item["deviceId"]["S"] for item in ddb.scan(**index)["Items"] if item["userId"]["S"] == user and item["isActiveText"]["S"] == "true"}
    assert entries == mine()  # the index itself says so: nothing is judged away


def test_what_is_derived_changes_no_answer_but_that_of_the_whole_row(indexed):
    ddb, user = ddb_of(indexed), new_id()
    literal_put(ddb, "device-tokens", user, "d", token())
    answer = ddb.update_item(TableName="device-tokens", Key=key(user, "d"), UpdateExpression="SET isActive = :f", ReturnValues="UPDATED_NEW",
                             ExpressionAttributeValues={":f": {"BOOL": False}})
    assert answer["Attributes"] == {"isActive": {"BOOL": False}}
    row = literal_get(ddb, "device-tokens", user, "d")
    assert row["isActiveText"] == {"S": "false"} and row["platformShard"]["S"].startswith("ios#")


def test_rows_with_odd_platforms_are_stored_as_they_are_and_are_in_no_list(indexed):
    ddb, user = ddb_of(indexed), new_id()
    odd = [{"S": "x" * 3000}, {"S": "windows"}, {"S": ""}, {"N": "5"}, {"NULL": True}, {"L": []}]
    for number, platform in enumerate(odd):
        item = {**key(user, f"d{number}"), "platform": platform, "isActive": {"BOOL": True}}
        ddb.put_item(TableName="device-tokens", Item=item)
        assert literal_get(ddb, "device-tokens", user, f"d{number}") == item
    large = {**key(user, "large"), "platform": {"S": "ios"}, "isActive": {"BOOL": True}, "x": {"S": ""}}
    room = 400 * 1024 - sum(len(name) for name in large) - len(user) - len("large") - len("ios") - 1
    ddb.put_item(TableName="device-tokens", Item={**large, "x": {"S": "x" * room}})  # as large as an item may be: nothing is added to it
    assert not any(owner == user for platform in ("ios", "android") for owner, _ in platform_of(indexed, platform))
    assert job_done(indexed, ok_job(indexed, "/v1/devices/repair", {}))["state"] == "done"


def test_tables_that_are_made_at_the_start_are_there_for_code_that_speaks_dynamodb():
    plain, server = Server(), Server("--create-tables", "now", "--device-index")
    try:
        assert "device-tokens" not in ddb_of(plain).list_tables()["TableNames"]
        literal_put(ddb_of(server), "device-tokens", "ann", "phone", token())
        assert len(ok(server, "GET", "/v1/users/ann/devices")["devices"]) == 1
        tables = set(ddb_of(server).list_tables()["TableNames"])
        assert {"auth-state", "users", "device-tokens", "rate-limits", "gatehouse-push"} <= tables
        assert ddb_of(server).describe_time_to_live(TableName="device-tokens")["TimeToLiveDescription"]["AttributeName"] == "expiresAt"
    finally:
        plain.close()
        server.close()


def ok_job(server, path, body):
    status, answer, _ = call(server, "POST", path, body)
    assert status == 202, answer
    return answer


def test_a_cleanup_counts_in_a_dry_run_and_then_removes(server):
    ddb, users = ddb_of(server), [new_id() for _ in range(5)]
    for i, user in enumerate(users):
        register(server, user, "phone")
        literal_deactivate(ddb, "device-tokens", user, "phone", now="2020-01-01T00:00:00.000Z" if i < 3 else "2999-01-01T00:00:00.000Z")
    job = job_done(server, ok_job(server, "/v1/devices/cleanup", {"dryRun": True}))
    assert job["progress"]["removed"] == 3 and job["kind"] == "device-cleanup" and job["dryRun"]
    job = job_done(server, ok_job(server, "/v1/devices/cleanup", {"inactiveDays": 30, "rate": 100000}))
    assert job["progress"]["removed"] == 3
    assert [call(server, "GET", f"/v1/users/{user}/devices/phone")[0] for user in users] == [404] * 3 + [200] * 2
    for user in users[3:]:
        ok(server, "DELETE", f"/v1/users/{user}/devices/phone")


def test_an_erase_leaves_a_receipt_and_nothing_else(server):
    user = new_id()
    for i in range(100):
        register(server, user, f"device-{i}", fcmToken=f"fcm:{uuid.uuid4().hex}")
    status, answer, _ = call(server, "DELETE", f"/v1/users/{user}/devices")
    assert (status, answer["more"]) == (202, True)
    receipt = job_done(server, {"id": answer["receipt"]})
    assert receipt["progress"]["devices"] == 100 and set(receipt["args"]) == {"userHash"}
    for table, items in rows(server).items():  # what is told of it goes with the user, or when it is trimmed
        assert table == "gatehouse-events" or not [item for item in items if user in item], table
    status, answer, _ = call(server, "DELETE", f"/v1/users/{user}/devices")
    assert (status, answer["removed"], answer["more"]) == (200, 0, False)


def test_an_erase_takes_what_is_kept_about_the_devices_elsewhere(server):
    """A kept answer, a marker of a row that was deleted literally, and a lane; the other user keeps all of it."""
    user, other, pushes = new_id(), new_id(), []
    for name in (user, other):
        for device in ("kept", "deleted"):
            pushes.append(token())
            call(server, "PUT", f"/v1/users/{name}/devices/{device}", {"platform": "ios", "expoPushToken": pushes[-1]}, Idempotency_Key=f"{name}-{device}")
        literal_delete(ddb_of(server), "device-tokens", name, "deleted")
    ok(server, "POST", "/v1/attempts", {"subject": user, "journey": "SIGN_IN", "type": "MFA_CODE_ENTRY", "method_type": "SMS", "outcome": "success", "context": {"device_id": "deleted"}})
    answer = ok(server, "DELETE", f"/v1/users/{user}/devices")
    assert (answer["removed"], answer["knownDevicesForgotten"], answer["more"]) == (1, 1, False)
    progress = job_done(server, {"id": answer["receipt"]})["progress"]
    assert (progress["devices"], progress["knownDevices"], progress["markers"], progress["answers"]) == (1, 1, 1, 2)
    for table, items in rows(server).items():
        assert not [item for item in items if pushes[0] in item or pushes[1] in item], table
        assert table in ("gatehouse-events", "auth-state") or not [item for item in items if user in item], table
    assert sum(pushes[2] in item or pushes[3] in item for items in rows(server).values() for item in items) == 5
    status, answer, _ = call(server, "PUT", f"/v1/users/{user}/devices/kept", {"platform": "ios", "expoPushToken": pushes[0]}, Idempotency_Key=f"{user}-kept")
    assert status == 201, answer


def test_feedback_disables_dead_tokens(server):
    user, dead, busy = new_id(), token(), token()
    register(server, user, "dead", dead)
    register(server, user, "busy", busy)
    results = [{"token": dead, "error": "DeviceNotRegistered", "sentAt": 1}, {"token": dead, "error": "DeviceNotRegistered"},
               {"token": busy, "error": "MessageRateExceeded"}, {"token": token(), "error": "DeviceNotRegistered"}]
    assert ok(server, "POST", "/v1/devices/feedback", {"results": results}) == {"outcomes": ["stale", "disabled", "ignored", "unknown"], "more": False}
    assert [device["deviceId"] for device in ok(server, "GET", f"/v1/users/{user}/devices")["devices"]] == ["busy"]
    many = []
    for i in range(100):
        push = token()
        register(server, f"{user}-{i}", "phone", push)
        many.append({"token": push, "error": "DeviceNotRegistered"})
    rounds = 0
    while many:
        answer = ok(server, "POST", "/v1/devices/feedback", {"results": many})
        many = [each for each, outcome in zip(many, answer["outcomes"]) if outcome == "deferred"]
        assert answer["more"] == bool(many)
        rounds += 1
    assert 1 < rounds < 20


def test_feedback_on_a_row_that_others_wrote_needs_its_key(server):
    ddb, user, dead = ddb_of(server), new_id(), token()
    register(server, new_id(), "phone")  # so that there is a table
    literal_put(ddb, "device-tokens", user, "phone", dead)
    said = {"token": dead, "error": "DeviceNotRegistered"}
    assert ok(server, "POST", "/v1/devices/feedback", {"results": [said]})["outcomes"] == ["unknown"]
    for other in ({"userId": new_id(), "deviceId": "phone"}, {"userId": user, "deviceId": "tablet"}):
        assert ok(server, "POST", "/v1/devices/feedback", {"results": [{**said, **other}]})["outcomes"] == ["unknown"]
    known = {**said, "userId": user, "deviceId": "phone"}
    assert ok(server, "POST", "/v1/devices/feedback", {"results": [{**known, "token": token()}]})["outcomes"] == ["unknown"]
    assert ok(server, "POST", "/v1/devices/feedback", {"results": [known]})["outcomes"] == ["disabled"]
    assert literal_list(ddb, "device-tokens", user) == []


# ---- known devices ----


def test_a_device_that_ends_takes_its_lane_and_the_subjects_page_shows_both(server):
    user = new_id()
    register(server, user, "phone")

    def signed_in(**context):
        return ok(server, "POST", "/v1/attempts", {"subject": user, "journey": "SIGN_IN", "type": "MFA_CODE_ENTRY", "method_type": "SMS", "outcome": "success",
                                                   "context": context})["device_token"]

    def is_known(sent):
        answer = ok(server, "POST", "/v1/attempts", {"subject": user, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure",
                                                     "context": {"device_token": sent}})
        return answer["known_device"]

    linked, free = signed_in(device_id="phone"), signed_in()
    page = ok(server, "GET", f"/v1/subjects/{user}")
    assert [device["device_id"] for device in page["registered_devices"]] == ["phone"]
    assert sorted(device.get("device_id", "") for device in page["devices"] if device["type"] == "COOKIE") == ["", "phone"]
    assert is_known(linked) and is_known(free)
    ok(server, "POST", f"/v1/users/{user}/devices/phone/deactivate")
    assert not is_known(linked) and is_known(free)
    begun = ok(server, "POST", "/v1/attempts/begin", {"subject": user, "journey": "SIGN_IN", "type": "MFA_CODE_ENTRY", "method_type": "SMS",
                                                      "context": {"device_id": "phone"}})
    finished = ok(server, "POST", "/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": "success"})
    assert is_known(finished["device_token"])
    assert ok(server, "DELETE", f"/v1/users/{user}/devices/phone") == {"removed": True, "knownDevicesForgotten": 1}
    assert not is_known(finished["device_token"])


def test_a_lane_of_an_address_ends_with_the_users_device(server):
    email = f"{new_id()}@example.org"
    user = ok(server, "POST", "/v1/users", {"id": new_id(), "email": email})["id"]
    register(server, user, "phone")
    sent = ok(server, "POST", "/v1/attempts", {"subject": {"email": email}, "journey": "SIGN_IN", "type": "MFA_CODE_ENTRY", "method_type": "SMS", "outcome": "success",
                                               "context": {"device_id": "phone"}})["device_token"]
    assert ok(server, "DELETE", f"/v1/users/{user}/devices/phone")["knownDevicesForgotten"] == 1
    answer = ok(server, "POST", "/v1/attempts", {"subject": {"email": email}, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure",
                                                 "context": {"device_token": sent}})
    assert not answer["known_device"]


# ---- the user's token ----


def test_with_a_token_the_user_of_the_path_must_be_its_own(tmp_path):
    issuer = Issuer()
    server = started(issuer, tmp_path)
    try:
        user, path = new_id(), "/v1/users/{}/devices"
        body = {"platform": "ios", "expoPushToken": token()}
        own, other = issuer.token(user), issuer.token(new_id())
        every = (("PUT", "/phone", body), ("GET", "/phone", None), ("GET", "", None), ("POST", "/phone/deactivate", None), ("DELETE", "/phone", None), ("DELETE", "", None))
        register(server, user, "phone")
        before = rows(server)
        for method, rest, sent in every:
            for bad, status, kind in ((other, 403, "forbidden"), ("x", 401, "token-refused"), (issuer.token(user, exp=1), 401, "token-refused")):
                answer = call(server, method, path.format(user) + rest, sent, X_Gatehouse_User_Token=bad)
                assert (answer[0], answer[1]["type"].rsplit(":", 1)[1], answer[1]["field"]) == (status, kind, "X-Gatehouse-User-Token"), answer
        assert rows(server) == before
        for method, rest, sent in every:
            assert call(server, method, path.format(user) + rest, sent, X_Gatehouse_User_Token="Bearer " + own)[0] in (200, 201), (method, rest)
        made = ok(server, "POST", "/v1/users", {"id": user})
        ok(server, "POST", f"/v1/users/{made['id']}/suspend")
        assert call(server, "GET", path.format(user), None, X_Gatehouse_User_Token=issuer.token(user))[0] == 403
        assert own.encode() not in server.logged()
    finally:
        server.close()
        issuer.close()


# ---- bad input, retries, secrets ----


def refused(server, method, path, body, field):
    status, answer, _ = call(server, method, path, body)
    assert status in (400, 422), (path, body, answer)
    assert answer["field"].split(".")[0].split("[")[0] == field, (path, body, answer)


def test_bad_input_names_its_field_and_changes_nothing(server):
    user = new_id()
    register(server, user, "phone")
    path, good = f"/v1/users/{user}/devices", {"platform": "ios", "expoPushToken": token()}
    before = rows(server)
    for field, values in {
            "platform": [None, 1, "", "IOS", "web"],
            "expoPushToken": [1, "", "abc", "ExponentPushToken[]", "ExponentPushToken[a b]", "ExponentPushToken[a", "x" * 1025],
            "fcmToken": [1, "", "short", "x" * 31, "x" * 1025, "é" * 40],
            "apnsToken": [1, "", "a" * 62, "a" * 65, "g" * 64, "a" * 202],
            "unknown": [1], "isActive": [False], "expiresAt": [1], "userId": ["eve"]}.items():
        for value in values:
            refused(server, "PUT", path + "/phone", {**good, field: value}, field)
    refused(server, "PUT", path + "/phone", {"platform": "ios"}, "expoPushToken")
    refused(server, "PUT", path + "/phone", {"platform": "android", "apnsToken": "a" * 64}, "apnsToken")
    for bad in ("a%0Ab", "x" * 257):
        refused(server, "PUT", f"{path}/{bad}", good, "deviceId")
        refused(server, "GET", f"{path}/{bad}", None, "deviceId")
    for personal in ("ann@example.org", "%2B442071838750", "192.0.2.1"):
        refused(server, "PUT", f"{path}/{personal}", good, "deviceId")
    refused(server, "PUT", "/v1/users/ann@example.org/devices/phone", good, "id")
    for query, field in (("limit=0", "limit"), ("limit=501", "limit"), ("cursor=x", "cursor"), ("include=all", "include"), ("page=1", "page")):
        refused(server, "GET", f"{path}?{query}", None, field)
    for query, field in (("", "platform"), ("platform=web", "platform"), ("platform=ios&cursor=x", "cursor")):
        refused(server, "GET", f"/v1/devices?{query}", None, field)
    for body in ({}, {"results": []}, {"results": 1}, {"results": [{}] * 101}, {"results": [{"token": token()}]},
                 {"results": [{"token": token(), "error": "y", "sentAt": "now"}]}, {"results": [1]}, {"results": [{"token": token(), "error": "y", "userId": "u"}]},
                 {"results": [{"token": token(), "error": "y", "deviceId": "d"}]}, {"results": [{"token": token(), "error": "y", "userId": "u", "deviceId": "x" * 257}]}):
        refused(server, "POST", "/v1/devices/feedback", body, "results")
    for body, field in (({"inactiveDays": 0}, "inactiveDays"), ({"inactiveDays": 3651}, "inactiveDays"), ({"rate": 0}, "rate"), ({"dryRun": 1}, "dryRun"), ({"x": 1}, "x")):
        refused(server, "POST", "/v1/devices/cleanup", body, field)
    refused(server, "POST", "/v1/devices/repair", {"inactiveDays": 3}, "inactiveDays")
    assert rows(server) == before


def test_a_retry_with_the_same_key_registers_once(server):
    user, push = new_id(), token()
    first = call(server, "PUT", f"/v1/users/{user}/devices/phone", {"platform": "ios", "expoPushToken": push}, Idempotency_Key=user)
    second = call(server, "PUT", f"/v1/users/{user}/devices/phone", {"platform": "ios", "expoPushToken": push}, Idempotency_Key=user)
    assert (first[0], second[0]) == (201, 201) and first[1] == second[1]


def test_neither_log_nor_metrics_hold_a_token():
    server = Server("--log-requests")
    try:
        push = token()
        register(server, "ann", "phone", push)
        register(server, "bob", "phone", push)
        ok(server, "POST", "/v1/devices/feedback", {"results": [{"token": push, "error": "DeviceNotRegistered"}]})
        metrics = server.v1.send("GET", "/metrics", b"", {}).body.decode()
        assert push not in metrics and push.encode() not in server.logged()
        for line in ('gatehouse_devices_total{event="created"} 2', 'gatehouse_devices_total{event="moved"} 1',
                     'gatehouse_push_feedback_total{outcome="disabled"} 1'):
            assert line in metrics, line
    finally:
        server.close()


# ---- the command line ----


def test_the_command_line_lists_ends_and_cleans_up(server):
    cli, user = Cli(server.endpoint), new_id()
    for name in ("a", "b", "c"):
        register(server, user, name)
    assert [row["deviceId"] for row in cli.rows("device", "list", user)] == ["a", "b", "c"]
    assert cli.json("device", "show", user, "a")["platform"] == "ios"
    assert cli.json("device", "deactivate", user, "a")["isActive"] is False
    assert [row["deviceId"] for row in cli.rows("device", "list", user)] == ["b", "c"]
    assert [row["deviceId"] for row in cli.rows("device", "list", user, "--all", "--limit", "2")] == ["a", "b"]
    assert cli.json("device", "delete", user, "b")["removed"] is True
    assert "no such device" in cli.refused("device", "delete", user, "b")
    assert "--yes" in cli.refused("device", "erase", user, status=2)
    assert cli.json("device", "erase", user, "--yes")["removed"] == 2
    assert "--device-index" in cli.refused("device", "broadcast", "ios")
    assert cli.json("device", "cleanup", "--inactive-days", "3650", "--dry-run")["progress"]["removed"] == 0
    assert cli.json("device", "repair", "--dry-run", "--rate", "100000")["state"] == "done"
    assert "inactive-days" in cli.refused("device", "cleanup", "--inactive-days", "0", status=2)


# ---- the alarms, by what a server counted ----


def counted(server):
    lines = server.v1.send("GET", "/metrics", b"", {}).body.decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line.startswith(("gatehouse_requests_total{", "gatehouse_errors_total{")))}


def fires(alarm, severity, before, after, tmp_path):
    """Do Prometheus's rules fire, if a server counts from the one to the other within a minute?"""
    series = [{"series": name.replace("{", '{job="g",instance="a",'), "values": " ".join([str(before.get(name, 0))] * 5 + [str(after[name])] * 4)}
              for name in after if after[name] != before.get(name, 0)]
    labels = f'ALERTS{{alertname="{alarm}",alertstate="firing",instance="a",job="g",severity="{severity}"}}'
    test = {"rule_files": [str(RULES / "gatehouse.rules.yml")], "evaluation_interval": "1m", "tests": [
        {"interval": "1m", "input_series": series, "promql_expr_test": [
            {"expr": f'ALERTS{{alertname="{alarm}",alertstate="firing"}}', "eval_time": "6m", "exp_samples": [{"labels": labels, "value": 1}]}]}]}
    (tmp_path / "test.yml").write_text(json.dumps(test))
    return subprocess.run([PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60).returncode == 0


def test_ten_refused_registrations_are_silent_and_eleven_fire(fresh, tmp_path):
    register(fresh, "ann", "phone", "no token")  # a series of /v1 begins with its first count
    before = counted(fresh)
    for _ in range(10):
        assert register(fresh, "ann", "phone", "no token")[0] == 422
    assert not fires("GatehouseUserErrors", "warning", before, counted(fresh), tmp_path)
    assert register(fresh, "ann", "phone", "no token")[0] == 422
    assert fires("GatehouseUserErrors", "warning", before, counted(fresh), tmp_path)


def test_a_hundred_duplicate_registrations_are_silent_and_one_more_fires(fresh, tmp_path):
    ddb = ddb_of(fresh)
    register(fresh, "ann", "phone")
    before = counted(fresh)
    for _ in range(100):
        fails("ConditionalCheckFailedException", literal_put, ddb, "device-tokens", "ann", "phone", token())
    assert not fires("GatehouseConditionalCheckFailures", "warning", before, counted(fresh), tmp_path)
    fails("ConditionalCheckFailedException", literal_put, ddb, "device-tokens", "ann", "phone", token())
    assert fires("GatehouseConditionalCheckFailures", "warning", before, counted(fresh), tmp_path)


def test_registrations_that_a_full_disk_refuses_fire_when_they_are_more_than_ten(tmp_path):
    server = Server("--fault", "disk-full:1")
    try:
        end = time.monotonic() + 20
        while register(server, "ann", "phone")[0] != 503:
            assert time.monotonic() < end, "the disk was not found full"
        before = counted(server)
        for _ in range(10):
            assert register(server, "ann", "phone")[0] == 503
        assert not fires("GatehouseSystemErrors", "critical", before, counted(server), tmp_path)
        assert register(server, "ann", "phone")[0] == 503
        assert fires("GatehouseSystemErrors", "critical", before, counted(server), tmp_path)
    finally:
        server.close()


def lapsed(server):
    """Whose registrations were published as lapsed, in the order of the log."""
    return [(event["subject"], event["data"]) for event in ok(server, "GET", "/v1/events?types=device.expired&from=first&limit=1000")["events"]]


def test_a_registration_that_lapses_is_published_once_at_its_second_and_after_a_restart():
    server = Moved()
    try:
        for user in ("ann", "bob", "cat", "dan"):
            assert register(server, user, "phone")[0] == 201
        push = token()
        assert register(server, "eve", "phone", push)[0] == 201
        server.clock.passes(86400)
        assert register(server, "bob", "phone")[0] == 200  # lives a day longer
        assert call(server, "DELETE", "/v1/users/cat/devices/phone")[0] == 200
        job_done(server, ok(server, "POST", "/v1/users", {"id": "dan"}) and call(server, "POST", "/v1/users/dan/erase")[1])
        assert register(server, "fay", "phone", push)[0] == 201  # eve's, moved
        server.clock.passes(LIFE_S - 86400 - 60)
        assert lapsed(server) == []
        server.clock.passes(61)
        wait_for(lambda: lapsed(server) == [("ann", {"deviceId": "phone", "platform": "ios"})])
        assert register(server, "ann", "phone")[0] == 201
        server.kill()
        server.clock.passes(86400)
        server.start()
        wait_for(lambda: {user for user, _ in lapsed(server)} == {"ann", "bob", "fay"})
        server.kill()
        server.start()
        assert sorted(user for user, _ in lapsed(server)) == ["ann", "bob", "fay"]
        rows_left = [row for row in server.ddb.scan(TableName="gatehouse-events")["Items"] if row["PK"]["S"].startswith("DUE#")]
        assert [row["subject"]["S"] for row in rows_left] == ["ann"]
    finally:
        server.close()
