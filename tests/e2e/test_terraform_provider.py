"""What Terraform's provider asks of a table, in its order: `aws_dynamodb_table` of hashicorp/aws 6 (create, read, update, delete), replayed call by call
as bytes, since the SDK here is older than some of the fields. Its waiters poll until they see a status; a field that is missing keeps them polling until they time out. Then what other tools ask."""

import time

import pytest

from conftest import table_name
from v1 import Server
from wire import Wire

pytestmark = pytest.mark.gatehouse_only
WAIT_S = 30


class Calls:
    """calls.describe_table(TableName=…) sends DescribeTable, which must be answered 200."""

    def __init__(self, wire):
        self.wire = wire

    def __getattr__(self, name):
        operation = "".join(word.title() for word in name.split("_"))

        def call(**request):
            answer = self.wire.call(operation, request)
            assert answer.status == 200, (operation, request, answer.body)
            return answer.json() if answer.body else None

        return call


@pytest.fixture
def aws(wire):
    return Calls(wire)


def is_absent(aws, name):
    return aws.wire.call("DescribeTable", {"TableName": name}).error == "ResourceNotFoundException"


def describe(aws, name):
    return aws.describe_table(TableName=name)["Table"]


def waits(status):
    """As the provider's waiters: nothing there is "not yet", and that must end."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        if status() == "ACTIVE":
            return
    raise AssertionError("the provider would wait for ever")


def waits_for_table(aws, name):
    waits(lambda: describe(aws, name)["TableStatus"])
    waits(lambda: describe(aws, name).get("WarmThroughput", {}).get("Status"))


def index_of(aws, name, index):
    return next((i for i in describe(aws, name).get("GlobalSecondaryIndexes", []) if i["IndexName"] == index), {})


def waits_for_index(aws, name, index):
    waits(lambda: index_of(aws, name, index).get("IndexStatus"))
    waits(lambda: index_of(aws, name, index).get("WarmThroughput", {}).get("Status"))


def reads(aws, name):
    """resourceTableRead: what becomes the state. Everything in it must come, or every plan shows a change."""
    table = describe(aws, name)
    recovery = aws.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    ttl = aws.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    tags = aws.list_tags_of_resource(ResourceArn=table["TableArn"])["Tags"]
    return {
        "billing": table.get("BillingModeSummary", {}).get("BillingMode", "PROVISIONED"),
        "units": (table["ProvisionedThroughput"]["ReadCapacityUnits"], table["ProvisionedThroughput"]["WriteCapacityUnits"]),
        "protected": table["DeletionProtectionEnabled"],
        "class": table["TableClassSummary"]["TableClass"],
        "demand": table.get("OnDemandThroughput"),
        "warm": (table["WarmThroughput"]["ReadUnitsPerSecond"], table["WarmThroughput"]["WriteUnitsPerSecond"]),
        "indexes": sorted(index["IndexName"] for index in table.get("GlobalSecondaryIndexes", [])),
        "recovery": recovery["PointInTimeRecoveryStatus"],
        "ttl": ttl.get("AttributeName"),
        "tags": {tag["Key"]: tag["Value"] for tag in tags},
    }


def index(name, key):
    return {"IndexName": name, "KeySchema": [{"AttributeName": key, "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}


def attributes(*names):
    return [{"AttributeName": name, "AttributeType": "S"} for name in names]


@pytest.fixture
def applied(aws):
    """resourceTableCreate: a table with an index, time to live, a class and maxima."""
    name = table_name("terraform")
    aws.create_table(
        BillingMode="PAY_PER_REQUEST", TableName=name, KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=attributes("pk", "g"), GlobalSecondaryIndexes=[index("by-g", "g")], TableClass="STANDARD",
        OnDemandThroughput={"MaxReadRequestUnits": 100, "MaxWriteRequestUnits": 50}, DeletionProtectionEnabled=True,
        Tags=[{"Key": "owner", "Value": "ops"}])
    waits_for_table(aws, name)
    waits_for_index(aws, name, "by-g")
    aws.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
    waits(lambda: aws.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"].replace("ENABLED", "ACTIVE"))
    yield name
    if describe(aws, name)["DeletionProtectionEnabled"]:
        aws.update_table(TableName=name, DeletionProtectionEnabled=False)
    aws.delete_table(TableName=name)
    assert is_absent(aws, name)  # waitTableDeleted


STATE = {"billing": "PAY_PER_REQUEST", "units": (0, 0), "protected": True, "class": "STANDARD",
         "demand": {"MaxReadRequestUnits": 100, "MaxWriteRequestUnits": 50}, "warm": (12000, 4000), "indexes": ["by-g"],
         "recovery": "DISABLED", "ttl": "ttl", "tags": {"owner": "ops"}}


def test_an_apply_ends_and_the_next_plan_is_empty(aws, applied):
    assert reads(aws, applied) == STATE
    assert reads(aws, applied) == STATE


def test_every_change_of_a_table_is_applied_and_seen(aws, applied):
    """resourceTableUpdate, in its order: class, the rest of the table, an index's own, an index more, time to live, tags, warm throughput."""
    aws.update_table(TableName=applied, TableClass="STANDARD_INFREQUENT_ACCESS")
    waits_for_table(aws, applied)
    aws.update_table(TableName=applied, DeletionProtectionEnabled=False, OnDemandThroughput={"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": 60})
    waits_for_table(aws, applied)
    aws.update_table(TableName=applied, GlobalSecondaryIndexUpdates=[
        {"Update": {"IndexName": "by-g", "OnDemandThroughput": {"MaxReadRequestUnits": 7}, "WarmThroughput": {"ReadUnitsPerSecond": 12500}}}])
    waits_for_index(aws, applied, "by-g")
    shown = index_of(aws, applied, "by-g")
    assert shown["WarmThroughput"] == {"ReadUnitsPerSecond": 12500, "WriteUnitsPerSecond": 4000, "Status": "ACTIVE"}
    assert shown["OnDemandThroughput"] == {"MaxReadRequestUnits": 7, "MaxWriteRequestUnits": -1}
    aws.update_table(TableName=applied, AttributeDefinitions=attributes("pk", "g", "h"), GlobalSecondaryIndexUpdates=[{"Create": index("by-h", "h")}])
    waits_for_index(aws, applied, "by-h")
    aws.update_time_to_live(TableName=applied, TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"})
    aws.untag_resource(ResourceArn=describe(aws, applied)["TableArn"], TagKeys=["owner"])
    aws.tag_resource(ResourceArn=describe(aws, applied)["TableArn"], Tags=[{"Key": "stage", "Value": "test"}])
    aws.update_table(TableName=applied, WarmThroughput={"ReadUnitsPerSecond": 13000, "WriteUnitsPerSecond": 5000})
    waits_for_table(aws, applied)
    assert reads(aws, applied) == {**STATE, "protected": False, "class": "STANDARD_INFREQUENT_ACCESS",
                                   "demand": {"MaxReadRequestUnits": -1, "MaxWriteRequestUnits": 60}, "warm": (13000, 5000),
                                   "indexes": ["by-g", "by-h"], "ttl": None, "tags": {"stage": "test"}}
    assert describe(aws, applied)["TableClassSummary"]["LastUpdateDateTime"] >= describe(aws, applied)["CreationDateTime"]


def test_billing_is_switched_and_when_is_told(aws, applied):
    table = describe(aws, applied)
    assert table["BillingModeSummary"]["LastUpdateToPayPerRequestDateTime"] == table["CreationDateTime"]
    units = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}
    aws.update_table(TableName=applied, BillingMode="PROVISIONED", ProvisionedThroughput=units)
    state = reads(aws, applied)
    assert (state["billing"], state["units"], state["demand"], state["warm"]) == ("PROVISIONED", (5, 6), None, (5, 6))
    aws.update_table(TableName=applied, BillingMode="PAY_PER_REQUEST")
    assert describe(aws, applied)["BillingModeSummary"]["LastUpdateToPayPerRequestDateTime"] > table["CreationDateTime"]


