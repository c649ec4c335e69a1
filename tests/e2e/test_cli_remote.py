"""`gatehouse user` and the other commands that ask a running server: without keys, with keys, over TLS; what is shown, what is refused,
and where personal data comes from."""
import json
import os
import pty
import re
import shutil
import subprocess
import tempfile
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from certificates import Certificates
from cognito import Receiver, identity_file, until
from conftest import line_with_endpoint, program, stop
from helpers import free_port
from issuer import Issuer
from test_access import Guarded
from test_tls import Server as TlsServer
from v1 import V1

pytestmark = pytest.mark.gatehouse_only
RUN_S = 120


class Cli:
    """The program with an endpoint and, perhaps, a key."""

    def __init__(self, endpoint, key=None, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GATEHOUSE_"))}
        self.environment = {**kept, "GATEHOUSE_ENDPOINT": endpoint, **more}
        if key:
            self.environment.update(AWS_ACCESS_KEY_ID=key[0], AWS_SECRET_ACCESS_KEY=key[1])

    def run(self, *words, text=""):
        return subprocess.run([program(), *words], input=text, text=True, capture_output=True, timeout=RUN_S, env=self.environment)

    def ok(self, *words, text=""):
        done = self.run(*words, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words, text=""):
        return json.loads(self.ok(*words, "--json", text=text))

    def rows(self, *words):
        return [json.loads(line) for line in self.ok(*words, "--json").splitlines()]

    def refused(self, *words, text="", status=1):
        """What it complains of."""
        done = self.run(*words, text=text)
        assert done.returncode == status, (done.stdout, done.stderr)
        assert done.stdout == "" or status == 1
        return done.stderr


def shown(text):
    """An object as it is shown: names and values."""
    return dict(line.split(None, 1) for line in text.splitlines())


class Own:
    """A server of a test's own."""

    def __init__(self, *words, log=os.devnull):
        self.data = tempfile.mkdtemp(prefix="gatehouse-cli-")
        with open(log, "wb") as out:
            self.process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth", *words],
                                            stdout=subprocess.PIPE, stderr=out)
        self.endpoint = line_with_endpoint(self.process)

    def close(self):
        stop(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)


@pytest.fixture
def cli(endpoint):
    return Cli(endpoint)


@pytest.fixture
def user(cli):
    """The id of a user whom no other test uses."""
    name = f"u-{uuid.uuid4().hex[:12]}"
    cli.ok("user", "create", name, "firstName=Ann")
    return name


def address():
    return f"{uuid.uuid4().hex[:12]}@example.org"


# ---- users ----


def test_a_user_is_created_shown_and_changed(cli):
    name = f"u-{uuid.uuid4().hex[:12]}"
    made = shown(cli.ok("user", "create", name, "firstName=Ann Marie", "phone=+442071838750", "attributes.plan=gold"))
    assert (made["id"], made["status"], made["firstName"], made["attributes.plan"], made["version"]) == (
        name, "active", "Ann Marie", "gold", "1")
    changed = cli.json("user", "set", name, "lastName=Smith", "phone=", "attributes.plan=")
    assert changed["lastName"] == "Smith" and "phone" not in changed and "attributes" not in changed and changed["version"] == 2
    assert cli.json("user", "show", name) == changed
    lines = cli.ok("user", "show", name).splitlines()
    assert len({re.match(r"\S+ +", line).end() for line in lines}) == 1, lines  # aligned


def test_a_user_without_an_id_gets_one(cli):
    assert re.fullmatch(r"[0-9a-f-]{36}", cli.json("user", "create", "firstName=Bo")["id"])


def test_fields_come_from_standard_input_or_a_file(cli, user, tmp_path):
    made = cli.json("user", "create", "--fields", "-", text=json.dumps({"firstName": "Zoë", "attributes": {"level": 3, "beta": True}}))
    assert (made["firstName"], made["attributes"]) == ("Zoë", {"level": 3, "beta": True})
    file = tmp_path / "fields.json"
    file.write_text('{"lastName": "Long"}')
    assert cli.json("user", "set", user, "--fields", str(file))["lastName"] == "Long"
    assert "must hold a JSON object" in cli.refused("user", "set", user, "--fields", "-", text="[1]", status=2)


