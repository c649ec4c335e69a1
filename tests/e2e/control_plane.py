"""The control plane of DynamoDB, as far as `gatehouse tables` needs it and in AWS's own words, with what no server here has: point-in-time
recovery, encryption with a key of one's own, tables that take a while to be made, and rights that are missing. Tables have no rows."""

import contextlib
import http.server
import json
import threading

ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/"


class Refused(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class ControlPlane:
    """creating: how often a new table is described before it is ACTIVE. backups_late: how often recovery is refused after that."""

    def __init__(self, creating=0, backups_late=0, denied=()):
        self.creating, self.backups_late, self.denied = creating, backups_late, set(denied)
        self.tables, self.calls, self.lock = {}, [], threading.Lock()

    def call(self, operation, body):
        with self.lock:
            self.calls.append((operation, body))
            if operation in self.denied:
                raise Refused("AccessDeniedException", f"User: arn:aws:iam::123456789012:user/ann is not authorized to perform: "
                                                       f"dynamodb:{operation}")
            return getattr(self, operation)(body)

    def table(self, body):
        name = body.get("TableName") or body["ResourceArn"].removeprefix(ARN)
        if name not in self.tables:
            raise Refused("ResourceNotFoundException", f"Requested resource not found: Table: {name} not found")
        return self.tables[name]

    def CreateTable(self, body):
        if body["TableName"] in self.tables:
            raise Refused("ResourceInUseException", "Table already exists: " + body["TableName"])
        self.tables[body["TableName"]] = {"request": body, "left": self.creating, "late": self.backups_late, "ttl": None, "pitr": False,
                                          "tags": {tag["Key"]: tag["Value"] for tag in body.get("Tags", [])},
                                          "sse": body.get("SSESpecification")}
        return {"TableDescription": self.describe(self.table(body))}

    def describe(self, table):
        request = table["request"]
        units = request.get("ProvisionedThroughput", {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0})
        said = {"TableName": request["TableName"], "TableArn": ARN + request["TableName"], "TableId": "0" * 36,
                "CreationDateTime": 1.7e9, "TableStatus": "ACTIVE" if table["left"] == 0 else "CREATING",
                "AttributeDefinitions": request["AttributeDefinitions"], "KeySchema": request["KeySchema"],
                "ProvisionedThroughput": units, "BillingModeSummary": {"BillingMode": request["BillingMode"]},
                "DeletionProtectionEnabled": request.get("DeletionProtectionEnabled", False), "ItemCount": 0, "TableSizeBytes": 0}
        if request.get("GlobalSecondaryIndexes"):
            said["GlobalSecondaryIndexes"] = [{**index, "IndexStatus": "ACTIVE"} for index in request["GlobalSecondaryIndexes"]]
        if table["sse"]:
            said["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS", "KMSMasterKeyArn": table["sse"]["KMSMasterKeyId"]}
        return said

    def DescribeTable(self, body):
        table = self.table(body)
        said = self.describe(table)
        table["left"] = max(0, table["left"] - 1)
        return {"Table": said}

    def UpdateTable(self, body):
        table = self.table(body)
        request = table["request"]
        for name in ("BillingMode", "ProvisionedThroughput", "DeletionProtectionEnabled"):
            if name in body:
                request[name] = body[name]
        if request["BillingMode"] == "PAY_PER_REQUEST":
            request.pop("ProvisionedThroughput", None)
        for update in body.get("GlobalSecondaryIndexUpdates", []):
            if "Create" in update:
                request.setdefault("GlobalSecondaryIndexes", []).append(update["Create"])
                known = {one["AttributeName"] for one in request["AttributeDefinitions"]}
                request["AttributeDefinitions"] += [one for one in body["AttributeDefinitions"] if one["AttributeName"] not in known]
            elif "Update" in update:
                for index in request["GlobalSecondaryIndexes"]:
                    if index["IndexName"] == update["Update"]["IndexName"]:
                        index["ProvisionedThroughput"] = update["Update"]["ProvisionedThroughput"]
            else:
                raise AssertionError("an index was to be deleted")
        table["sse"] = body.get("SSESpecification", table["sse"])
        return {"TableDescription": self.describe(table)}

    def DescribeTimeToLive(self, body):
        ttl = self.table(body)["ttl"]
        return {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": ttl} if ttl else {"TimeToLiveStatus": "DISABLED"}}

    def UpdateTimeToLive(self, body):
        wanted = body["TimeToLiveSpecification"]
        assert wanted["Enabled"]
        self.table(body)["ttl"] = wanted["AttributeName"]
        return {"TimeToLiveSpecification": wanted}

    def DescribeContinuousBackups(self, body):
        return {"ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED" if self.table(body)["pitr"] else "DISABLED"}}}

    def UpdateContinuousBackups(self, body):
        table = self.table(body)
        if table["late"] > 0:
            table["late"] -= 1
            raise Refused("ContinuousBackupsUnavailableException", "Backups are being enabled for the table. Please retry later")
        table["pitr"] = body["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        return self.DescribeContinuousBackups(body)

    def TagResource(self, body):
        self.table(body)["tags"].update({tag["Key"]: tag["Value"] for tag in body["Tags"]})
        return {}

    def ListTagsOfResource(self, body):
        return {"Tags": [{"Key": key, "Value": value} for key, value in self.table(body)["tags"].items()]}


@contextlib.contextmanager
def served(plane):
    """Its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one segment per answer

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = 200, plane.call(self.headers["X-Amz-Target"].removeprefix("DynamoDB_20120810."), body)
            except Refused as refused:
                status, answer = 400, {"__type": "com.amazonaws.dynamodb.v20120810#" + refused.kind, "message": str(refused)}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
