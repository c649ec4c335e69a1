"""What the alarms are for, done to real servers: one function a condition, named for it. All of it happens side by side, within about three minutes."""

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cognito import Receiver
from conftest import line_with_endpoint, program, stop
from expo import Expo
from helpers import free_port
from issuer import Issuer
from test_sync import INVOKE, event
from test_users import call, ok
from v1 import V1, Server, attempt
from watch import Prometheus
from webhooks import Sink

WAIT_S = 240
FAST = ("--metrics-ms", "100")

# Too long, or too much to break, for a run of minutes: gatehouse.test.yml alone shows these.
BY_SERIES = {
    "GatehouseJobFailed": "a step of a job would have to fail for good",
    "GatehouseEventDeadLetters": "not provoked here: 25 s of refusals made no dead letter",
    "GatehouseSpoolFull": "the spool would have to fill up, or its disk to fail",
    "GatehouseEventsTrimmedUnread": "not provoked here: needs a reader that is behind until events are trimmed",
    "GatehouseEventsMissed": "the same",
}


# ---- servers ----


class Flapping:
    """At one port, so that it can stop and start as one target."""

    def __init__(self):
        self.data, self.address = tempfile.mkdtemp(prefix="gatehouse-flapping-"), f"127.0.0.1:{free_port()}"
        self.start()

    def start(self):
        self.process = subprocess.Popen([program(), "serve", "--listen", self.address, "--data", self.data, "--no-auth", *FAST], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line_with_endpoint(self.process)

    def stop(self):
        stop(self.process)
        self.process.stdout.close()

    def close(self):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.data, ignore_errors=True)


