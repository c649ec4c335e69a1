"""libgatehouse against the real server: its answers, keys, TLS, and what it does when the server is killed under it and started again.
The client is build/tests/client/client_tool, which takes commands on its standard input; and the example that the README prints."""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
import yaml

from certificates import Certificates
from conftest import ROOT, line_with_endpoint, program, stop
from v1 import V1

pytestmark = pytest.mark.gatehouse_only
TOOL = ROOT / "build/tests/client/client_tool"
EXAMPLE = ROOT / "build/client/example"
DEADLINE_MS = 500
PROBE_MS = 50
LATE_MS = 20000  # how late a call may seem on a machine that is busy with other things
RECOVERY_S = 60


class Server:
    """One that can be killed and started again at the same address, on the same data."""

    def __init__(self, *options, listen="127.0.0.1:0"):
        self.data = tempfile.mkdtemp(prefix="gatehouse-client-")
        self.options = options
        self.start(listen)

    def start(self, listen=None):
        listen = listen or self.url.split("//")[1]
        command = [program(), "serve", "--listen", listen, "--data", self.data, *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.url = self.said().rstrip("/")

    def said(self):
        if "--tls-cert" not in self.options:
            return line_with_endpoint(self.process)
        for line in self.process.stdout:
            if b"listening on " in line:
                return line.split(b"listening on ", 1)[1].split()[0].decode()
        raise RuntimeError("the server said nowhere that it listens")

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def key(self):
        done = subprocess.run([program(), "key", "show", "administrator", "--data", self.data], text=True, capture_output=True, timeout=30)
        return ".".join(line.split("=", 1)[1] for line in done.stdout.splitlines())

    def release(self):
        stop(self.process)
        self.process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)