def test_a_change_is_for_the_version_that_was_named(cli, user):
    cli.ok("user", "set", user, "lastName=One", "--version", "1")
    assert "it has changed since it was read" in cli.refused("user", "set", user, "lastName=Two", "--version", "1")
    assert cli.json("user", "show", user)["lastName"] == "One"


def test_suspend_reactivate_and_delete(cli, user):
    for word, status in (("suspend", "suspended"), ("reactivate", "active"), ("delete", "deleted")):
        assert shown(cli.ok("user", word, user))["status"] == status
    assert "(409)" in cli.refused("user", "reactivate", user)


def test_the_list_goes_through_all_pages_and_stops_at_its_limit():
    """A server of its own: more users than one page holds."""
    server = Own()
    try:
        cli, wire = Cli(server.endpoint), V1(server.endpoint)
        assert cli.ok("user", "list").split() == ["ID", "STATUS", "EMAIL", "VERSION", "UPDATEDAT"]
        for i in range(501):
            assert wire.post("/v1/users", {"id": f"user-{i:04}"}).status == 201
        wire.close()
        ids = sorted(row["id"] for row in cli.rows("user", "list"))
        assert ids == [f"user-{i:04}" for i in range(501)]
        lines = cli.ok("user", "list").splitlines()
        assert len(lines) == 502 and len([line for line in lines if line.startswith("ID ")]) == 1
        for limit in (1, 500, 501):
            assert len(cli.rows("user", "list", "--limit", str(limit))) == limit
    finally:
        server.close()


# ---- addresses ----


def test_an_address_is_added_verified_made_primary_and_removed(cli, user):
    first, second = address(), address()
    claims = [cli.json("user", "add-email", user, "-", text=first + "\n"), cli.json("user", "add-email", user, second)]
    done = cli.run("user", "verify-email", user, claims[0]["id"], text="WRONG123\n")
    assert done.returncode == 1 and shown(done.stdout)["reason"] == "wrong_code" and "not verified" in done.stderr
    for claim in claims:
        assert shown(cli.ok("user", "verify-email", user, claim["id"], text=claim["code"] + "\n"))["verified"] == "true"
    assert shown(cli.ok("user", "show", user))["email"] == first
    cli.ok("user", "set-primary", user, claims[1]["id"])
    assert {row["email"]: row["isPrimary"] for row in cli.rows("user", "emails", user)} == {first: False, second: True}
    assert cli.ok("user", "emails", user).splitlines()[0].split() == ["ID", "EMAIL", "ISVERIFIED", "ISPRIMARY", "CREATEDAT"]
    assert "primary" in cli.refused("user", "remove-email", user, claims[1]["id"])
    cli.ok("user", "remove-email", user, claims[0]["id"])
    assert cli.json("user", "find", "-", text=f"  {second.upper()}  \n")["user"]["id"] == user
    assert "(404" in cli.refused("user", "find", first)
    assert cli.ok("user", "show", user).count(second) == 1


def test_a_code_is_never_an_argument(cli, user):
    claim = cli.json("user", "add-email", user, address())
    assert "unexpected argument" in cli.refused("user", "verify-email", user, claim["id"], claim["code"], status=2)
    assert "the first line must hold the code" in cli.refused("user", "verify-email", user, claim["id"], text="\n", status=2)


def test_a_code_that_is_not_made_because_the_user_is_suspended_is_a_failure(cli, user):
    cli.ok("user", "suspend", user)
    done = cli.run("user", "add-email", user, "-", text=address())
    assert done.returncode == 1 and "the verdict is not `allow`" in done.stderr
    assert shown(done.stdout) == {"verdict": "blocked", "reason": "user_suspended"}


def test_with_json_an_answer_is_one_line(cli, user):
    assert cli.ok("user", "show", user, "--json").count("\n") == 1


def test_control_characters_of_an_answer_do_not_reach_the_terminal(cli, user):
    cli.ok("user", "set", user, "--fields", "-", text=json.dumps({"attributes": {"note": "a\x1b[2Jb\u009bc\nd"}}))
    assert shown(cli.ok("user", "show", user))["attributes.note"] == "a\\x1b[2Jb\\x9bc\\x0ad"