class World:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gatehouse-provoke-"))
        self.issuer, self.expo, self.pool = Issuer(), Expo(), Receiver()
        self.refuses = Sink(answer=lambda event: 410)
        self.main = Server(*FAST, "--private-targets", "--identity", self.identity())
        self.stuck_expo = Expo()
        self.push = Server(*FAST, "--identity", self.file("push.yaml", {"push": {"url": self.stuck_expo.url, "allow_private": True}}))
        self.policies = self.folder / "policies.yaml"
        self.policies.write_text("limits: {few: {limit: 6, per: day}}\n")
        self.files = Server(*FAST, "--policies", str(self.policies), "--identity", self.file("files.yaml", {"issuers": [self.issuer.entry()]}))
        self.full = Server(*FAST, "--fault", "disk-full")
        self.flapping = Flapping()
        self.tables = Server(*FAST)  # the endpoint of the next one
        self.remote = self.far("--hot-key-units", "1")
        self.slow = self.far("--table-prefix", "slow-")

    def file(self, name, content):
        (self.folder / name).write_text(json.dumps(content))  # JSON is YAML
        return str(self.folder / name)

    def identity(self):
        (self.folder / "codes.secret").write_text("whsec_" + b64encode(secrets.token_bytes(32)).decode() + "\n")
        nobody = f"http://127.0.0.1:{free_port()}"
        dead = {**self.issuer.entry(), "issuer": nobody, "jwks_url": nobody + "/keys"}
        pool = {"pool": "local_1", "name": "customers", "region": "local", "endpoint": self.pool.endpoint, "allow_private": True, "reconcile": 0, "sign_out": True}
        return self.file("main.yaml", {"issuers": [self.issuer.entry(), dead], "push": {"url": self.expo.url, "allow_private": True}, "providers": {"pools": [pool]},
                                       "codes": {"webhook": self.refuses.url, "secret_file": "codes.secret", "allow_private": True}})

    def far(self, *words):
        """A server whose tables are at the endpoint."""
        os.environ.update({"AWS_ENDPOINT_URL_DYNAMODB": self.tables.endpoint, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_REGION": "local"})
        return Server(*FAST, "--engine", "dynamodb", *words)

    def targets(self):
        servers = {"main": self.main, "push": self.push, "files": self.files, "full": self.full, "remote": self.remote, "slow": self.slow}
        return {"flapping": self.flapping.address, **{name: server.endpoint.removeprefix("http://") for name, server in servers.items()}}

    def close(self):
        self.stuck_expo.stall.set()
        os.kill(self.tables.process.pid, signal.SIGCONT)
        for each in (self.remote, self.slow, self.tables, self.main, self.push, self.files, self.full, self.flapping):
            each.close()
        for each in (self.issuer, self.expo, self.stuck_expo, self.pool, self.refuses):
            each.close()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- conditions. Each has a connection of its own ----


def guesses(w):
    v1 = V1(w.main.endpoint)
    for i in range(80):
        v1.record(f"sprayed-{i}", context={"ip": f"198.51.{i}.1"})
    for source in range(6):
        for i in range(50):
            v1.record(f"account-{source}-{i}", context={"ip": f"203.0.113.{source}"})


def lock_outs(w):
    v1 = V1(w.main.endpoint)
    for i in range(40):
        v1.record(f"owner-{i}", times=6)
        v1.record(f"owner-{i}", outcome="success")


def user_errors(w):
    v1 = V1(w.main.endpoint)
    for _ in range(60):
        assert v1.attempts({}).status == 422


def false_conditions(w):
    v1 = V1(w.files.endpoint)
    table = {"TableName": "conditions", "AttributeDefinitions": [{"AttributeName": "k", "AttributeType": "S"}], "KeySchema": [{"AttributeName": "k", "KeyType": "HASH"}], "BillingMode": "PAY_PER_REQUEST"}
    assert v1.call("CreateTable", table).status == 200
    put = {"TableName": "conditions", "Item": {"k": {"S": "1"}}, "ConditionExpression": "attribute_not_exists(k)"}
    assert [v1.call("PutItem", put).status for _ in range(200)].count(400) == 199


def tokens(w):
    v1, now = V1(w.main.endpoint), int(time.time())
    long_lived = w.issuer.token(exp=now + 7200)
    assert v1.post("/v1/tokens/verify", {"token": long_lived}).status == 200
    for _ in range(40):
        v1.post("/v1/tokens/verify", {"token": long_lived[:-4] + "AAAA"})


def conflicts(w):
    v1 = V1(w.main.endpoint)
    for _ in range(160):
        v1.post("/v1/users", {"id": "taken"})


def codes(w):
    ok(w.main, "POST", "/v1/users", {"id": "waits", "email": "waits@example.org"})


def providers(w):
    """The provider is down: what was to be done there waits."""
    v1 = V1(w.main.endpoint)
    assert v1.post("/v1/sync/users", {"provider": "customers", "id": "one", "email": "same@example.org", "emailVerified": True}).status == 201
    v1.post(INVOKE, event("two", "same@example.org"))  # a dead letter: the address is taken
    w.pool.failing = -1
    assert v1.post("/v1/users/one/suspend", b"").status == 200
    assert v1.post("/v1/sync/reconcile", {}).status in (200, 202)


def events(w):
    """A consumer that never reads, targets that accept nothing, and one that somebody disabled."""
    v1 = V1(w.main.endpoint)
    refuses = Sink(answer=lambda event: 400)
    for name, url in (("down", f"http://127.0.0.1:{free_port()}/"), ("off", refuses.url), ("refuses", refuses.url)):
        assert v1.send("PUT", f"/v1/targets/{name}", json.dumps({"type": "webhook", "url": url, "enabled": name != "off"}).encode()).status in (200, 201)
    assert v1.send("PUT", "/v1/consumers/asleep", b"{}").status in (200, 201)
    assert v1.post("/v1/users", {"id": "told"}).status == 201


def push(w):
    for i in range(30):
        token = f"ExponentPushToken[bad-{i}]"
        ok(w.main, "PUT", f"/v1/users/bad-{i}/devices/d", {"platform": "ios", "expoPushToken": token})
        w.expo.bad.add(token)
        assert call(w.main, "POST", f"/v1/users/bad-{i}/notify", {"title": "Hello", "body": "There is news"})[0] == 202
    w.stuck_expo.plan.extend(["broken"] * 10_000)
    ok(w.push, "PUT", "/v1/users/waits/devices/d", {"platform": "ios", "expoPushToken": "ExponentPushToken[waits]"})
    assert call(w.push, "POST", "/v1/users/waits/notify", {"title": "Hello", "body": "There is news"})[0] == 202


def wrong_files(w):
    w.policies.write_text("limits: {few: {limit: many}}\n")
    (w.folder / "files.yaml").write_text('{"issuers": 7}')
    audit = Path(w.files.data, "audit.log")
    audit.rename(audit.with_suffix(".old"))
    audit.mkdir()  # its lines cannot be written
    V1(w.files.endpoint).send("PUT", "/v1/subjects/someone/locks/SIGN_IN/PASSWORD_ENTRY", b'{"kind": "STANDARD"}')


def full_disk(w):
    v1 = V1(w.full.endpoint)
    for _ in range(30):
        assert v1.attempts(attempt("someone")).status == 503


def restarts(w):
    for _ in range(4):
        w.flapping.stop()
        w.flapping.start()
        time.sleep(1.5)  # scraped
    w.flapping.stop()


def endpoint(w):
    """Of the tables: one key takes too much of it, then it is slow, then it hangs, then it is gone."""

    def tries(server, subject, count):
        def one(i):
            try:
                V1(server.endpoint).attempts(attempt(f"{subject}-{i}"))
            except (OSError, http.client.HTTPException):
                pass

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(one, range(count)))

    v1 = V1(w.remote.endpoint)
    for _ in range(60):
        v1.attempts(attempt("hot", "MFA_CODE_ENTRY", outcome="success", method_id="m"))
    pid = w.tables.process.pid
    for _ in range(12):
        waits = threading.Thread(target=tries, args=(w.slow, "slow", 32))
        os.kill(pid, signal.SIGSTOP)
        waits.start()
        time.sleep(0.8)
        os.kill(pid, signal.SIGCONT)
        waits.join()
    os.kill(pid, signal.SIGSTOP)
    tries(w.slow, "hangs", 8)
    time.sleep(7)
    os.kill(pid, signal.SIGCONT)
    w.tables.process.kill()
    for _ in range(20):
        tries(w.remote, "spooled", 8)
        time.sleep(0.5)


CONDITIONS = [guesses, lock_outs, user_errors, false_conditions, tokens, conflicts, codes, providers, events, push, wrong_files, full_disk, restarts, endpoint]


def run(names):
    """{alarm: the labels that it fired with}"""
    world, wrong = World(), []
    prometheus = Prometheus(world.targets())

    def provoked(condition):
        try:
            condition(world)
        except Exception as error:
            wrong.append(f"{condition.__name__}: {error!r}")

    try:
        time.sleep(3)  # a first scrape has the zeros
        threads = [threading.Thread(target=provoked, args=(condition,), daemon=True) for condition in CONDITIONS]
        for thread in threads:
            thread.start()
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end and not names - set(BY_SERIES) <= set(prometheus.fired()):
            time.sleep(1)
        print("\n".join(wrong))
        return prometheus.fired()
    finally:
        prometheus.close()
        world.close()
