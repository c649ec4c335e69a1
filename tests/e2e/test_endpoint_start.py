"""What `gatehouse serve --engine dynamodb` refuses at its start: each with a text that says what to do, and an exit status. The endpoint is our
own server with access keys, which checks signatures, regions and rights as DynamoDB does, and dynoxide, which is independent."""

import contextlib
import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest

from conftest import line_with_endpoint, program, stop
from test_cli_tables import dynalite
from test_engine_dynamodb import PATIENCE_S, attempt, command, dynoxide, environment, free_port, gatehouse  # noqa: F401

SETTINGS = 2  # exit status: what was given is wrong
WORLD = 1  # … or what is there is


def refusal(url, *options, without=(), **more):
    """Exit status and what it said."""
    variables = {name: value for name, value in environment(url, **more).items() if name not in without}
    with tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
        ended = subprocess.run(command(data, *options), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, timeout=PATIENCE_S)
    return ended.returncode, ended.stderr.splitlines()[-1]


class Keyed:
    """Our own server with access keys, in eu-west-1."""

    region = "eu-west-1"

    def __init__(self, data, url):
        self.data, self.url = data, url
        self.administrator = self.key("show", "administrator")

    def key(self, *words):
        said = subprocess.run([program(), "key", *words, "--data", self.data], capture_output=True, text=True, check=True).stdout
        return dict(line.removeprefix("export ").split("=", 1) for line in said.splitlines() if line.startswith("export "))

    def create_key(self, name, *statements):
        path = os.path.join(self.data, name + ".json")
        with open(path, "w") as file:
            json.dump({"Version": "2012-10-17", "Statement": list(statements)}, file)
        return self.key("create", name, "--policy", path)

    def client(self):
        return boto3.client("dynamodb", endpoint_url=self.url, region_name=self.region,
                            aws_access_key_id=self.administrator["AWS_ACCESS_KEY_ID"],
                            aws_secret_access_key=self.administrator["AWS_SECRET_ACCESS_KEY"])


@contextlib.contextmanager
def keyed_server():
    with tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
        process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--region", Keyed.region],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            yield Keyed(data, line_with_endpoint(process))
        finally:
            stop(process)


@pytest.fixture(scope="module")
def keyed():
    with keyed_server() as server:
        yield server


# ---- an endpoint or tables that cannot be right ----


def test_an_endpoint_without_transactions():
    with dynalite() as url:
        status, said = refusal(url)
    assert status == SETTINGS
    assert "this endpoint has no transactions (TransactGetItems, TransactWriteItems)" in said and "dynalite has none" in said


@contextlib.contextmanager
def replicated(url, *regions):
    """A proxy that says of each table that it has replicas in these regions."""

    class Pass(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            request = urllib.request.Request(url, self.rfile.read(int(self.headers["Content-Length"])), dict(self.headers))
            try:
                answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
            except urllib.error.HTTPError as error:
                answer = error
            text = answer.read()
            if answer.status == 200 and self.headers["X-Amz-Target"].endswith(".DescribeTable"):
                described = json.loads(text)
                described["Table"]["Replicas"] = [{"RegionName": region, "ReplicaStatus": "ACTIVE"} for region in regions]
                text = json.dumps(described).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/x-amz-json-1.0")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pass) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_global_tables_unless_one_region_writes_them(dynoxide):
    prefix = ["--table-prefix", "global-"]
    with gatehouse(dynoxide, *prefix) as base:  # makes some
        attempt(base, "ann")
    with replicated(dynoxide, "eu-west-1", "us-east-1") as url:
        status, said = refusal(url, *prefix)
        assert status == WORLD
        assert "is a global table, with replicas in: eu-west-1, us-east-1" in said and "set --sole-writer-region to it" in said
        status, said = refusal(url, *prefix, "--sole-writer-region", "us-east-1")
        assert status == SETTINGS
        assert "sole-writer-region: is us-east-1, but this process would write in eu-west-1" in said
        with gatehouse(url, *prefix, "--sole-writer-region", "eu-west-1") as base:
            assert attempt(base, "ann")["counts"]["PASSWORD_ENTRY"]["count"] == 2
    with replicated(dynoxide) as url:  # an empty list is no replica
        with gatehouse(url, *prefix) as base:
            assert attempt(base, "ann")["counted"]


# ---- who we are, and where it is ----


def test_no_credentials(dynoxide):
    status, said = refusal(dynoxide, without=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))
    assert status == SETTINGS
    assert "no AWS credentials are set up: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in said