# ---- keys and TLS ----


@pytest.fixture(scope="module")
def guarded():
    server = Guarded()
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def test_a_key_from_the_environment_is_used_and_its_policy_holds(guarded):
    administrator = Cli(guarded.endpoint, guarded.key("show", "administrator"))
    administrator.ok("user", "create", "keyed", "firstName=Ann")
    reader = Cli(guarded.endpoint, guarded.make("reader", {"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "gatehouse:GetUser", "Resource": "*"}]}))
    assert reader.json("user", "show", "keyed")["firstName"] == "Ann"
    assert "gatehouse:SuspendUser" in reader.refused("user", "suspend", "keyed")
    assert administrator.json("user", "show", "keyed")["status"] == "active"


def test_a_key_that_may_not_revoke_everyones_tokens_is_told_what_its_policy_must_allow(guarded):
    key = guarded.make("no-mass", {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "gatehouse:RevokeToken", "Resource": "*"}]})
    said = Cli(guarded.endpoint, key).refused("revoke-all", "--reason", "try", "--yes")
    assert "not authorized to perform: gatehouse:RevokeAllTokens on any resource" in said


def test_without_a_key_it_says_which_variables_to_set(guarded):
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in Cli(guarded.endpoint).refused("user", "show", "x")
    wrong = Cli(guarded.endpoint, ("AKIAWRONG", "nonsense")).refused("user", "show", "x")
    assert "(401" in wrong and "nonsense" not in wrong
    half = Cli(guarded.endpoint, AWS_ACCESS_KEY_ID="x").refused("user", "show", "x", status=2)
    assert "AWS_SECRET_ACCESS_KEY is not" in half


def test_a_key_is_not_sent_over_plain_http_to_another_machine():
    text = Cli("http://192.0.2.1:8420", ("id", "secret")).refused("user", "list", status=2)
    assert "not sent over plain http" in text
    assert "not sent over plain http" in Cli("http://127.evil.example:80", ("id", "secret")).refused("user", "list", status=2)


def test_tls_is_verified_against_the_given_authority():
    certificates = Certificates()
    certificates.make("first", by="ca")
    server = TlsServer(certificates)
    try:
        for more in ({"GATEHOUSE_CA_FILE": str(certificates.crt("ca"))}, {}):
            cli = Cli(server.endpoint, **more)
            if more:
                assert cli.json("user", "create", "over-tls")["id"] == "over-tls"
            else:
                assert "certificate" in cli.refused("user", "show", "over-tls")
                assert cli.ok("user", "show", "over-tls", "--ca-file", str(certificates.crt("ca")))
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)
        certificates.release()


def test_one_trace_runs_from_the_command_through_the_servers_log_to_the_call_at_the_provider(tmp_path):
    pool = Receiver()
    pool.add(1)
    server = Own("--log-requests", "--identity", identity_file(tmp_path / "identity.yaml", pool.endpoint, sign_out=True), log=tmp_path / "log")
    try:
        cli = Cli(server.endpoint)
        cli.ok("sync", "reconcile")
        cli.ok("user", "set", "user-00000", "lastName=Two")  # two calls, one trace
        cli.ok("user", "suspend", "user-00000")
        until(lambda: pool.signed_out)
        [sent] = [headers["traceparent"] for operation, _, headers in pool.calls if operation == "AdminUserGlobalSignOut"]
    finally:
        server.close()
        pool.close()
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    traces = {}
    for line in lines:
        if line["msg"] == "request":
            traces.setdefault(line["operation"], []).append(line["trace_id"])
    assert traces["UpdateUser"] == traces["GetUser"] != traces["SuspendUser"]
    assert re.fullmatch(f"00-{traces['SuspendUser'][0]}-[0-9a-f]{{16}}-01", sent)


# ---- jobs ----


def test_jobs_are_listed_and_an_unknown_one_is_named(cli):
    assert cli.ok("job", "list", "--state", "failed").split() == ["ID", "KIND", "STATE", "DRYRUN", "CREATEDAT", "UPDATEDAT"]
    for word in ("show", "wait", "cancel", "resume"):
        assert "there is no such job" in cli.refused("job", word, "0190b2f0-0000-7000-8000-000000000000")
    assert "state" in cli.refused("job", "list", "--state", "sleeping", status=2)