def test_an_index_follows_when_billing_is_switched_and_switched_back(aws, applied):
    """The provider names the units of every index when it switches to PROVISIONED: those of the time before must not count as the present ones."""
    units = {"ReadCapacityUnits": 5, "WriteCapacityUnits": 6}
    aws.update_table(TableName=applied, GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "by-g", "OnDemandThroughput": {"MaxReadRequestUnits": 7}}}])
    for _ in range(2):
        aws.update_table(TableName=applied, BillingMode="PROVISIONED", ProvisionedThroughput=units,
                         GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "by-g", "ProvisionedThroughput": units}}])
        shown = index_of(aws, applied, "by-g")
        assert shown["ProvisionedThroughput"] == {"NumberOfDecreasesToday": 0, **units} and "OnDemandThroughput" not in shown
        aws.update_table(TableName=applied, BillingMode="PAY_PER_REQUEST")
        shown = index_of(aws, applied, "by-g")["ProvisionedThroughput"]
        assert (shown["ReadCapacityUnits"], shown["WriteCapacityUnits"]) == (0, 0)


def test_what_is_kept_survives_a_kill_of_the_server():
    server = Server()
    try:
        Calls(Wire(server.endpoint)).create_table(
            TableName="kept", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=attributes("pk"), TableClass="STANDARD_INFREQUENT_ACCESS", OnDemandThroughput={"MaxReadRequestUnits": 9},
            WarmThroughput={"WriteUnitsPerSecond": 4500})
        before = describe(Calls(Wire(server.endpoint)), "kept")
        server.kill()
        server.start()
        after = describe(Calls(Wire(server.endpoint)), "kept")
    finally:
        server.close()
    for field in ("TableClassSummary", "OnDemandThroughput", "WarmThroughput", "BillingModeSummary"):
        assert after[field] == before[field]