def test_credentials_whose_source_does_not_answer(dynoxide):
    nobody = f"http://127.0.0.1:{free_port()}/keys"
    status, said = refusal(dynoxide, without=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), AWS_CONTAINER_CREDENTIALS_FULL_URI=nobody)
    assert status == WORLD
    assert "no AWS credentials (from: container)" in said
    assert "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE" in said


def test_no_region(dynoxide):
    status, said = refusal(dynoxide, without=("AWS_REGION", "AWS_DEFAULT_REGION"))
    assert status == SETTINGS
    assert "no region is set: set --region or AWS_REGION" in said


def test_a_region_that_is_not_the_endpoints(keyed):
    status, said = refusal(keyed.url, **{**keyed.administrator, "AWS_REGION": "us-west-2"})
    assert status == WORLD
    assert "InvalidSignatureException" in said
    assert "scoped" in said and "eu-west-1" in said
    assert "the secret or the region is wrong. Check AWS_SECRET_ACCESS_KEY or the profile, and --region or AWS_REGION" in said


def test_a_secret_that_is_wrong(keyed):
    status, said = refusal(keyed.url, **{**keyed.administrator, "AWS_SECRET_ACCESS_KEY": "not-this-one"})
    assert status == WORLD
    assert "InvalidSignatureException" in said and "Check AWS_SECRET_ACCESS_KEY" in said
    assert "not-this-one" not in said


def test_a_key_that_the_endpoint_does_not_know(keyed):
    status, said = refusal(keyed.url)
    assert status == WORLD
    assert "UnrecognizedClientException" in said
    assert "it does not know this access key. Check AWS_ACCESS_KEY_ID or the profile" in said


def test_nobody_answers():
    url = f"http://127.0.0.1:{free_port()}"
    status, said = refusal(url)
    assert status == WORLD
    assert url in said
    assert "no answer from the DynamoDB endpoint" in said
    assert "is it running, and may this machine reach it? AWS_ENDPOINT_URL_DYNAMODB says where the endpoint is" in said


@pytest.mark.parametrize("status, body", [(404, b"<html>not here</html>"), (200, b"<html>hello</html>"), (200, b'{"hello": 1}'), (200, b"")])
def test_what_answers_is_not_dynamodb(status, body):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code, said = refusal(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert code == WORLD
    assert "what answers there is not DynamoDB. AWS_ENDPOINT_URL_DYNAMODB says where the endpoint is" in said


def test_no_permission(keyed):
    """Rights for one table only: the others are looked at too."""
    some = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": f"arn:aws:dynamodb:{Keyed.region}:000000000000:table/auth-state"}
    status, said = refusal(keyed.url, **keyed.create_key("some", some))
    assert status == WORLD
    assert "AccessDeniedException" in said and "dynamodb:DescribeTable" in said and "table/rate-limits" in said
    assert "the credentials lack a right. `gatehouse tables policy` prints those that are needed" in said


# ---- the tables ----


def make(ddb, name, *keys, ttl=None):
    ddb.create_table(TableName=name, BillingMode="PAY_PER_REQUEST",
                     AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys],
                     KeySchema=[{"AttributeName": key, "KeyType": role} for (key, _), role in zip(keys, ("HASH", "RANGE"))])
    if ttl:
        ddb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": ttl})


@pytest.fixture(scope="module")
def far(dynoxide):
    return boto3.client("dynamodb", endpoint_url=dynoxide, region_name="eu-west-1")


