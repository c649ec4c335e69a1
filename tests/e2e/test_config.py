"""Settings from a file, the environment and the arguments, with the real program: what wins, what is refused and how it is told, and that a
server which starts again by itself keeps what it had."""
import json
import os
import re
import subprocess
import urllib.error
import urllib.request

import boto3
import pytest

from conftest import line_with_endpoint, program, stop
from v1 import V1, attempt

pytestmark = pytest.mark.gatehouse_only
RUN_S = 60
CREATE = {"TableName": "any", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}],
          "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}]}


def environment(**variables):
    """Ours, without what may be set around the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GATEHOUSE_")}
    return {**kept, **{name: str(value) for name, value in variables.items()}}


def serve(*options, cwd, **variables):
    """Runs to the end: for what does not serve."""
    return subprocess.run([program(), "serve", *map(str, options)], text=True, capture_output=True, timeout=RUN_S, cwd=cwd,
                          env=environment(**variables))


def settings(*options, cwd, **variables):
    done = serve(*options, "--check-config", cwd=cwd, **variables)
    assert done.returncode == 0 and done.stderr == "", done
    return {name: (value, origin) for name, value, origin in re.findall(r"^(?:# )?([a-z-]+): (.*?) +# ([^#\n]*)$", done.stdout, re.M)}


def refused(*options, cwd, **variables):
    """Nothing was opened: the directory is as it was."""
    before = sorted(os.listdir(cwd))
    done = serve(*options, cwd=cwd, **variables)
    assert done.returncode == 2 and done.stdout == "", done
    assert sorted(os.listdir(cwd)) == before
    return done.stderr


@pytest.fixture
def file(tmp_path):
    class File:
        path = tmp_path / "gatehouse.yaml"

        def __call__(self, text):
            self.path.write_text(text)
            return self.path
    return File()


class Server:
    def __init__(self, *options, cwd, **variables):
        self.process = subprocess.Popen([program(), "serve", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=cwd,
                                        env=environment(**variables))

    def __enter__(self):
        self.endpoint = line_with_endpoint(self.process)
        return self

    def __exit__(self, *_):
        stop(self.process)
        self.process.stdout.close()

    def create_table(self):
        """The status: 200, or 400 from a server that asks for a signature, or 500 after a failed flush."""
        request = urllib.request.Request(self.endpoint, json.dumps(CREATE).encode(),
                                         {"X-Amz-Target": "DynamoDB_20120810.CreateTable", "Content-Type": "application/x-amz-json-1.0"})
        try:
            return urllib.request.urlopen(request, timeout=RUN_S).status
        except urllib.error.HTTPError as error:
            return error.code


def test_arguments_win_over_the_environment_and_that_over_the_file(file, tmp_path):
    path = file("cache-mb: 1\nqueue-mb: 1\nloops: 1\nlog-requests: true\n")
    said = settings("--config", path, "--cache-mb", 3, cwd=tmp_path, GATEHOUSE_CACHE_MB=2, GATEHOUSE_QUEUE_MB=2)
    assert said["cache-mb"] == ("3", "--cache-mb")
    assert said["queue-mb"] == ("2", "GATEHOUSE_QUEUE_MB")
    assert said["loops"] == ("1", f"{path}:3")
    assert said["log-requests"] == ("true", f"{path}:4")
    assert said["listen"] == ('"127.0.0.1:8420"', "default")
    assert said["tls-cert"] == ("", "not set")
    assert settings(cwd=tmp_path, GATEHOUSE_CONFIG=path)["queue-mb"] == ("1", f"{path}:2")
    assert settings("--log-requests=false", cwd=tmp_path, GATEHOUSE_CONFIG=path)["log-requests"] == ("false", "--log-requests")


def test_every_option_of_the_help_is_a_setting_in_all_three_places(file, tmp_path):
    options = re.findall(r"^  --([a-z-]+) ([A-Z:]*)", serve("--help", cwd=tmp_path).stdout, re.M)
    known = settings(cwd=tmp_path)
    assert {name for name, _ in options} - {"config", "check-config", "help"} == set(known)
    samples = {"N": "7", "ADDRESS:PORT": "127.0.0.2:9", "FILE": "some file", "DIR": "some folder", "WHEN": "verified", "KIND": "dynamodb", "MODE": "never", "": "true"}
    (tmp_path / "some file").write_text("{}\n")  # fine for policies and for identity
    together = {name: samples.get(value, f"my-{name}") for name, value in options if name in known}  # each table has its own
    path = file("".join(f"{name}: {value}\n" for name, value in together.items()))
    variables = {"GATEHOUSE_" + name.upper().replace("-", "_"): value for name, value in together.items()}
    arguments = [f"--{name}={value}" for name, value in together.items()]
    values = {name: value if value in ("7", "true") else json.dumps(value) for name, value in together.items()}
    for said in (settings("--config", path, cwd=tmp_path), settings(cwd=tmp_path, **variables), settings(*arguments, cwd=tmp_path)):
        assert {name: value for name, (value, _) in said.items()} == values
        assert "default" not in {origin for _, origin in said.values()}


def test_a_wrong_identity_file_is_refused_with_its_line_before_anything_is_opened(tmp_path):
    path = tmp_path / "identity.yaml"
    path.write_text("issuers:\n  - issuer: https://a.example\n    audience: any\n")
    for option in ((), ("--check-config",)):
        assert refused("--identity", path, "--no-auth", *option, cwd=tmp_path).startswith(f"gatehouse serve: {path}: line ")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["identity.yaml"]


def test_what_is_printed_can_be_the_file(file, tmp_path):
    first = serve("--data", 'a "folder" # here', "--no-auth", "--check-config", cwd=tmp_path).stdout
    again = settings("--config", file(first), cwd=tmp_path)
    assert again["data"][0] == json.dumps('a "folder" # here') and again["no-auth"][0] == "true"


def test_a_server_is_run_by_a_file_alone(file, tmp_path):
    path = file(f"listen: 127.0.0.1:0\ndata: {tmp_path}/rows\nno-auth: true\n")
    with Server("--config", path, cwd=tmp_path) as server:
        assert server.create_table() == 200
    assert server.process.returncode == 0
    assert (tmp_path / "rows" / "FORMAT").exists()


def test_a_server_is_run_by_the_environment_alone(tmp_path):
    with Server(cwd=tmp_path, GATEHOUSE_LISTEN="127.0.0.1:0", GATEHOUSE_DATA="rows", GATEHOUSE_NO_AUTH="true") as server:
        assert server.create_table() == 200
    assert (tmp_path / "rows" / "FORMAT").exists()


def test_a_flag_of_the_file_is_taken_back_by_an_argument(file, tmp_path):
    path = file(f"listen: 127.0.0.1:0\ndata: {tmp_path}/rows\nno-auth: true\n")
    with Server("--config", path, "--no-auth=false", cwd=tmp_path) as server:
        assert server.create_table() == 400


def test_tables_have_the_names_of_the_settings(file, tmp_path):
    path = file(f"listen: 127.0.0.1:0\ndata: {tmp_path}/rows\nno-auth: true\ntable-auth-state: Team.AuthState\ntable-policies: never-seen\n")
    names = {"GATEHOUSE_TABLE_RATE_LIMITS": "team_limits", "GATEHOUSE_TABLE_POLICIES": "team-policies"}
    with Server("--config", path, "--table-idempotency", "team-answers", cwd=tmp_path, **names) as server:
        wire = V1(server.endpoint)
        assert wire.attempts(attempt("ann"), idempotency_key="k-1").json()["counted"]
        assert wire.post("/v1/allow", {"policy": "sms-number", "key": "n"}).json()["allowed"]
        assert wire.send("PUT", "/v1/policies/limits", b'{"few": {"limit": 1, "per": "day", "engine": "table"}}', {"If-Match": '"0"'}).status == 200
        assert wire.attempts(attempt("ann"), idempotency_key="k-1").headers["idempotency-replayed"] == "true"
        checked = wire.post("/v1/check", {"subject": "ann", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}).json()
        assert checked["actions"]["PASSWORD_ENTRY"]["count"] == 1
        wire.close()
        tables = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", aws_access_key_id="a", aws_secret_access_key="b")
        assert tables.list_tables()["TableNames"] == ["Team.AuthState", "gatehouse-events", "team-answers", "team-policies", "team_limits"]
        row = tables.get_item(TableName="Team.AuthState", Key={"PK": {"S": "ann"}, "SK": {"S": "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"}})["Item"]
        assert row["count"] == {"N": "1"}
        assert [row["Count"] for row in tables.scan(TableName="team_limits")["Items"]] == [{"N": "1"}]
        assert tables.get_item(TableName="team-policies", Key={"PK": {"S": "POLICY#limits"}})["Item"]["version"] == {"N": "1"}
        assert tables.scan(TableName="team-answers")["Count"] == 1
        assert tables.describe_time_to_live(TableName="Team.AuthState")["TimeToLiveDescription"]["AttributeName"] == "ttl"


@pytest.mark.parametrize("text, told", [
    ("# one\n\n# three\n\n\n\ncache-mb: lots\n", ':7: cache-mb: "lots" is not a whole number from 0 to 1048576'),
    ("no-auth: yes\n", ':1: no-auth: must be true or false, not "yes"'),
    ("data: rows\ntls_cert: x\n", ':2: unknown setting "tls_cert"; did you mean tls-cert?'),
    ("colour: red\n", ':1: unknown setting "colour" (see gatehouse serve --help)'),
    ("fault: commit:0\n", ':1: unknown setting "fault" (see gatehouse serve --help)'),
    ("data: [rows]\n", ":1: data: takes DIR, not an array"),
    ("table-auth-state: a/b\n", ":1: table-auth-state: \"a/b\" is not a table name, which has 3 to 255 letters, digits, '_', '-' and '.'"),
    ("table-auth-state: 123\n", ":1: table-auth-state: takes NAME, not a number (quote it if it is text)"),
    ("data: a\ndata: b\n", ": line 2, column 1: duplicate key `data` (first on line 1)"),
    ("data: *x\n", ": line 1, column 7: anchors (&), aliases (*) and tags (!) are not supported"),
    ("data: [\n", ": line 2, column 1: not valid YAML: did not find expected node content"),
])
def test_a_wrong_file_is_refused_with_its_line_before_anything_is_opened(file, tmp_path, text, told):
    path = file(text)
    assert refused("--config", path, cwd=tmp_path) == f"gatehouse serve: {path}{told}\n"


def test_a_wrong_variable_or_argument_is_refused_by_its_name(tmp_path):
    wrong = '"lots" is not a whole number from 0 to 1048576\n'
    assert refused(cwd=tmp_path, GATEHOUSE_CACHE_MB="lots") == f"gatehouse serve: GATEHOUSE_CACHE_MB: {wrong}"
    assert refused("--cache-mb", "lots", cwd=tmp_path) == f"gatehouse serve: --cache-mb: {wrong}"
    assert refused(cwd=tmp_path, GATEHOUSE_TLS_CRET="x") == \
        "gatehouse serve: GATEHOUSE_TLS_CRET: unknown setting; did you mean GATEHOUSE_TLS_CERT?\n"
    assert refused("--tls-crt", "x", cwd=tmp_path) == 'gatehouse serve: unknown argument "--tls-crt"; did you mean --tls-cert?\n'
    assert refused("--config", "nowhere.yaml", cwd=tmp_path) == "gatehouse serve: nowhere.yaml: No such file or directory\n"


@pytest.mark.parametrize("words, said", [
    (["devices"], 'gatehouse: unknown command "devices"; did you mean device?'),
    (["help", "tabels"], 'gatehouse: unknown command "tabels"; did you mean tables?'),
    (["frobnicate"], 'gatehouse: unknown command "frobnicate" (see gatehouse --help)'),
    (["key", "creat", "a"], 'gatehouse key: unknown command "creat"; did you mean create?'),
    (["device-key", "rotat"], 'gatehouse device-key: unknown command "rotat"; did you mean rotate?'),
    (["policy", "tests"], 'gatehouse policy: unknown command "tests"; did you mean test?'),
    (["policy", "test"], "gatehouse policy test: --policy FILE is missing"),
    (["tables", "chek"], 'gatehouse tables: unknown command "chek"; did you mean check?'),
    (["user", "suspnd", "a"], 'gatehouse user: unknown command "suspnd"; did you mean suspend?'),
    (["events", "x"], 'gatehouse events: unknown command "x" (see gatehouse events --help)'),
], ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_a_mistyped_command_is_told_in_one_line_with_what_was_meant(tmp_path, words, said):
    done = subprocess.run([program(), *words], text=True, capture_output=True, timeout=RUN_S, cwd=tmp_path, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said + "\n")


def test_the_version_is_told_by_a_command_and_by_an_option():
    said = [subprocess.run([program(), word], text=True, capture_output=True, timeout=60) for word in ("version", "--version")]
    assert said[0].stdout == said[1].stdout and said[0].stdout.startswith("gatehouse ") and said[1].returncode == 0


@pytest.mark.parametrize("command", ["policy", "key", "tables", "user"])
def test_a_command_without_its_word_prints_its_help_and_fails(tmp_path, command):
    done = subprocess.run([program(), command], text=True, capture_output=True, timeout=RUN_S, cwd=tmp_path, env=environment())
    assert done.returncode == 2 and done.stdout.startswith(f"gatehouse {command}: "), done


def test_settings_that_do_not_go_together_are_refused_before_anything_is_opened(file, tmp_path):
    for option in ((), ("--check-config",)):
        assert "a certificate and its key go together" in refused("--config", file("tls-cert: x\n"), *option, cwd=tmp_path)
        assert "--no-auth is refused on 192.0.2.1:1" in refused("--config", file("listen: 192.0.2.1:1\nno-auth: true\n"), *option, cwd=tmp_path)
        assert 'the tables auth-state and rate-limits are both named "rows"' in refused(
            "--config", file("table-auth-state: rows\ntable-rate-limits: rows\n"), *option, cwd=tmp_path)
        assert 'listen address "127.0.0.1"' in refused("--config", file("listen: 127.0.0.1\nno-auth: true\n"), *option, cwd=tmp_path)


@pytest.mark.parametrize("text, told", [
    ("limits:\n  few: {limit: some, per: day}\n", "line 2: limits.few.limit: must be a whole number, not a string"),
    ("attempts:\n  journeys:\n    SIGN_IN:\n      types:\n        PASSWORD_ENTRY: {max: 0}\n",
     "line 5: attempts.journeys.SIGN_IN.types.PASSWORD_ENTRY.max: must be from 1 to 1000000, not 0"),
    ("attempts: 7\n", "line 1: attempts: must be an object, not a number"),
    ("attempt: {}\n", "line 1: attempt: unknown field; did you mean `attempts`?"),
    (None, "No such file or directory"),
])
def test_wrong_policies_are_refused_with_section_and_line_before_anything_is_opened(tmp_path, text, told):
    path = tmp_path / "policies.yaml"
    if text is not None:
        path.write_text(text)
    for option in ((), ("--check-config",)):
        assert refused("--policies", path, "--no-auth", *option, cwd=tmp_path) == f"gatehouse serve: {path}: {told}\n"


def test_a_pasted_private_key_is_refused_and_never_shown(file, tmp_path):
    path = file("tls-key: |\n  -----BEGIN PRIVATE KEY-----\n  c2VjcmV0\n")
    for option in ((), ("--check-config",)):
        told = refused("--config", path, *option, cwd=tmp_path)
        assert told == f"gatehouse serve: {path}:1: tls-key: must not contain a line break or another control character\n"
    assert "c2VjcmV0" not in refused(cwd=tmp_path, GATEHOUSE_TLS_KEY="-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n")


def test_help_is_there_also_when_the_file_is_wrong(file, tmp_path):
    done = serve("--help", cwd=tmp_path, GATEHOUSE_CONFIG=file("]"))
    assert done.returncode == 0 and "GATEHOUSE_CONFIG" in done.stdout


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_server_that_starts_again_keeps_its_settings_whatever_the_file_says_by_then(file, tmp_path, by_variable):
    path = file("listen: 127.0.0.1:0\nno-auth: true\n")
    options = () if by_variable else ("--config", path)
    variables = {"GATEHOUSE_CONFIG": path} if by_variable else {}
    with Server(*options, "--fault", "commit:0", cwd=tmp_path, GATEHOUSE_DATA="rows", **variables) as server:
        path.write_text("no longer: [valid\n")
        assert server.create_table() == 500
        assert line_with_endpoint(server.process) == server.endpoint
        assert server.create_table() == 500  # not 400: it still asks for no signature
        assert line_with_endpoint(server.process) == server.endpoint
    assert sorted(os.listdir(tmp_path)) == ["gatehouse.yaml", "rows"]


def test_a_fifo_that_no_program_writes_to_is_refused_and_waited_for_by_none(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    assert refused("--config", path, cwd=tmp_path) == f"gatehouse serve: {path}: is a FIFO that no program writes to\n"
    assert refused("--policies", path, "--no-auth", cwd=tmp_path).startswith(f"gatehouse serve: {path}: is not a file")
    assert f"{path}: is not a file" in refused("--tls-cert", path, "--tls-key", path, cwd=tmp_path)
    done = subprocess.run([program(), "key", "create", "x", "--policy", path, "--data", tmp_path / "data"], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (2, f"gatehouse key: {path}: is a FIFO that no program writes to\n")


def test_what_a_shell_writes_into_a_pipe_is_read(tmp_path):
    """As in --policy <(…). The program may come first: it waits for a writer that is there."""
    policy = b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'
    there, here = os.pipe()
    process = subprocess.Popen([program(), "key", "create", "x", "--data", tmp_path, "--policy", f"/dev/fd/{there}"], pass_fds=[there],
                               stdout=subprocess.PIPE)
    os.write(here, policy)
    os.close(here)
    assert b"AWS_ACCESS_KEY_ID" in process.communicate(timeout=30)[0] and process.returncode == 0
    os.close(there)