REFUSED = {
    "TableClass": ("NONSENSE", "Invalid table-class parameter provided. Please try again with a valid table-class value: "
                               "[STANDARD, STANDARD_INFREQUENT_ACCESS]."),
    "VectorIndexes": ([], "1 validation error detected: Value '[]' at 'vectorIndexes' failed to satisfy constraint: Member is not supported by this endpoint"),
    "GlobalTableSourceArn": ("arn", "1 validation error detected: Value 'arn' at 'globalTableSourceArn' failed to satisfy constraint: "
                                    "Member is not supported by this endpoint"),
    "OnDemandThroughput": ({"MaxReadRequestUnits": 0}, "One or more parameter values were invalid: Requested MaxReadRequestUnits for OnDemandThroughput "
                                                       "for table is outside of valid range"),
    "WarmThroughput": ({"ReadUnitsPerSecond": 1}, "One or more parameter values were invalid: Requested ReadUnitsPerSecond for WarmThroughput for table "
                                                  "is lower than current WarmThroughput, decreasing WarmThroughput is not supported"),
}


@pytest.mark.parametrize("field", REFUSED)
def test_what_cannot_be_kept_is_refused_by_name_and_makes_no_table(wire, aws, field):
    name = table_name("refused")
    value, message = REFUSED[field]
    answer = wire.call("CreateTable", {"TableName": name, "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes("pk"),
                                       "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}], field: value})
    assert (answer.error, answer.message) == ("ValidationException", message)
    assert is_absent(aws, name)


@pytest.mark.parametrize("field, value", [("TableClass", "NONSENSE"), ("VectorIndexUpdates", []), ("ReplicaUpdates", []),
                                          ("MultiRegionConsistency", "STRONG"), ("GlobalTableWitnessUpdates", []),
                                          ("GlobalTableSettingsReplicationMode", "ENABLED")])
def test_a_change_that_cannot_be_made_is_refused_by_name(wire, table, field, value):
    answer = wire.call("UpdateTable", {"TableName": table, field: value})
    assert answer.error == "ValidationException"
    assert field == "TableClass" or (field[0].lower() + field[1:]) in answer.message, answer.message


def test_what_there_is_not_is_told_honestly(wire, aws, table):
    arn = describe(aws, table)["TableArn"]
    named = {"TableName": table}
    assert wire.call("DescribeContributorInsights", named).json() == {**named, "ContributorInsightsStatus": "DISABLED"}
    assert wire.call("DescribeKinesisStreamingDestination", named).json() == {**named, "KinesisDataStreamDestinations": []}
    assert wire.call("DescribeTableReplicaAutoScaling", named).json()["TableAutoScalingDescription"]["Replicas"] == []
    for operation, list_name in [("ListContributorInsights", "ContributorInsightsSummaries"), ("ListGlobalTables", "GlobalTables"),
                                 ("ListImports", "ImportSummaryList"), ("ListExports", "ExportSummaries"), ("ListBackups", "BackupSummaries")]:
        assert wire.call(operation, {}).json() == {list_name: []}
    for operation, request, error in [("GetResourcePolicy", {"ResourceArn": arn}, "PolicyNotFoundException"),
                                      ("DescribeGlobalTable", {"GlobalTableName": table}, "GlobalTableNotFoundException"),
                                      ("DescribeGlobalTableSettings", {"GlobalTableName": table}, "GlobalTableNotFoundException"),
                                      ("DescribeImport", {"ImportArn": arn}, "ImportNotFoundException"),
                                      ("DescribeExport", {"ExportArn": arn}, "ExportNotFoundException"),
                                      ("DescribeBackup", {"BackupArn": arn}, "BackupNotFoundException")]:
        answer = wire.call(operation, request)
        assert (answer.status, answer.error) == (400, error)


@pytest.mark.parametrize("operation", ["DescribeContinuousBackups", "DescribeContributorInsights", "DescribeKinesisStreamingDestination"])
def test_of_a_table_that_is_not_there_nothing_is_told(wire, operation):
    assert wire.call(operation, {"TableName": "no-such-table"}).error == "ResourceNotFoundException"


def test_turning_on_what_there_is_not_is_an_unknown_operation(wire, table):
    answer = wire.call("UpdateContinuousBackups", {"TableName": table, "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}})
    assert answer.error == "UnknownOperationException"