def test_erasing_asks_for_yes_waits_for_its_job_and_shows_the_receipt(cli, user):
    assert "add --yes" in cli.refused("user", "erase", user, status=2)
    assert cli.json("user", "show", user)["status"] == "active"
    done = cli.run("user", "erase", user, "--yes")
    last = done.stderr.splitlines()[-1]  # others tell how far it is, every ten seconds
    assert done.returncode == 0 and re.fullmatch(r"erase: done, \d+ s(, [\w-]+ \d+)*", last), done.stderr
    receipt = shown(done.stdout)
    assert (receipt["kind"], receipt["state"]) == ("erase", "done") and user not in done.stdout
    assert "(404)" in cli.refused("user", "show", user)
    assert receipt["id"] in [row["id"] for row in cli.rows("job", "list", "--kind", "erase", "--state", "done")]
    assert cli.json("job", "wait", receipt["id"]) == cli.json("job", "show", receipt["id"])
    assert "(409)" in cli.refused("job", "cancel", receipt["id"]) and "(409)" in cli.refused("job", "resume", receipt["id"])


def test_a_job_can_be_started_without_waiting_and_waited_for_later(cli, user):
    started = cli.json("user", "erase", user, "--yes", "--no-wait")
    assert cli.json("job", "wait", started["id"])["state"] == "done"


