"""The few DynamoDB calls that prepare a table and check it afterwards."""
import http.client
import json
import time

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from scenarios import TABLE

CALL_SECONDS_MAX = 30
ACTIVE_SECONDS_MAX = 10
CREDENTIAL = ("AWS4-HMAC-SHA256 Credential=bench/20250101/us-east-1/dynamodb/aws4_request, "
              "SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" + "0" * 64)


class CallFailed(Exception):
    pass


def headers_of(port, operation, text, key):
    """As an SDK sends them; without a key the signature is well formed and wrong."""
    headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    if key is None:
        return {**headers, "X-Amz-Date": "20250101T000000Z", "Authorization": CREDENTIAL}
    request = AWSRequest("POST", f"http://127.0.0.1:{port}/", headers, text)
    SigV4Auth(Credentials(key.id, key.secret), "dynamodb", "local").add_auth(request)
    return dict(request.headers)


def call(port, key, operation, **fields):
    text = json.dumps(fields)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS_MAX)
    try:
        connection.request("POST", "/", text, headers_of(port, operation, text, key))
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    if response.status != 200:
        raise CallFailed(f"{operation}: {response.status} {text[:200]}")
    return json.loads(text)


def prepare(port, key):
    """True if the server also keeps times to live."""
    names = ("PK", "HASH"), ("SK", "RANGE")
    call(port, key, "CreateTable", TableName=TABLE, BillingMode="PAY_PER_REQUEST",
         AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n, _ in names],
         KeySchema=[{"AttributeName": n, "KeyType": kind} for n, kind in names])
    wait_active(port, key)
    try:
        call(port, key, "UpdateTimeToLive", TableName=TABLE,
             TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    except CallFailed:
        return False
    return True


def wait_active(port, key):
    deadline = time.monotonic() + ACTIVE_SECONDS_MAX
    while call(port, key, "DescribeTable", TableName=TABLE)["Table"]["TableStatus"] != "ACTIVE":
        if time.monotonic() > deadline:
            raise CallFailed("the table does not become ACTIVE")
        time.sleep(0.05)


def sum_counts(port, key, _rows):
    """The sum of `count` over all rows: what the updates that were answered must add up to."""
    total, start = 0, {}
    while True:
        page = call(port, key, "Scan", TableName=TABLE, ConsistentRead=True, **start)
        total += sum(int(item["count"]["N"]) for item in page["Items"])
        if "LastEvaluatedKey" not in page:
            return total
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