class Client:
    def __init__(self, url, key="-", ca="-", deadline_ms=DEADLINE_MS):
        self.process = subprocess.Popen([TOOL, url, key, ca, str(deadline_ms), str(PROBE_MS)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, *words):
        """The words of the answer."""
        self.process.stdin.write(" ".join(words) + "\n")
        return self.process.stdout.readline().split()

    def until(self, right, *words):
        """Asks until the answer is right: the first words of it."""
        end = time.monotonic() + RECOVERY_S
        while time.monotonic() < end:
            said = self.ask(*words)
            if said[:len(right)] == right:
                return said
        raise AssertionError(f"{words} is still answered {said}")

    def storms(self, *columns):
        """Waits until a storm has more of each than it had."""
        end = time.monotonic() + RECOVERY_S
        before = self.ask("so far")
        while time.monotonic() < end:
            now = self.ask("so far")
            if all(int(now[i]) > int(before[i]) for i in columns):
                return
        raise AssertionError(f"the storm is still at {now}")

    def release(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()


@pytest.fixture
def server():
    made = Server("--no-auth")
    yield made
    made.release()


@pytest.fixture
def client(server):
    made = Client(server.url)
    yield made
    made.release()


def in_time(answer):
    return int(answer[-1]) < DEADLINE_MS + LATE_MS


def test_attempts_count_and_lock_and_a_repeated_idempotency_key_counts_once(server):
    client = Client(server.url, deadline_ms=60000)
    for _ in range(10):
        assert client.ask("attempt", "careful", "the-same")[:3] == ["ok", "allow", "counted"]
    verdicts = [client.ask("attempt", "careless")[1] for _ in range(7)]
    assert verdicts == ["allow"] * 5 + ["locked"] * 2
    assert client.ask("check", "careless")[:2] == ["ok", "locked"]
    assert client.ask("check", "careful")[:2] == ["ok", "allow"]
    client.release()


SCHEMAS = yaml.safe_load((ROOT / "openapi.yaml").read_text())["components"]["schemas"]


def test_the_bounds_of_a_check_are_the_servers():
    header, documented = (ROOT / "client/gatehouse.h").read_text(), SCHEMAS["CheckRequest"]["allOf"][1]["properties"]
    for name, member in (("GATEHOUSE_ACTIONS_MAX", "actions"), ("GATEHOUSE_CHECK_LIMITS_MAX", "limits")):
        assert int(re.search(rf"{name} = (\d+)", header).group(1)) == documented[member]["maxItems"]
    assert int(re.search(r"char +policy\[(\d+)\]", header).group(1)) == SCHEMAS["Ask"]["properties"]["policy"]["maxLength"] + 1


def put(v1, path, body, **headers):
    reply = v1.send("PUT", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    assert reply.status == 200, reply.body


def test_every_verdict_and_reason_of_the_server_is_known_to_the_client(server):
    client, v1 = Client(server.url, deadline_ms=60000), V1(server.url)
    put(v1, "/v1/policies/limits", {"barred": {"limit": 1, "per": "day", "deny": ["foe"]}, "sms-number": {"limit": 10, "per": "day", "engine": "table"}}, **{"If-Match": '"0"'})
    put(v1, "/v1/subjects/barred/locks/AUTHENTICATION/SIGN_IN", {"kind": "PERMANENT"})
    for who, body in (("blocked", {"blocked": True}), ("suspended", {"suspended": True})):
        put(v1, f"/v1/subjects/{who}/states/intervention", {**body, "applied_at": "2026-01-02T03:04:05Z"})
    put(v1, "/v1/subjects/fraud/states/email_fraud", {"state": "DENY"})
    for who in ("user-suspended", "user-deleted"):
        assert v1.post("/v1/users", {"id": who}).status == 201
    assert v1.send("POST", "/v1/users/user-suspended/suspend", b"", {}).status == 200
    assert v1.send("DELETE", "/v1/users/user-deleted", b"", {}).status == 200
    v1.record("guessed", times=6)
    v1.record("forgot", times=6, journey="REAUTHENTICATION")
    policies = v1.send("GET", "/v1/policies/attempts", b"", {}).json()["document"]
    policies["journeys"]["STEP_UP"] = {"types": {"PASSWORD_ENTRY": {"max": 1, "life": 600, "at_max": "challenge"}}}
    policies["journeys"]["RISKY"] = {"types": {"PASSWORD_ENTRY": {"max": 9, "life": 600, "at_risk": {"from": 70}}}}
    policies["consecutive"]["max"] = 3
    put(v1, "/v1/policies/attempts", policies, **{"If-Match": '"0"'})
    v1.record("hammered", times=3)
    v1.close()
    for _ in range(10):
        assert client.ask("allow", "sms-number", "full")[:2] == ["ok", "allowed"]
    asked = {("attempt", "new"): ("allow", "-"), ("attempt", "guessed"): ("locked", "lock"), ("attempt", "barred"): ("locked_permanent", "lock"),
             ("attempt", "forgot", "-", "REAUTHENTICATION"): ("signed_out", "signed_out"), ("attempt", "blocked"): ("blocked", "intervention_blocked"),
             ("attempt", "hammered"): ("locked_permanent", "too_many_failures"),
             ("attempt", "new", "-", "STEP_UP"): ("challenge", "challenge"),
             ("attempt", "new", "-", "RISKY", "70"): ("challenge", "risk"),
             ("attempt", "suspended"): ("blocked", "intervention_suspended"), ("attempt", "fraud"): ("blocked", "email_fraud_denied"),
             ("attempt", "user-suspended"): ("blocked", "user_suspended"), ("attempt", "user-deleted"): ("blocked", "user_deleted"),
             ("check", "new", "sms-number", "full", "1"): ("limited", "limit"),
             ("check", "new", "sms-number", "empty", "11"): ("limited", "cost_above_limit"),
             ("check", "new", "barred", "foe", "1"): ("limited", "deny_list")}
    for words, said in asked.items():
        answer = client.ask(*words)
        assert answer[0] == "ok" and (answer[1], answer[3 if words[0] == "attempt" else 2]) == said, words
    client.release()
    # These are all that there are, but for what the library never asks (finish, tokens), what takes an address of its own or tables that
    # are elsewhere, and what lasts only while a job runs.
    documented = SCHEMAS["Verdict"]["properties"]
    assert {verdict for verdict, _ in asked.values()} == set(documented["verdict"]["enum"]) - {"lapsed", "invalid_token"}
    reasons = set(re.findall(r"`(\w+)`", documented["reason"]["description"]))
    assert {reason for _, reason in asked.values()} - {"-"} == reasons - {"lapsed", "reset", "source_denied", "user_erasing", "revoked", "provider", "outage"}


def test_an_email_address_counts_as_the_same_subject_as_over_http(server):
    client, v1 = Client(server.url, deadline_ms=60000), V1(server.url)
    assert client.ask("attempt", "Ann@example.org")[:2] == ["ok", "allow"]
    assert v1.record({"email": "ann@EXAMPLE.org"})["counts"]["PASSWORD_ENTRY"]["count"] == 2
    v1.close()
    client.release()


def test_a_check_looks_at_limits_and_takes_nothing(server):
    client = Client(server.url, deadline_ms=60000)
    for _ in range(2):
        said = client.ask("check", "ada", "login-ip", "k", "20", "sms-number", "ada", "0")
        assert said[:5] == ["ok", "allow", "-", "0", "login-ip:yes:60:20:0"] and said[5].startswith("sms-number:yes:10:10:")
    for _ in range(10):
        client.ask("allow", "sms-number", "ada")
    said = client.ask("check", "ada", "login-ip", "k", "20", "sms-number", "ada", "0")
    assert said[:3] == ["ok", "limited", "limit"] and 0 < int(said[3]) <= 86400
    assert said[4] == "login-ip:yes:60:20:0" and said[5].startswith("sms-number:no:10:0:")
    limits = [word for i in range(17) for word in ("login-ip", f"k{i}", "1")]
    assert client.ask("check", "ada", *limits[:-3])[:-1] == ["ok", "allow", "-", "0"] + ["login-ip:yes:60:20:0"] * 16
    assert client.ask("check", "ada", *limits)[:2] == ["invalid", "unknown"]
    assert client.ask("check", "ada", "no-such-policy", "k", "1")[:2] == ["refused", "unknown"]
    client.release()


def test_a_check_is_told_the_longest_wait_and_none_if_something_has_no_end(server):
    client, v1 = Client(server.url, deadline_ms=60000), V1(server.url)
    v1.record("ada", times=6)
    v1.close()
    said = client.ask("check", "ada")
    assert said[:3] == ["ok", "locked", "lock"] and 0 < int(said[3]) <= 900
    assert client.ask("check", "ada", "login-ip", "k", "21")[:-1] == ["ok", "locked", "lock", "0", "login-ip:no:60:20:0"]
    client.release()


def test_keys_are_sent_and_a_wrong_one_is_refused():
    server = Server()
    try:
        for key, said in ((server.key(), ["ok", "allow"]), ("no.key", ["refused", "unknown"]), ("-", ["refused", "unknown"])):
            client = Client(server.url, key, deadline_ms=60000)
            assert client.ask("attempt", "ada")[:2] == said
            client.release()
    finally:
        server.release()


REACHED, NOT_REACHED = ["ok", "allow"], ["unreachable", "unknown"]


@pytest.mark.parametrize("hosts, cases", [
    ("DNS:localhost,IP:127.0.0.1", [("127.0.0.1", "ca", REACHED), ("localhost", "ca", REACHED), ("127.0.0.2", "ca", NOT_REACHED),
                                    ("127.0.0.1", "stranger-ca", NOT_REACHED)]),
    ("IP:127.0.0.2", [("localhost", "ca", NOT_REACHED), ("127.0.0.1", "ca", NOT_REACHED), ("127.0.0.2", "ca", REACHED)])])
def test_with_tls_the_servers_certificate_must_be_the_right_one_for_the_host(hosts, cases):
    made = Certificates()
    made.make("server", by="ca", hosts=f"subjectAltName={hosts}")
    server = Server("--tls-cert", str(made.crt("server")), "--tls-key", str(made.key("server")), listen="0.0.0.0:0")
    try:
        port, key = server.url.rsplit(":", 1)[1], server.key()
        for host, ca, said in cases:
            client = Client(f"https://{host}:{port}", key, str(made.crt(ca)), deadline_ms=60000)
            for _ in range(2):  # the second over the connection of the first
                assert client.ask("attempt", "ada")[:2] == said, (host, ca)
            client.release()
        client = Client(f"http://127.0.0.1:{port}", deadline_ms=60000)  # no TLS where TLS is spoken
        assert client.ask("attempt", "ada")[1] == "unknown"
        client.release()
    finally:
        server.release()
        made.release()


def test_a_client_degrades_within_its_deadline_when_the_server_is_killed_and_recovers_by_itself(server, client):
    client.until(["ok"], "attempt", "ada")
    for _ in range(2):
        server.kill()
        for _ in range(20):
            allowed = client.ask("allow", "p", "k")
            assert allowed[:3] == ["ok", "allowed", "here"] and in_time(allowed)
            attempted = client.ask("attempt", "ada")
            assert attempted[1] == "unknown" and attempted[0] in ("unreachable", "timeout") and in_time(attempted)
            checked = client.ask("check", "ada")
            assert checked[1] == "unknown" and checked[0] in ("unreachable", "timeout") and in_time(checked)
            looked = client.ask("check", "ada", "login-account", "ada", "1")
            assert looked[1:-1] == ["unknown", "-", "0"] and looked[0] in ("unreachable", "timeout") and in_time(looked)
        server.start()
        client.until(["ok"], "attempt", "ada")


def test_many_threads_are_answered_in_time_while_the_server_is_killed_and_started_again(server, client):
    client.until(["ok"], "attempt", "ada")
    client.ask("storm", "16")
    client.storms(0)
    server.kill()
    client.storms(1, 2)
    server.start()
    client.storms(0)
    answered, degraded, unknown, other, slowest_ms = map(int, client.ask("enough"))
    assert answered > 0 and degraded > 0 and unknown > 0 and other == 0
    assert slowest_ms < DEADLINE_MS + LATE_MS
    client.until(["ok"], "attempt", "ada")


def test_a_server_that_stands_still_costs_no_call_more_than_its_deadline(server, client):
    client.until(["ok"], "attempt", "ada")
    os.kill(server.process.pid, signal.SIGSTOP)
    os.waitpid(server.process.pid, os.WUNTRACED)  # every thread of it stands still now
    try:
        attempted = client.ask("attempt", "ada")
        assert attempted[:2] == ["timeout", "unknown"]
        assert DEADLINE_MS <= int(attempted[-1]) < DEADLINE_MS + LATE_MS
        allowed = client.ask("allow", "p", "k")
        assert allowed[:3] == ["ok", "allowed", "here"] and in_time(allowed)
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    client.until(["ok"], "attempt", "ada")


def test_the_example_is_the_one_the_readme_prints_and_works(server):
    readme = (ROOT / "client/README.md").read_text()
    assert re.search(r"^```c\n(.*?)^```", readme, re.S | re.M).group(1) == (ROOT / "client/example.c").read_text()
    said = []
    for name in ("ada", "bob", "cy"):  # its deadline is a login page's: a machine that is busy may need more than one go
        text = f"{name} guess\n" * 6 + f"{name}-too sesame\n"
        done = subprocess.run([EXAMPLE, server.url], input=text, text=True, capture_output=True, timeout=60)
        said.append([line for line in done.stdout.splitlines() if not line.startswith("allow: ")])
        right = [f"{name}: wrong password"] * 5 + [f"{name}: locked until 20", f"{name}-too: welcome"]
        if all(line.startswith(start) for line, start in zip(said[-1], right)):
            return
    raise AssertionError(said)


def test_the_readme_says_what_the_example_prints_when_nobody_listens(server):
    readme = (ROOT / "client/README.md").read_text()
    server.kill()
    done = subprocess.run([EXAMPLE, server.url], input="ada guess\n", text=True, capture_output=True, timeout=60)
    assert f"```\n{done.stdout}```" in readme
    server.start()


def allowed(answers):
    return [words[1] for words in answers].count("allowed")


def test_a_limit_of_the_server_holds_and_goes_on_holding_here_while_the_server_is_away(server):
    """sms-number, as shipped: 10 a day."""
    client = Client(server.url, deadline_ms=60000)
    said = [client.ask("allow", "sms-number", "ada") for _ in range(30)]
    assert allowed(said) == 10 and said[0][:4] == ["ok", "allowed", "server", "1"] and said[-1][:3] == ["ok", "denied", "server"]
    assert client.ask("allow", "no-such-policy", "ada")[0] == "refused"
    server.kill()
    # What the server let through counts here too; another key has what the server's answers said, and no more.
    assert client.ask("allow", "sms-number", "ada")[:3] == ["ok", "denied", "here"]
    here = [client.ask("allow", "sms-number", "eve") for _ in range(30)]
    assert allowed(here) == 10 and all(words[2] == "here" for words in here)
    assert client.ask("allow", "never-heard-of", "ada")[:3] == ["ok", "allowed", "here"]
    server.start()
    client.until(["ok", "allowed", "server"], "allow", "sms-number", "bob")
    assert client.ask("allow", "sms-number", "ada")[:3] == ["ok", "denied", "server"]
    client.release()
