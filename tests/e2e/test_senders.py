"""Senders of events, without a server: tests/outbound/sender_tool.c sends, and others receive.

What goes to SQS and EventBridge is compared field by field with what AWS's SDK for JavaScript sends for the same entries, and an emulator
of SQS (fauxqs) takes it.
"""

import json

import pytest

from senders import Recorder, Sqs, Tool, event, sdk_send

TRACE = "0af7651916cd43dd8448eb211c80319c"
COMPARED = ("x-amz-target", "content-type", "host")  # dates, signatures and the name of the agent differ


@pytest.fixture(scope="module")
def sqs():
    with Sqs() as emulator:
        yield emulator


def scope_of(headers):
    """Region and service that the signature is for."""
    return headers["authorization"].split("Credential=")[1].split(",")[0].split("/")[2:]


def assert_same_call(ours, theirs):
    assert ours[0] == theirs[0]
    assert {name: ours[1][name] for name in COMPARED} == {name: theirs[1][name] for name in COMPARED}
    assert scope_of(ours[1]) == scope_of(theirs[1])
    assert ours[2] == theirs[2]


def taken_by_sqs(body):
    return {"Successful": [{"Id": each["Id"], "MessageId": "m", "MD5OfMessageBody": ""} for each in body["Entries"]], "Failed": []}


@pytest.mark.parametrize("name", ["events", "events.fifo"])
def test_a_batch_for_sqs_is_what_the_sdk_sends(name):
    events = [event(f"user-{i}", data={"name": "Zoë 🙂 \u007f\u0001"}, trace=TRACE if i == 3 else None) for i in range(10)]
    with Recorder(taken_by_sqs) as receiver:
        url = f"{receiver.endpoint}/123456789012/{name}"
        with Tool(type="sqs", queueUrl=url, region="eu-west-1") as tool:
            assert tool.ends(*events) == ["sent"] * 10
        entries = [{"Id": str(i), "MessageBody": each["json"], "MessageAttributes": {"eventType": {"DataType": "String", "StringValue": each["type"]}}}
                   for i, each in enumerate(events)]
        entries[3]["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": "String", "StringValue": f"Root=1-{TRACE[:8]}-{TRACE[8:]}"}}
        if name.endswith(".fifo"):
            for entry, each in zip(entries, events):
                entry.update({"MessageGroupId": each["subject"], "MessageDeduplicationId": each["id"]})
        sdk_send("sqs", receiver.endpoint, "eu-west-1", {"QueueUrl": url, "Entries": entries})
        ours, theirs = receiver.requests
        assert_same_call(ours, theirs)


def test_a_batch_for_eventbridge_is_what_the_sdk_sends():
    events = [event(f"user-{i}", data={"name": "Zoë 🙂 \u007f\u0001"}, trace=TRACE if i == 3 else None) for i in range(10)]
    with Recorder(lambda body: {"FailedEntryCount": 0, "Entries": [{"EventId": "e"} for _ in body["Entries"]]}) as receiver:
        with Tool(type="eventbridge", endpoint=receiver.endpoint, region="eu-west-1", bus="identity") as tool:
            assert tool.ends(*events) == ["sent"] * 10
        entries = [{"Time": each["time"], "Source": "user-service", "DetailType": each["type"], "Detail": each["json"], "EventBusName": "identity"}
                   for each in events]
        entries[3]["TraceHeader"] = f"Root=1-{TRACE[:8]}-{TRACE[8:]}"
        sdk_send("eventbridge", receiver.endpoint, "eu-west-1", {"Entries": entries})
        ours, theirs = receiver.requests
        assert_same_call(ours, theirs)


def test_a_fifo_queue_keeps_the_order_of_a_subject_and_takes_an_event_once(sqs):
    url = sqs.queue("ordered.fifo")
    rounds = [[event(f"user-{who}", seq=seq) for who in range(3)] for seq in range(5)]
    with sqs.tool(url) as tool:
        for each in rounds:
            assert tool.ends(*each) == ["sent"] * 3
            assert tool.ends(*each) == ["sent"] * 3  # as after an answer that was lost
    seen = {}
    for message in sqs.take(url, 15):
        body = json.loads(message["Body"])
        assert message["Attributes"]["MessageGroupId"] == body["subject"]
        assert message["Attributes"]["MessageDeduplicationId"] == body["id"]
        seen.setdefault(body["subject"], []).append(body["seq"])
    assert seen == {f"user-{who}": list(range(5)) for who in range(3)}


def test_a_standard_queue_takes_events_with_their_type(sqs):
    url = sqs.queue("standard")
    events = [event(kind=kind) for kind in ("user.created", "lock.set")]
    with sqs.tool(url) as tool:
        assert tool.ends(*events) == ["sent", "sent"]
    taken = sqs.take(url, 2)
    assert sorted(each["Body"] for each in taken) == sorted(each["json"] for each in events)
    for each in taken:
        assert each["MessageAttributes"]["eventType"]["StringValue"] == json.loads(each["Body"])["type"]


def test_an_event_that_the_queue_does_not_take_is_refused_alone(sqs):
    url = sqs.queue("small", MaximumMessageSize="1024")
    good, large = event("user-1"), event("user-2", data={"text": "x" * 2000})
    with sqs.tool(url) as tool:
        first, second = tool.send(good, large)
        assert first["end"] == "sent"
        assert (second["end"], second["status"], second["error"]) == ("refused", 200, "InvalidParameterValue")
    assert sqs.take(url, 1)[0]["Body"] == good["json"]


def test_characters_that_sqs_does_not_take_arrive_escaped(sqs):
    url = sqs.queue("escaped")
    odd = event(data={"text": "\ufffe\uffff\u007f\u0001\ue000"})
    with sqs.tool(url) as tool:
        assert tool.ends(odd) == ["sent"]
    assert json.loads(sqs.take(url, 1)[0]["Body"]) == json.loads(odd["json"])


def test_a_queue_that_is_missing_or_down_is_for_later_and_works_again():
    with Sqs() as emulator:
        missing = emulator.queue("here").replace("/here", "/missing")
        with emulator.tool(missing) as tool:
            one = event()
            (result,) = tool.send(one)
            assert (result["end"], result["status"], result["error"]) == ("later", 400, "400 QueueDoesNotExist")
            emulator.stop()
            (result,) = tool.send(one)
            assert (result["end"], result["status"]) == ("later", 0) and result["error"]
            emulator.start()
            assert emulator.queue("missing") == missing
            assert tool.ends(one) == ["sent"]
            assert emulator.take(missing, 1)[0]["Body"] == one["json"]
