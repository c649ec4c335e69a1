"""A key's limits: connections it may have open, requests it may make in a second. Past one, the answer is the one that SDKs wait
and try again after; other keys do not notice."""
import http.client
import time
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

from test_access import EVERYTHING, REGION, error_of, guarded  # noqa: F401 (a fixture)

pytestmark = pytest.mark.gatehouse_only
WAIT_S = 30


class Line:
    """One connection, that stays open."""

    def __init__(self, server, key):
        self.endpoint, self.key = server.endpoint, key
        self.http = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=WAIT_S)

    def ask(self, key=None, body=b"{}"):
        """(status, error or answer, did the server end the connection)"""
        request = AWSRequest("POST", self.endpoint + "/", data=body, headers={
            "X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"})
        SigV4Auth(Credentials(*(key or self.key)), "dynamodb", REGION).add_auth(request)
        self.http.request("POST", "/", body, dict(request.headers))
        answer = self.http.getresponse()
        return answer.status, answer.read().decode(), answer.headers.get("Connection", "").lower() == "close"

    def close(self):
        self.http.close()


def metric(server, name):
    line = http.client.HTTPConnection(urlsplit(server.endpoint).netloc, timeout=WAIT_S)
    line.request("GET", "/metrics")
    text = line.getresponse().read().decode()
    line.close()
    return sum(float(row.split()[-1]) for row in text.splitlines() if row.startswith(name))


def make(server, name, *words):
    import json
    return server.key("create", name, "--policy", "-", *words, text=json.dumps(EVERYTHING))


def test_past_the_limit_of_a_second_the_answer_is_throttling_and_other_keys_go_on(guarded):
    key, other = make(guarded, "slow", "--max-requests-per-second", "1"), make(guarded, "unlimited")
    before = metric(guarded, "gatehouse_key_requests_refused_total")
    line = Line(guarded, key)
    answers = [line.ask() for _ in range(20)]  # all within a second or two, and one a second is allowed
    refused = [answer for answer in answers if answer[0] == 400]
    assert answers[0][0] == 200 and refused
    for status, text, ended in refused:
        assert "com.amazon.coral.availability#ThrottlingException" in text and "slow" in text and not ended
    assert metric(guarded, "gatehouse_key_requests_refused_total") == before + len(refused)
    assert metric(guarded, 'gatehouse_requests_total{operation="ListTables",outcome="ThrottlingException"}') >= len(refused)
    for _ in range(20):
        assert line.ask(other)[0] == 200
    line.close()


def test_a_refused_request_is_not_decoded(guarded):
    line = Line(guarded, make(guarded, "undecoded", "--max-requests-per-second", "1"))
    texts = [line.ask(body=b"no JSON at all")[1] for _ in range(20)]
    assert "SerializationException" in texts[0]
    assert any("ThrottlingException" in text for text in texts)
    line.close()


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_boto3_waits_and_gets_through(guarded, mode):
    key = make(guarded, "patient-" + mode, "--max-requests-per-second", "2")
    client = boto3.client("dynamodb", endpoint_url=guarded.endpoint, region_name=REGION, aws_access_key_id=key[0],
                          aws_secret_access_key=key[1], config=Config(retries={"total_max_attempts": 15, "mode": mode}))
    before = metric(guarded, "gatehouse_key_requests_refused_total")
    for _ in range(6):
        client.list_tables()
    assert metric(guarded, "gatehouse_key_requests_refused_total") > before


def test_a_connection_past_the_limit_is_ended_and_one_that_closes_makes_room(guarded):
    key = make(guarded, "two", "--max-connections", "2")
    before = metric(guarded, "gatehouse_key_connections_refused_total")
    lines = [Line(guarded, key) for _ in range(3)]
    for line in lines[:2]:
        assert line.ask()[0] == 200
    status, text, ended = lines[2].ask()
    assert status == 400 and "#ThrottlingException" in text and "connections" in text and ended
    assert metric(guarded, "gatehouse_key_connections_refused_total") == before + 1
    for line in lines[:2]:  # those that are there go on
        assert line.ask()[0] == 200
    lines[0].close()
    deadline = time.monotonic() + WAIT_S
    while Line(guarded, key).ask()[0] != 200:  # the server sees the end of it when it sees it
        assert time.monotonic() < deadline
    for line in lines:
        line.close()


def test_a_connection_counts_for_the_key_that_used_it_last(guarded):
    one, two = make(guarded, "first", "--max-connections", "1"), make(guarded, "second", "--max-connections", "1")
    lines = [Line(guarded, one) for _ in range(2)]
    assert lines[0].ask(one)[0] == 200
    assert lines[0].ask(two)[0] == 200  # now it is two's
    assert lines[1].ask(one)[0] == 200
    status, _, ended = lines[1].ask(two)  # two has one already
    assert status == 400 and ended
    for line in lines:
        line.close()


def test_nobody_uses_up_anothers_share_without_its_secret(guarded):
    key = make(guarded, "victim", "--max-connections", "1", "--max-requests-per-second", "1")
    forged = [Line(guarded, (key[0], "wrong")) for _ in range(5)]
    for line in forged:
        assert "InvalidSignatureException" in line.ask()[1]
    line = Line(guarded, key)
    assert line.ask()[0] == 200
    for each in [line, *forged]:
        each.close()


def test_limits_are_changed_listed_and_taken_away_and_the_next_request_knows(guarded):
    key = make(guarded, "changing")
    line = Line(guarded, key)
    for _ in range(5):
        assert line.ask()[0] == 200
    done = guarded.command("key", "limit", "changing", "--max-requests-per-second", "1")
    assert done.returncode == 0 and "requests per second 1" in done.stdout and "connections any" in done.stdout
    assert guarded.command("key", "limit", "changing", "--max-connections=12").returncode == 0
    row = next(row for row in guarded.command("key", "list").stdout.splitlines() if "changing" in row)
    assert row.split()[-2:] == ["12", "1"]
    assert any(line.ask()[0] == 400 for _ in range(20))
    assert guarded.command("key", "limit", "changing", "--max-requests-per-second", "0").returncode == 0
    for _ in range(20):
        assert line.ask()[0] == 200
    line.close()


def test_what_is_wrong_with_a_limit_is_said_and_nothing_changes(guarded):
    before = (Path(guarded.data) / "keys.json").read_bytes()
    for words, status, why in [(["limit", "administrator"], 2, "missing --max-connections"),
                               (["limit", "nobody", "--max-connections", "1"], 1, "unknown key"),
                               (["limit", "administrator", "--max-connections", "1000001"], 2, "1000000"),
                               (["limit", "administrator", "--max-connections", "-1"], 2, "whole number"),
                               (["limit"], 2, "missing the name")]:
        done = guarded.command("key", *words)
        assert done.returncode == status and why in done.stderr, done
    assert (Path(guarded.data) / "keys.json").read_bytes() == before


def test_under_v1_the_answer_is_429_with_a_time_to_wait(guarded):
    key = make(guarded, "bearer", "--max-requests-per-second", "1")
    line = http.client.HTTPConnection(urlsplit(guarded.endpoint).netloc, timeout=WAIT_S)
    statuses = []
    for _ in range(20):
        line.request("POST", "/v1/subjects/lookup", b"{}", {"Authorization": f"Bearer {key[0]}.{key[1]}"})
        answer = line.getresponse()
        body = answer.read().decode()
        statuses.append(answer.status)
        if answer.status == 429:
            assert answer.headers["Retry-After"] == "1" and "Too Many Requests" in body and "bearer" in body
    line.close()
    assert statuses[0] != 429 and 429 in statuses
