"""/metrics and the log, as an operator sees them: counters move by exactly what was asked, Prometheus's own tool accepts
the text, and nothing that a caller sends gets into either.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from conftest import ROOT, line_with_endpoint, program, stop, table_request
from helpers import n, s
from v1 import V1
from wire import Wire, raw_exchange, status_of

pytestmark = pytest.mark.gatehouse_only

RULES = ROOT / "packaging" / "prometheus"
PROMTOOL = "/usr/bin/promtool"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SECRET = "mArKeR"  # in everything a caller sends that must stay between him and the table
TABLE = "metrics.table"
FIELDS = {"time", "level", "msg", "request_id", "operation", "outcome", "status", "micros"}


class Watched:
    """A server whose standard error is kept."""

    def __init__(self, *options):
        self.data = tempfile.mkdtemp(prefix="gatehouse-metrics-")
        self.errors = tempfile.TemporaryFile()
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors)
        self.endpoint = line_with_endpoint(self.process)

    def close(self):
        stop(self.process)
        self.errors.close()
        shutil.rmtree(self.data, ignore_errors=True)
        assert self.process.returncode == 0

    def administrator(self):
        command = [program(), "key", "show", "administrator", "--data", self.data]
        shown = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return [line.split("=", 1)[1] for line in shown.splitlines()]

    def client(self, key=("any", "any")):
        config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, parameter_validation=False)
        return boto3.client("dynamodb", endpoint_url=self.endpoint, region_name="local", config=config,
                            aws_access_key_id=key[0], aws_secret_access_key=key[1])

    def log(self):
        """All that was written so far."""
        size = os.fstat(self.errors.fileno()).st_size
        return os.pread(self.errors.fileno(), size, 0).decode()

    def requests(self):
        lines = [json.loads(line) for line in self.log().splitlines()]
        return [line for line in lines if line["msg"] == "request"]

    def scrape(self):
        wire = Wire(self.endpoint)
        reply = wire.send("GET", "/metrics")
        wire.close()
        assert reply.status == 200
        assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        return reply.body.decode()

    def samples(self):
        lines = [line for line in self.scrape().splitlines() if not line.startswith("#")]
        read = dict(line.rsplit(" ", 1) for line in lines)
        assert len(read) == len(lines), "a series is there twice"
        return {series: float(value) for series, value in read.items()}


@pytest.fixture
def server():
    watched = Watched("--no-auth", "--log-requests")
    yield watched
    watched.close()


@pytest.fixture
def ddb(server):
    client = server.client()
    client.create_table(**table_request(TABLE, "pk:S"))
    return client


def expect(error, call, **request):
    with pytest.raises(ClientError) as caught:
        call(**request)
    assert caught.value.response["Error"]["Code"] == error


def moved(before, after, prefix):
    return {series: after[series] - before[series] for series in after
            if series.startswith(prefix) and after[series] != before[series]}


def requests_total(operation, outcome):
    return f'gatehouse_requests_total{{operation="{operation}",outcome="{outcome}"}}'


# ---- metrics ----


def some_of_everything(server, ddb):
    """Requests of several operations and outcomes, and how often each was asked for."""
    asked = Counter()
    for i in range(3):
        ddb.put_item(TableName=TABLE, Item={"pk": s(f"{i}")})
        asked["PutItem", "ok"] += 1
    for _ in range(2):
        expect("ConditionalCheckFailedException", ddb.put_item, TableName=TABLE, Item={"pk": s("0")},
               ConditionExpression="attribute_not_exists(pk)")
        asked["PutItem", "ConditionalCheckFailedException"] += 1
    for _ in range(4):
        ddb.get_item(TableName=TABLE, Key={"pk": s("1")})
        asked["GetItem", "ok"] += 1
    expect("ValidationException", ddb.get_item, TableName=TABLE, Key={"pk": n(1)})
    asked["GetItem", "ValidationException"] += 1
    expect("ResourceNotFoundException", ddb.query, TableName="metrics.none", KeyConditionExpression="pk = :p",
           ExpressionAttributeValues={":p": s("1")})
    asked["Query", "ResourceNotFoundException"] += 1
    check = {"ConditionCheck": {"TableName": TABLE, "Key": {"pk": s("9")}, "ConditionExpression": "attribute_exists(pk)"}}
    expect("TransactionCanceledException", ddb.transact_write_items, TransactItems=[check])
    asked["TransactWriteItems", "TransactionCanceledException"] += 1
    wire = Wire(server.endpoint)
    assert wire.call("Nonsense", {}).status == 400
    asked["unknown", "UnknownOperationException"] += 1
    assert wire.call("Scan", b"{").error == "SerializationException"
    asked["Scan", "SerializationException"] += 1
    wire.close()
    return asked


def test_counters_move_by_exactly_what_was_asked(server, ddb):
    before = server.samples()
    asked = some_of_everything(server, ddb)
    after = server.samples()
    assert moved(before, after, "gatehouse_requests_total") == {requests_total(*what): count
                                                                for what, count in asked.items()}
    times = Counter()
    for (operation, _), count in asked.items():
        times[f'gatehouse_request_seconds_count{{operation="{operation}"}}'] += count
    assert moved(before, after, "gatehouse_request_seconds_count") == times
    assert set(moved(before, after, "gatehouse_request_seconds_sum")) == {t.replace("_count", "_sum") for t in times}
    assert after["gatehouse_flush_seconds_count"] - before["gatehouse_flush_seconds_count"] == 3
    writes = sum(count for (operation, _), count in asked.items() if operation in ("PutItem", "TransactWriteItems"))
    assert after["gatehouse_batch_requests_sum"] - before["gatehouse_batch_requests_sum"] >= writes
    assert after["gatehouse_cache_hits_total"] > before["gatehouse_cache_hits_total"]
    assert after["gatehouse_cache_bytes"] > 0
    assert after["gatehouse_ready"] == 1 and after["gatehouse_disk_full"] == 0


def test_connections_and_bad_requests_are_counted(server):
    before = server.samples()
    assert status_of(raw_exchange(server.endpoint, b"this is no HTTP\r\n\r\n")) == 400
    held = Wire(server.endpoint)
    assert held.send("GET", "/livez").status == 200
    after = server.samples()
    held.close()
    assert moved(before, after, "gatehouse_http_bad_requests_total") == {"gatehouse_http_bad_requests_total": 1}
    assert after["gatehouse_connections"] == before["gatehouse_connections"] + 1
    assert after["gatehouse_connections_accepted_total"] == before["gatehouse_connections_accepted_total"] + 3


def test_promtool_accepts_the_metrics(server, ddb):
    some_of_everything(server, ddb)
    text = server.scrape()
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert all(name.startswith("gatehouse_") for name in names - {"process_start_time_seconds"})


def test_every_series_is_there_before_anything_happened(server):
    text = server.scrape()
    failures = {"GetItem": ("InternalServerError", "ServiceUnavailable"), "RecordAttempt": ("outcome-unknown", "overloaded", "disk-full", "tables-busy"),
                "VerifyToken": ("overloaded",)}
    for operation, outcomes in failures.items():  # increase() sees no rise from nothing: the first failures would be silent
        for outcome in outcomes:
            assert requests_total(operation, outcome) + " 0\n" in text, (operation, outcome)


ERRORS = re.compile(r'gatehouse_errors_total\{protocol="(\w+)",outcome="([\w-]+)",status="(\d+)"\}')


def errors_of(samples):
    return {ERRORS.fullmatch(series).groups(): value for series, value in samples.items() if series.startswith("gatehouse_errors_total")}


def problem_types():
    """Those of base/err.h, with their status."""
    source = (ROOT / "src" / "base" / "err.h").read_text().split("#define ERR_CODES")[1].split("enum err_code")[0]
    return set(re.findall(r'X\(ERR_\w+, \d+, "\w+",\s+(\d+), "[^"]+",[\s\\]+"([\w-]+)"\)', source))


def test_every_error_is_there_with_0_before_the_first_of_its_kind(server):
    errors = errors_of(server.samples())
    assert {(status, outcome) for protocol, outcome, status in errors if protocol == "v1"} == problem_types()
    assert len(problem_types()) > 35 and ("dynamodb", "ValidationException", "400") in errors
    assert set(errors.values()) == {0}


def test_an_error_under_v1_is_called_by_the_type_of_its_problem(server):
    wire = Wire(server.endpoint)
    before = server.samples()
    answers = [wire.send("GET", "/v1/users/nobody/devices/none"), wire.send("POST", "/v1/attempts", b"{}"), wire.send("POST", "/v1/attempts", b"{")]
    wire.close()
    after = server.samples()
    types = [answer.json()["type"].removeprefix("urn:gatehouse:problem:") for answer in answers]
    assert types == ["not-found", "invalid-value", "malformed-request"]
    rose = {what: value for what, value in errors_of(after).items() if value != errors_of(before)[what]}
    assert rose == {("v1", kind, str(answer.status)): 1 for kind, answer in zip(types, answers)}
    assert after[requests_total("GetDevice", "not-found")] == 1
    assert after[requests_total("RecordAttempt", "invalid-value")] == after[requests_total("RecordAttempt", "malformed-request")] == 1
    assert [line["outcome"] for line in server.requests()] == types
    for series in after:
        assert not re.search(r'operation="(GetDevice|RecordAttempt)",outcome="\w+Exception"', series), series


def attempts_total(outcome, refused, kind="PASSWORD_ENTRY"):
    return f'gatehouse_attempts_total{{journey="SIGN_IN",type="{kind}",outcome="{outcome}",refused="{str(refused).lower()}"}}'


def test_each_attempt_is_counted_once_by_its_outcome_and_whether_it_was_refused(server):
    wire = V1(server.endpoint)
    assert server.samples()[attempts_total("failure", False)] == server.samples()[attempts_total("unknown", True)] == 0
    wire.record("a", times=6)  # the sixth locks, and is told so
    wire.record("a", outcome="success")  # right, and refused
    wire.record("b", outcome="success")
    begun = wire.post("/v1/attempts/begin", {"subject": "c", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}).json()["attempt"]
    wire.post("/v1/attempts/finish", {"attempt": begun, "outcome": "failure"})
    wire.post("/v1/attempts/begin", {"subject": "a", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"})  # refused: no password is checked
    wire.record("a", kind="MFA_CODE_REQUEST", outcome="sent", notification_type="MFA_SMS")
    wire.close()
    now = server.samples()
    rose = {series: value for series, value in now.items() if series.startswith("gatehouse_attempts_total") and value > 0}
    assert rose == {attempts_total("failure", False): 6, attempts_total("failure", True): 1, attempts_total("success", True): 1,
                    attempts_total("success", False): 1, attempts_total("unknown", True): 1, attempts_total("sent", False, "MFA_CODE_REQUEST"): 1}


def test_locks_of_a_source_are_counted_apart(server):
    wire = V1(server.endpoint)
    for i in range(50):
        wire.record(f"sprayed-{i}", context={"ip": "198.51.100.7"})
    wire.close()
    now = server.samples()
    of = '{journey="SIGN_IN",type="PASSWORD_ENTRY"}'
    assert (now["gatehouse_locks_set_total" + of], now["gatehouse_source_locks_set_total" + of]) == (1, 1)


# ---- the log ----


def with_header(client, name, value):
    client.meta.events.register("before-send.dynamodb", lambda request, **_: request.headers.__setitem__(name, value))


def test_a_request_is_one_line_with_what_an_operator_needs():
    server = Watched("--log-requests")
    try:
        key = server.administrator()
        client = server.client(key)
        with_header(client, "traceparent", f"00-{TRACE}-00f067aa0ba902b7-01")
        answer = client.list_tables()
        expect("UnrecognizedClientException", server.client((f"AKID{SECRET}", key[1])).list_tables)
        known, unknown = server.requests()
        assert set(known) == FIELDS | {"trace_id", "key_id"}
        assert known["request_id"] == answer["ResponseMetadata"]["RequestId"]
        assert (known["operation"], known["outcome"], known["status"]) == ("ListTables", "ok", 200)
        assert (known["trace_id"], known["key_id"], known["level"]) == (TRACE, key[0], "info")
        assert 0 <= known["micros"] < 10_000_000
        assert set(unknown) == FIELDS  # nobody was authenticated
        assert (unknown["operation"], unknown["outcome"]) == ("ListTables", "UnrecognizedClientException")
        assert key[1] not in server.log() and SECRET not in server.log()
    finally:
        server.close()


def test_every_request_has_its_line_and_no_line_has_what_the_caller_sent(server, ddb):
    secret = {"pk": s(f"key-{SECRET}"), "email": s(f"{SECRET}@example.org"), SECRET: s(SECRET), "b": {"B": SECRET.encode()}}
    asked = 1 + sum(some_of_everything(server, ddb).values())  # and the table's creation
    for request in ({}, {"ConditionExpression": "attribute_not_exists(pk)"}, {"ConditionExpression": f"{SECRET} ="}):
        try:
            ddb.put_item(TableName=TABLE, Item=secret, **request)
        except ClientError:
            pass
    expect("ResourceNotFoundException", ddb.get_item, TableName=f"t.{SECRET}", Key={"pk": s(SECRET)})
    wire = Wire(server.endpoint)
    headers = {"User-Agent": SECRET, "X-Forwarded-For": "203.0.113.77", "Cookie": SECRET, "Host": f"{SECRET}.example",
               "traceparent": f"00-{SECRET}", "Authorization": f"Bearer {SECRET}"}
    wire.call("ListTables", {"ExclusiveStartTableName": f"t.{SECRET}"}, headers)
    wire.call(f"{SECRET}", {}, headers)
    wire.call("PutItem", f'{{"TableName": "{SECRET}", '.encode(), headers)
    wire.send("POST", f"/?{SECRET}={SECRET}", b"{}", headers)
    wire.send("GET", f"/{SECRET}")
    wire.close()
    raw_exchange(server.endpoint, f"GET /{SECRET} HTTP/9.9 {SECRET}\r\n\r\n".encode())
    asked += 3 + 1 + 4
    assert len(server.requests()) == asked
    assert all(set(line) == FIELDS for line in server.requests())
    assert len({line["request_id"] for line in server.requests()}) == asked
    for text in (server.log(), server.scrape()):
        for hidden in (SECRET, "203.0.113.77", "example.org", TABLE, "127.0.0.1"):
            assert hidden not in text, hidden


def test_successes_and_callers_mistakes_are_not_logged_unless_asked_for():
    server = Watched("--no-auth")
    try:
        client = server.client()
        client.list_tables()
        expect("ValidationException", client.create_table, TableName="x")
        assert server.requests() == []
    finally:
        server.close()


def test_a_failed_flush_is_logged_and_the_process_that_starts_again_says_so():
    server = Watched("--no-auth", "--fault", "commit:1")
    try:
        client = server.client()
        client.create_table(**table_request(TABLE, "pk:S"))
        assert server.samples()["gatehouse_restarted_after_failed_flush"] == 0
        expect("InternalServerError", client.put_item, TableName=TABLE, Item={"pk": s(SECRET)})
        (line,) = server.requests()
        assert (line["level"], line["status"], line["outcome"]) == ("error", 500, "InternalServerError")
        assert line["operation"] == "PutItem" and SECRET not in server.log()
        server.endpoint = line_with_endpoint(server.process)
        assert server.samples()["gatehouse_restarted_after_failed_flush"] == 1
    finally:
        server.close()


def test_a_full_disk_shows_and_the_refusals_are_logged():
    server = Watched("--no-auth", "--fault", "disk-full")
    try:
        expect("ServiceUnavailable", server.client().create_table, **table_request(TABLE, "pk:S"))
        samples = server.samples()
        assert (samples["gatehouse_disk_full"], samples["gatehouse_ready"]) == (1, 0)
        assert samples[requests_total("CreateTable", "ServiceUnavailable")] == 1
        (line,) = server.requests()
        assert (line["level"], line["status"], line["operation"]) == ("warn", 503, "CreateTable")
    finally:
        server.close()