def test_missing_tables_if_they_are_not_to_be_created(dynoxide, far):
    make(far, "absent-users", ("PK", "S"), ("SK", "S"), ttl="ttl")
    status, said = refusal(dynoxide, "--table-prefix", "absent-", "--create-tables", "never")
    assert status == WORLD
    assert 'missing tables: "auth-state", "rate-limits", ' in said
    assert '"users"' not in said
    assert "Create them with `gatehouse tables create`, or check region, account and --table-prefix" in said


@pytest.mark.parametrize("keys", [[("PK", "S")], [("PK", "S"), ("SK", "N")], [("id", "S"), ("SK", "S")]])
def test_a_table_with_other_keys(dynoxide, far, keys):
    prefix = f"keys{len(keys)}{keys[0][0]}-"
    make(far, prefix + "gatehouse-jobs", *keys)
    status, said = refusal(dynoxide, "--table-prefix", prefix)
    assert status == WORLD
    assert 'the table "gatehouse-jobs" cannot be used as gatehouse-jobs: its keys must be PK and SK, of type S' in said
    assert "use another name (--table-…) or another --table-prefix" in said
    assert f'where table names begin with "{prefix}"' in said


def time_to_live(ddb, table):
    said = ddb.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    return said["TimeToLiveStatus"], said.get("AttributeName")


def test_an_empty_table_that_a_killed_server_left_without_time_to_live_is_finished_by_the_next(dynoxide, far):
    make(far, "half-rate-limits", ("PK", "S"))
    with gatehouse(dynoxide, "--table-prefix", "half-"):
        assert time_to_live(far, "half-rate-limits") == ("ENABLED", "TTL")


