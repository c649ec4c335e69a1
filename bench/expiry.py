"""What it costs that a row expires: the same rows with expiry and without, on two servers that take turns. Part of bench/growth.

CPU is of the whole process: what a row's expiry adds to writing it, to removing it, and to merging files later. Each round writes new rows; then the clock of
the server whose rows expire is moved past their time, and the run goes on when they are gone."""
import contextlib
import dataclasses
import json
import time

import dynamo
import measure
import scenarios
from side import POLICIES, Clock, Side, gatehouse_command, metrics, stored_bytes, written_bytes

ROUND_HOURS = 3         # rows live 15 minutes, and count for up to two hours after
GONE_S_MAX = 900
POLL_S = 1              # to write all metrics takes the server a millisecond or two
LIFE_S = 900
EXPIRED = "gatehouse_expired_rows_total"
TOLD = 'gatehouse_events_published_total{type="lock.expired"}'
LOCKING = """attempts:
  locks:
    STANDARD: {{duration: 900}}
  journeys:
    SIGN_IN:
      types:
        PASSWORD_ENTRY: {{max: 1, life: 900}}
events:
  types: [{types}]
"""


@dataclasses.dataclass(frozen=True)
class Variant:
    """A server, and what it is sent. `expires`: the clock is moved after each round."""
    name: str
    policies: str
    request: object             # from the second at which rows expire to what bench/load sends
    table: dict = None          # made first
    expires: bool = True
    gone: tuple = (EXPIRED,)    # each counts every row, once it is gone


def attempt(_):
    return scenarios.ATTEMPT_MANY


def locking_attempt(_):
    return dataclasses.replace(scenarios.ATTEMPT_MANY, expect='"verdict":"locked"')


def table(indexed):
    names = ("PK", "owner") if indexed else ("PK",)
    index = {"IndexName": "by-owner", "KeySchema": [{"AttributeName": "owner", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    return {"TableName": scenarios.TABLE, "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "PK", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": n, "AttributeType": "S"} for n in names],
            **({"GlobalSecondaryIndexes": [index]} if indexed else {})}


def put(attribute):
    """A session of about 150 bytes. The time is in `ttl`, by which rows expire, or in an attribute of the same length, by which they do not."""
    def request(expires_s):
        return scenarios.Request("PutItem", scenarios.body(Item={
            "PK": {"S": "session-%d"}, "owner": {"S": "owner-%d"}, attribute: {"N": str(expires_s)},
            "agent": {"S": "a browser with quite a long name"}, "scopes": {"S": "openid profile email"}}), "{")
    return request


COUNTS = POLICIES.format(life=LIFE_S)
KINDS = {
    "counts": (Variant("counts-expire", COUNTS, attempt), Variant("counts-stay", COUNTS, attempt, expires=False)),
    "indexed": (Variant("indexed-expire", COUNTS, put("ttl"), table(True)), Variant("indexed-stay", COUNTS, put("til"), table(True), expires=False)),
    "plain": (Variant("plain-expire", COUNTS, put("ttl"), table(False)), Variant("plain-stay", COUNTS, put("til"), table(False), expires=False)),
    "locks": (Variant("locks-told", LOCKING.format(types="lock.set, lock.expired"), locking_attempt, gone=(TOLD, EXPIRED)),
              Variant("locks-untold", LOCKING.format(types="lock.set"), locking_attempt)),
}


class Runner:
    """A variant's server and what it has used so far."""

    def __init__(self, variant, tools, program):
        self.variant = variant
        self.clock = Clock(tools.work / f"{variant.name}.clock")
        policies = tools.work / f"{variant.name}.yaml"
        policies.write_text(variant.policies)
        self.side = Side(variant.name, gatehouse_command(program, policies), tools, self.clock.environment)
        if variant.table is not None:
            dynamo.call(self.side.port, None, "CreateTable", **variant.table)
            dynamo.call(self.side.port, None, "UpdateTimeToLive", TableName=scenarios.TABLE, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
            time.sleep(1.5)     # the next tick finds that there is nothing to fill
        self.hours, self.rows, self.removing_s, self.longest_s = 0, 0, 0, 0
        self.cpu, self.written = self.used()

    def used(self):
        return self.side.process.cpu_seconds(), written_bytes(self.side.process.child.pid)

    def write(self, rows):
        expires_s = int(time.time()) + self.hours * 3600 + LIFE_S
        self.side.load(self.variant.request(expires_s), rows, "--first", str(self.rows), "--once")
        self.rows += rows

    def remove(self):
        """Moves the clock on, and waits until the server says that all rows are gone."""
        began, cpu = time.monotonic(), self.used()[0]
        self.hours += ROUND_HOURS
        self.clock.move(self.hours)
        time.sleep(POLL_S)
        while (gone := min(metrics(self.side.port, self.variant.gone))) < self.rows:
            if time.monotonic() - began > GONE_S_MAX:
                raise measure.RunInvalid(f"{self.variant.name}: only {gone:.0f} of {self.rows} rows are gone")
            time.sleep(POLL_S)
        self.removing_s += self.used()[0] - cpu
        self.longest_s = max(self.longest_s, time.monotonic() - began)

    def result(self):
        cpu, written = self.used()
        return {"cpu_us": 1e6 * (cpu - self.cpu) / self.rows, "removing_us": 1e6 * self.removing_s / self.rows, "rows": self.rows,
                "seconds": self.longest_s, "written_bytes": (written - self.written) / self.rows, "stored_mb": stored_bytes(self.side.data) / 1e6}


def turn(runner, others, rows, settle_s):
    for other in others:
        other.side.process.pause()
    runner.side.process.resume()
    runner.write(rows)
    if runner.variant.expires:
        runner.remove()
    time.sleep(settle_s)


def compare(kind, tools, program, plan):
    """{"cpu_us": what a row's expiry costs, and both sides}"""
    with contextlib.ExitStack() as stack:
        runners = []
        for variant in KINDS[kind]:
            runners.append(Runner(variant, tools, program))
            stack.callback(runners[-1].side.process.stop)
        for number in range(plan.expiry_rounds):
            for runner in runners if number % 2 == 0 else reversed(runners):
                turn(runner, [r for r in runners if r is not runner], plan.expiring, plan.settle_s / plan.expiry_rounds)
        for runner in runners:
            runner.side.process.resume()
        time.sleep(plan.settle_s)
        gone, kept = (r.result() for r in runners)
    return {"rows": gone["rows"], "seconds": gone["seconds"], "cpu_us": gone["cpu_us"] - kept["cpu_us"], "gone": gone, "kept": kept}


def run(kinds, tools, program, plan):
    out = {}
    for kind in kinds:
        out[kind] = compare(kind, tools, program, plan)
        print(f"expiry of {kind}: {json.dumps(out[kind])}", flush=True)
    return out