def test_at_a_terminal_progress_is_one_line_that_is_written_over(cli, user):
    master, slave = pty.openpty()
    try:
        done = subprocess.run([program(), "user", "erase", user, "--yes"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=slave,
                              timeout=RUN_S, env=cli.environment)
        said = os.read(master, 65536).decode()
    finally:
        os.close(slave)
        os.close(master)
    assert done.returncode == 0 and said.startswith("\r\x1b[Kerase: ") and said.count("\n") == 1 and said.endswith("\r\n"), said


def test_input_of_the_maximum_is_read_and_one_byte_more_is_not(cli, user):
    fields = '{"lastName": "Long"}'
    assert cli.json("user", "set", user, "--fields", "-", text=fields.ljust(65536))["lastName"] == "Long"
    assert "at most 65536 bytes" in cli.refused("user", "set", user, "--fields", "-", text=fields.ljust(65537), status=2)


# ---- identity providers ----


def test_dead_letters_are_counted_listed_shown_and_redriven_once_the_cause_is_gone():
    """A server of its own: dead letters are one list for all."""
    server = Own("--email-claims", "added")
    try:
        cli, wire = Cli(server.endpoint), V1(server.endpoint)
        assert cli.ok("sync", "status") == "dead letters: 0\n"
        cli.ok("user", "create", "holder", "--fields", "-", text='{"email": "taken@example.org"}')
        for name in ("ann", "bob"):
            reply = wire.post("/v1/sync/events", {"provider": "pool", "id": name, "email": "taken@example.org",
                                                  "emailVerified": True})
            assert reply.json()["outcome"] == "dead_lettered", reply.body
        wire.close()
        lines = cli.ok("sync", "status").splitlines()
        assert lines[0] == "dead letters: 2" and lines[2].split()[:2] == ["email-not-available", "2"]
        listed = cli.ok("sync", "dead-letters")
        assert "taken@" not in listed and [line.split()[:2] for line in listed.splitlines()[1:]] == [["pool", "ann"], ["pool", "bob"]]
        assert cli.json("sync", "show", "pool", "ann")["record"]["email"] == "taken@example.org"
        done = cli.run("sync", "redrive", "pool", "ann")
        assert done.returncode == 1 and "some records could still not be written" in done.stderr
        [email] = cli.rows("user", "emails", "holder")
        cli.ok("user", "remove-email", "holder", email["id"])
        done = cli.run("sync", "redrive", "--all")  # one gets the address, the other stays
        assert done.returncode == 1 and "could still not be written" in done.stderr and "redrive: done, " in done.stderr
        assert (shown(done.stdout)["progress.letters"], shown(done.stdout)["progress.dead_lettered"]) == ("2", "1")
        assert [line["id"] for line in cli.rows("sync", "dead-letters", "--error", "email-not-available")] == ["bob"]
        cli.ok("sync", "drop", "pool", "bob")
        assert cli.json("sync", "status")["count"] == 0
        assert cli.json("sync", "redrive", "--all")["state"] == "done"
        assert cli.ok("sync", "missing").split() == ["ID", "PROVIDER", "FOUNDAT", "SUSPENDED"]
        assert "missing" in cli.refused("sync", "reconcile", "--missing", "forget", status=2)
        assert "PROVIDER and ID" in cli.refused("sync", "redrive", "pool", status=2)
    finally:
        server.close()


def test_a_dead_letter_of_a_renamed_pool_says_what_to_do(cli):
    name = f"renamed-{uuid.uuid4()}"
    api = V1(cli.environment["GATEHOUSE_ENDPOINT"])
    assert api.post("/v1/sync/users", {"provider": "old-name", "id": name}).json()["outcome"] == "created"
    assert api.post("/v1/sync/events", {"provider": "new-name", "id": name}).json()["error"] == "user-exists"
    api.close()
    assert "give it its old name" in cli.json("sync", "show", "new-name", name)["detail"]
    cli.ok("sync", "drop", "new-name", name)


def test_reconciliation_is_tried_dry_and_then_done_and_users_missing_at_the_provider_are_listed(tmp_path):
    pool = Receiver()
    pool.add(3)
    server = Own("--identity", identity_file(tmp_path / "identity.yaml", pool.endpoint))
    try:
        cli = Cli(server.endpoint)
        dry = cli.run("sync", "reconcile", "--dry-run")
        assert dry.returncode == 0 and shown(dry.stdout)["progress.poolOrphans"] == "3", dry.stderr
        assert cli.rows("user", "list") == []
        assert shown(cli.ok("sync", "reconcile", "customers", "--rate", "1000"))["progress.created"] == "3"
        del pool.users["name-user-00001"]
        assert shown(cli.ok("sync", "reconcile", "--missing", "suspend"))["progress.missing"] == "1"
        assert [(row["id"], row["suspended"]) for row in cli.rows("sync", "missing")] == [("user-00001", True)]
        assert cli.json("user", "show", "user-00001")["status"] == "suspended"
        assert "(404)" in cli.refused("sync", "reconcile", "nobody")
    finally:
        server.close()
        pool.close()


# ---- tokens ----


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def trusting(issuer, tmp_path_factory):
    """A server that knows the issuer, and its command line."""
    server = Own("--identity", str(issuer.identity(tmp_path_factory.mktemp("identity"))))
    cli = Cli(server.endpoint)
    until(lambda: cli.run("token", "verify", text=issuer.token()).returncode == 0)
    yield cli
    server.close()


def test_a_token_is_verified_from_standard_input_or_a_file_and_never_from_an_argument(trusting, issuer, tmp_path):
    token = issuer.token("ann")
    assert shown(trusting.ok("token", "verify", text=token + "\n"))["subject"] == "ann"
    (tmp_path / "token").write_text(token)
    assert trusting.json("token", "verify", "--token-file", str(tmp_path / "token"), "--audience", "app")["valid"] is True
    done = trusting.run("token", "verify", text=issuer.token("ann", aud="other"))
    assert done.returncode == 1 and shown(done.stdout)["reason"] == "audience" and "not valid" in done.stderr
    text = trusting.refused("token", "verify", token, status=2)
    assert "unexpected argument" in text and token not in text
    assert "that is not a token" in trusting.refused("token", "verify", text="not a token", status=2)
    assert "the first line must hold the token" in trusting.refused("token", "verify", status=2)


def test_one_token_a_users_and_a_clients_are_revoked(trusting, issuer):
    one, other = issuer.token("bea", jti="j1"), issuer.token("bea", jti="j2", client_id="app-1")

    def good(token):
        return trusting.run("token", "verify", text=token).returncode == 0

    assert good(one) and good(other)
    assert shown(trusting.ok("token", "revoke", "--reason", "lost phone", text=one))["kind"] == "token"
    assert not good(one) and good(other)
    assert shown(trusting.ok("token", "revoke-client", "app-1"))["client"] == "app-1"
    assert not good(other) and good(issuer.token("cem", jti="j3"))
    assert shown(trusting.ok("user", "revoke-tokens", "cem", "--reason", "left"))["reason"] == "left"
    assert not good(issuer.token("cem", jti="j3"))
    assert {(row["kind"], row.get("user"), row.get("client")) for row in trusting.rows("token", "list")} >= {
        ("token", None, None), ("client", None, "app-1"), ("user", "cem", None)}
    assert [row["user"] for row in trusting.rows("token", "list", "--kind", "user")] == ["cem"]
    assert "revoke-tokens ID" in trusting.refused("token", "revoke", text=issuer.token("bea", jti=None), status=2)


def test_tokens_of_many_users_or_of_everyone_are_revoked_after_a_dry_run(issuer, tmp_path):
    server = Own("--identity", str(issuer.identity(tmp_path)))
    try:
        cli = Cli(server.endpoint)
        until(lambda: cli.run("token", "verify", text=issuer.token()).returncode == 0)
        for name in ("dan", "eva", "fay"):
            cli.ok("user", "create", name)

        def good():
            return {name for name in ("dan", "eva", "fay") if cli.run("token", "verify", text=issuer.token(name)).returncode == 0}

        assert "missing --reason" in cli.refused("revoke-all", "--yes", status=2)
        assert "add --yes" in cli.refused("revoke-all", "--reason", "leak", status=2)
        assert "unexpected argument" in cli.refused("revoke-all", "everyone", "--reason", "leak", "--yes", status=2)
        some = ("revoke-all", "--reason", "leak", "--users", "-")
        assert shown(cli.ok(*some, "--dry-run", text="dan\n\n eva \n"))["progress.matched"] == "2"
        assert good() == {"dan", "eva", "fay"}
        done = cli.run(*some, "--yes", text="dan\neva\n")
        assert done.returncode == 0 and shown(done.stdout)["progress.revoked"] == "2" and "revoked 2" in done.stderr
        assert good() == {"fay"}
        assert shown(cli.ok("revoke-all", "--reason", "leak", "--dry-run"))["dry_run"] == "true"
        assert good() == {"fay"}
        assert shown(cli.ok("revoke-all", "--reason", "leak", "--yes"))["kind"] == "all"
        assert good() == set()
    finally:
        server.close()


# ---- mistakes ----


@pytest.mark.parametrize("words, said", [
    ((), "gatehouse user show ID"), (("fly",), 'unknown command "fly"'), (("show",), "missing argument; usage: gatehouse user show ID"),
    (("show", "a", "b"), "unexpected argument"), (("set", "a", "firstName"), "FIELD=VALUE"), (("show", "a", "--jsn"), "did you mean --json?"),
    (("create", "a", "email=x"), "email: not an email address"), (("create", "a", "nonsense=1"), "nonsense"),
    (("create", "a", "firstName=" + "x" * 1000), "firstName: "), (("create", "a", "firstName=" + "x" * 100000), "at most 65536 bytes"), (("list", "--limit", "0"), "--limit"),
    (("show", "a", *"x" * 40), "more than 40 arguments"), (("show", "a", *"x" * 39), "unexpected argument"), (("list", "--endpoint", "ftp://x"), "the endpoint must be"),
], ids=lambda value: value if isinstance(value, str) else "-".join(value)[:30] or "none")
def test_a_mistake_is_named_and_exits_with_2(cli, words, said):
    done = cli.run("user", *words)
    assert done.returncode == 2 and said in done.stdout + done.stderr


def test_a_server_that_does_not_run_is_named():
    port = free_port()
    text = Cli(f"http://127.0.0.1:{port}").refused("user", "list", "--timeout", "5")
    assert f"127.0.0.1:{port}" in text and "is it running there?" in text


class Stranger(BaseHTTPRequestHandler):
    """A web server that is not Gatehouse."""
    def do_GET(self):
        body = b"<html>404</html>"
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_another_kind_of_server_is_recognised():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        text = Cli(f"http://127.0.0.1:{server.server_port}").refused("user", "list")
        assert "does the endpoint lead to it?" in text
    finally:
        server.shutdown()
        server.server_close()