@pytest.mark.parametrize("words", [(), ("--create-tables", "never")])
def test_a_table_without_time_to_live(dynoxide, far, words):
    """One that holds rows may be somebody else's; with `never` it is nobody's to change."""
    prefix = f"stays{len(words)}-"
    make(far, prefix + "rate-limits", ("PK", "S"))
    if not words:
        far.put_item(TableName=prefix + "rate-limits", Item={"PK": {"S": "theirs"}, "TTL": {"N": "1"}})
    status, said = refusal(dynoxide, "--table-prefix", prefix, *words)
    assert status == WORLD
    assert time_to_live(far, prefix + "rate-limits") == ("DISABLED", None)
    assert 'the table "rate-limits" has no time to live' in said
    if words:
        assert "Turn it on, for the attribute TTL, with `gatehouse tables create`" in said
        return
    assert "and holds rows" in said and "run `gatehouse tables create`, which turns it on for the attribute TTL, and start again" in said
    done = subprocess.run([program(), "tables", "create", "--table-prefix", prefix], env=environment(dynoxide), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with gatehouse(dynoxide, "--table-prefix", prefix):
        assert time_to_live(far, prefix + "rate-limits") == ("ENABLED", "TTL")


def test_a_table_whose_time_to_live_is_another_attribute(dynoxide, far):
    make(far, "other-auth-state", ("PK", "S"), ("SK", "S"), ttl="expires")
    status, said = refusal(dynoxide, "--table-prefix", "other-")
    assert status == WORLD
    assert "has its time to live in the attribute expires, but rows have it in ttl" in said


@pytest.mark.parametrize("options, said", [
    (["--engine", "elsewhere"], "engine: must be embedded or dynamodb"),
    (["--table-prefix", "a/b"], "table-prefix: at most 64 letters, digits"),
    (["--create-tables", "sometimes"], "create-tables: must be on-demand, now or never"),
])
def test_settings_that_make_no_sense(dynoxide, options, said):
    status, text = refusal(dynoxide, *options)
    assert status == SETTINGS and said in text


def test_a_start_asks_twice_about_each_table_that_is_there_and_once_about_others():
    """Two tables are there: 2 x 2 + 11 requests, and one that shows whether there are transactions. Then the server works with what it learnt."""
    with keyed_server() as endpoint:
        ddb = endpoint.client()
        make(ddb, "auth-state", ("PK", "S"), ("SK", "S"), ttl="ttl")
        make(ddb, "users", ("PK", "S"), ("SK", "S"), ttl="ttl")
        seen = []
        with counting_proxy(endpoint.url, seen) as url, tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
            process = subprocess.Popen(command(data), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                       env={**environment(url), **endpoint.administrator})
            try:
                attempt(line_with_endpoint(process), "ann")
            finally:
                stop(process)
    assert sorted(seen[:16]) == ["DescribeTable"] * 13 + ["DescribeTimeToLive"] * 2 + ["TransactGetItems"]


@contextlib.contextmanager
def counting_proxy(url, seen):
    """Notes the operations that pass, and changes nothing: signatures hold."""
    class Pass(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one segment per answer

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            seen.append(self.headers["X-Amz-Target"].split(".")[1])
            request = urllib.request.Request(url + self.path, body, dict(self.headers))
            try:
                answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
            except urllib.error.HTTPError as error:
                answer = error
            text = answer.read()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pass) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


# ---- a role ----


def test_a_role_of_the_profile_is_assumed_with_a_signature_that_aws_own_sdk_computes_too(dynoxide, tmp_path):
    seen = []

    class Sts(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            sent = self.headers["Authorization"]
            signed = {name: self.headers[name] for name in sent.split("SignedHeaders=")[1].split(",")[0].split(";")}
            request = botocore.awsrequest.AWSRequest("POST", f"http://{self.headers['Host']}/", signed, body)
            request.context["timestamp"] = self.headers["X-Amz-Date"]
            auth = botocore.auth.SigV4Auth(botocore.credentials.Credentials("BASE", "base-secret"), "sts", "eu-west-1")
            expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
            seen.append((urllib.parse.parse_qs(body.decode()), sent.endswith("Signature=" + expected)))
            text = (b"<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
                    b"<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>")
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    (tmp_path / "config").write_text("[profile work]\nrole_arn = arn:aws:iam::123456789012:role/gatehouse\nsource_profile = base\nregion = eu-west-1\n"
                                     f"services = here\n[services here]\ndynamodb =\n  endpoint_url = {dynoxide}\n"
                                     "[profile base]\naws_access_key_id = BASE\naws_secret_access_key = base-secret\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        variables.update(AWS_PROFILE="work", AWS_CONFIG_FILE=str(tmp_path / "config"), AWS_SHARED_CREDENTIALS_FILE=os.devnull,
                         AWS_ENDPOINT_URL_STS=f"http://127.0.0.1:{server.server_port}")
        said = subprocess.run([program(), "tables", "check", "--table-prefix", "role-"], env=variables, capture_output=True, text=True,
                              timeout=PATIENCE_S)
        server.shutdown()
    assert said.returncode == 1 and f"Tables at {dynoxide}, region eu-west-1:" in said.stdout, said.stderr
    (form, good), = seen
    assert good and form["RoleArn"] == ["arn:aws:iam::123456789012:role/gatehouse"] and form["Action"] == ["AssumeRole"]


# ---- one identifiers.key for all processes ----


def start(url, data, prefix, log):
    return subprocess.Popen(command(data, "--table-prefix", prefix), stdout=subprocess.PIPE, stderr=log, env=environment(url))


def started(process, log):
    """True, or what it said when it ended."""
    line = process.stdout.readline()
    if line:
        return True
    assert process.wait(PATIENCE_S) == WORLD
    log.seek(0)
    return log.read().decode().splitlines()[-1]


def check_rows(url, prefix):
    ddb = boto3.client("dynamodb", endpoint_url=url, region_name="eu-west-1")
    rows = ddb.scan(TableName=prefix + "gatehouse-idempotency", ConsistentRead=True)["Items"]
    return [row for row in rows if "gatehouseKeyCheck" in row]


def test_a_process_with_another_key_of_identifiers_is_refused_until_it_has_that_of_the_others(dynoxide, tmp_path):  # noqa: F811
    ann = {"email": "ann@example.org"}
    with gatehouse(dynoxide, "--table-prefix", "key-", data=str(tmp_path / "a")) as base:
        attempt(base, ann)
        status, said = refusal(dynoxide, "--table-prefix", "key-")
        assert status == WORLD, said
        assert "/identifiers.key is not the key that these tables are used with" in said
        assert "Copy identifiers.key from the data directory of a process that uses them, and start again" in said
        assert 'delete the row IDENTIFIERS_KEY of the table "key-gatehouse-idempotency"' in said
        with open(tmp_path / "b.log", "w+b") as log:  # what the text says
            process = start(dynoxide, tmp_path / "b", "key-", log)
            assert started(process, log) is not True
            process.stdout.close()
        shutil.copy(tmp_path / "a/identifiers.key", tmp_path / "b/identifiers.key")
        with gatehouse(dynoxide, "--table-prefix", "key-", data=str(tmp_path / "b")) as other:
            assert attempt(other, ann)["counts"]["PASSWORD_ENTRY"]["count"] == 2
    (row,) = check_rows(dynoxide, "key-")
    assert set(row) == {"PK", "gatehouseKeyCheck"} and len(row["gatehouseKeyCheck"]["S"]) == 32


def test_without_the_row_the_next_process_begins_anew(dynoxide, tmp_path):  # noqa: F811
    with gatehouse(dynoxide, "--table-prefix", "lost-", data=str(tmp_path / "a")):
        pass
    boto3.client("dynamodb", endpoint_url=dynoxide, region_name="eu-west-1").delete_item(
        TableName="lost-gatehouse-idempotency", Key={"PK": {"S": "IDENTIFIERS_KEY"}})
    with open(tmp_path / "b.log", "w+b") as log:
        process = start(dynoxide, tmp_path / "b", "lost-", log)
        assert started(process, log) is True
        stop(process)
    assert refusal(dynoxide, "--table-prefix", "lost-")[0] == WORLD


def test_of_processes_that_start_at_once_with_keys_of_their_own_one_stays(dynoxide, tmp_path):  # noqa: F811
    subprocess.run([program(), "tables", "create", "--table-prefix", "race-"], env=environment(dynoxide), check=True, stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as logs:
        files = [logs.enter_context(open(tmp_path / f"{n}.log", "w+b")) for n in range(3)]
        processes = [start(dynoxide, tmp_path / str(n), "race-", log) for n, log in enumerate(files)]
        said = [started(process, log) for process, log in zip(processes, files)]
        for process in processes:
            stop(process)
    assert said.count(True) == 1, said
    assert all(text is True or "is not the key that these tables are used with" in text for text in said), said
    assert len(check_rows(dynoxide, "race-")) == 1


def test_an_export_leaves_the_row_where_it_belongs(dynoxide, tmp_path):  # noqa: F811
    def run(*words):
        subprocess.run([program(), *words], env=environment(dynoxide), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    with gatehouse(dynoxide, "--table-prefix", "from-", data=str(tmp_path / "a")) as base:
        attempt(base, "ann")
    with open(tmp_path / "b.log", "w+b") as log:  # a place that has had a server with another key, and no rows but its own
        process = start(dynoxide, tmp_path / "b", "to-", log)
        assert started(process, log) is True
        stop(process)
    before = check_rows(dynoxide, "to-")
    run("export", "--to", str(tmp_path / "moving"), "--table-prefix", "from-")
    run("import", "--from", str(tmp_path / "moving"), "--table-prefix", "to-")
    assert check_rows(dynoxide, "to-") == before != check_rows(dynoxide, "from-")
    with gatehouse(dynoxide, "--table-prefix", "to-", data=str(tmp_path / "b")) as base:
        assert attempt(base, "ann")["counts"]["PASSWORD_ENTRY"]["count"] == 2
