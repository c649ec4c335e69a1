"""Tags of a table: TagResource, UntagResource, ListTagsOfResource."""

import pytest

from conftest import table_name, table_request, wait_for
from helpers import invalid

TAGS_MAX = 50


@pytest.fixture
def arn(ddb, tables):
    name = tables.make("pk:S", hint="tagged")
    return ddb.describe_table(TableName=name)["Table"]["TableArn"]


def tag(ddb, arn, **tags):
    ddb.tag_resource(ResourceArn=arn, Tags=[{"Key": key, "Value": value} for key, value in tags.items()])


def tags_of(ddb, arn):
    """All tags, page by page."""
    found, request = {}, {"ResourceArn": arn}
    while True:
        page = ddb.list_tags_of_resource(**request)
        found.update({tag["Key"]: tag["Value"] for tag in page["Tags"]})
        if not page.get("NextToken"):
            return found
        request["NextToken"] = page["NextToken"]


def test_a_table_has_no_tags_at_first(ddb, arn):
    assert tags_of(ddb, arn) == {}


def test_tags_are_added_replaced_and_removed(ddb, arn):
    tag(ddb, arn, stage="dev", owner="ops")
    tag(ddb, arn, stage="prod", empty="")
    assert tags_of(ddb, arn) == {"stage": "prod", "owner": "ops", "empty": ""}
    ddb.untag_resource(ResourceArn=arn, TagKeys=["owner", "never"])
    assert tags_of(ddb, arn) == {"stage": "prod", "empty": ""}


def test_tags_may_be_given_when_the_table_is_made(ddb, tables):
    request = table_request(table_name(), "pk:S", Tags=[{"Key": "a", "Value": "1"}])
    made = ddb.create_table(**request)["TableDescription"]
    tables.names.append(request["TableName"])
    wait_for(ddb, "table_exists", request["TableName"])
    assert tags_of(ddb, made["TableArn"]) == {"a": "1"}


def test_50_tags_are_accepted(ddb, arn):
    tag(ddb, arn, **{f"k{i}": "v" for i in range(TAGS_MAX)})
    assert len(tags_of(ddb, arn)) == TAGS_MAX


@pytest.mark.gatehouse_only
def test_the_51st_tag_is_refused(ddb, arn):
    tag(ddb, arn, **{f"k{i}": "v" for i in range(TAGS_MAX)})
    with pytest.raises(ddb.exceptions.ClientError):
        tag(ddb, arn, onemore="v")
    assert len(tags_of(ddb, arn)) == TAGS_MAX


def test_a_table_that_is_not_there_has_no_tags(ddb, arn):
    gone = arn.rsplit("/", 1)[0] + "/e2e.not-there"
    for call in (
        lambda: ddb.list_tags_of_resource(ResourceArn=gone),
        lambda: tag(ddb, gone, a="1"),
        lambda: ddb.untag_resource(ResourceArn=gone, TagKeys=["a"]),
    ):
        try:
            call()
        except ddb.exceptions.ClientError as error:
            # DynamoDB answers AccessDenied to some callers and ResourceNotFound to others.
            assert error.response["Error"]["Code"] in ("ResourceNotFoundException", "AccessDeniedException")
        else:
            raise AssertionError("was not refused")


def test_what_is_no_tag_is_refused(ddb, arn):
    with invalid("Atleast one Tag needs to be provided as Input."):
        ddb.tag_resource(ResourceArn=arn, Tags=[])
    with invalid("Atleast one Tag Key needs to be provided as Input."):
        ddb.untag_resource(ResourceArn=arn, TagKeys=[])
    with invalid():
        tag(ddb, arn, **{"x" * 129: "v"})
    with invalid():
        tag(ddb, arn, x="v" * 257)
    assert tags_of(ddb, arn) == {}


def test_tagging_answers_with_an_empty_body(wire, arn):
    tagged = wire.call("TagResource", {"ResourceArn": arn, "Tags": [{"Key": "a", "Value": "1"}]})
    untagged = wire.call("UntagResource", {"ResourceArn": arn, "TagKeys": ["a"]})
    for answer in (tagged, untagged):
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["x-amz-crc32"] == "0"
