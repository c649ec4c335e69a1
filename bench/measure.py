"""Runs the measurements: one Contestant for each server, rounds interleaved between them.

Noise on a shared machine comes and goes over seconds, so no server gets its whole time at once: in each round every
server has its turn, another one first each time. While one is measured the others are stopped (SIGSTOP), so that what
they still do in the background is charged to their own turns."""
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess

import durability
from process import Process, free_port
from scenarios import FILL, SINGLE, SINGLE_ASLEEP, WRITE
from servers import Key

FILL_CONNECTIONS = 32
TRACED_WRITES = 40
PROBE_SECONDS_MAX = 10
NO_KEY = Key("A" * 20, "a" * 40)     # as long as a real one, and known to nobody
SINGLE_BYTES_DEFAULT = 512      # if strace cannot say what Gatehouse writes


class RunInvalid(Exception):
    """A measurement that must not be used: wrong answers, lost connections, rows that do not add up."""


class Tools:
    """The C programs, and where everything is written."""

    def __init__(self, build):
        self.work = build / "bench"
        self.load_program = self.work / "load"
        self.fsync_program = self.work / "fsync"

    def fresh(self, name):
        """An empty directory for data."""
        for old in self.work.glob(f"{name}.data*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        data = self.work / f"{name}.data"
        data.mkdir()
        return data

    def load(self, name, port, key, request, connections, keys, *more):
        """Runs bench/load; its line of JSON as a dict. With a key it signs."""
        environment = dict(os.environ)
        if key is not None:
            environment |= {"AWS_ACCESS_KEY_ID": key.id, "AWS_SECRET_ACCESS_KEY": key.secret}
            more = [*more, "--sign"]
        out = subprocess.run(
            [str(self.load_program), "--port", str(port), "--target", request.target,
             "--body-template", request.body, "--expect", request.expect,
             "--connections", str(connections), "--keys", str(keys), *more],
            stdout=subprocess.PIPE, text=True, check=False, env=environment).stdout
        result = json.loads(out) if out else {"valid": False, "errors": 1, "problem": "load did not run"}
        if not result["valid"]:
            raise RunInvalid(f"{name}: {result['errors']} errors, the first: {result['problem']}")
        if result["measured"] == 0:
            raise RunInvalid(f"{name}: not one answer in the time measured")
        return result

    def fsync(self, size, seconds):
        out = subprocess.run([str(self.fsync_program), str(self.work / "fsync.data"), str(size), str(seconds)],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
        return json.loads(out)


class Contestant:
    """One running server, its rows filled in, paused unless it is its turn."""

    def __init__(self, server, tools, plan):
        self.server = server
        self.tools = tools
        self.keys = plan.many_keys if server.many else plan.keys
        self.many_keys = plan.many_keys
        self.counted = 0
        self.port = free_port()
        self.data = tools.fresh(server.name)
        self.process = Process(server.name, server.command(self.port, self.data), tools.work / f"{server.name}.log")
        try:
            self._prepare()
        except BaseException:
            self.process.stop()
            raise

    def _prepare(self):
        self.process.wait_ready(self.port)
        self.idle_rss_mb = self.process.rss_mb()
        self.key = self.server.make_key(self.data)
        self.keeps_ttl = self.server.store.prepare(self.port, self.key)
        self.tools.load(self.server.name, self.port, self.key, FILL[self.server.protocol], FILL_CONNECTIONS, self.keys, "--once")
        self.process.pause()

    def serves(self, request):
        """False if there is no such path on it (yet)."""
        if not request.target.startswith("/"):
            return True
        self.process.resume()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PROBE_SECONDS_MAX)
        try:
            connection.request("POST", request.target, request.body.replace("%d", "0"), {"Content-Type": "application/json"})
            return connection.getresponse().status != http.HTTPStatus.NOT_FOUND
        finally:
            connection.close()
            self.process.pause()

    def turn(self, scenario, seconds, warmup, seed):
        """One round. CPU is divided by all requests of the turn, warm-up included: it is their CPU too."""
        request = scenario.requests[self.server.name]
        self.process.resume()
        before = self.process.cpu_seconds()
        key = self.key or (NO_KEY if scenario.signed else None)
        keys = self.many_keys if scenario.many else self.keys
        result = self.tools.load(self.server.name, self.port, key, request, scenario.connections, keys,
                                 "--seconds", str(seconds), "--warmup", str(warmup), "--seed", str(seed),
                                 *(["--spin"] if scenario.spin else []))
        result["server_cpu_s"] = self.process.cpu_seconds() - before
        result["rss_mb"] = self.process.rss_mb()
        self.process.pause()
        if request.counts:
            self.counted += result["answered"]
        return result

    def check(self):
        """Every update that was answered is in the rows, once. (Adding up very many would take longer than the run.)"""
        if self.server.many:
            return
        self.process.resume()
        found = self.server.store.sum_counts(self.port, self.key, self.keys)
        if found != self.counted:
            raise RunInvalid(f"{self.server.name}: {self.counted} updates were answered, the rows hold {found}")

    def stop(self):
        self.process.stop()


def summary(rounds):
    """Rates and CPU over all rounds together; quantiles: the median of the rounds'."""
    answered = sum(r["answered"] for r in rounds)
    return {
        "requests_per_s": sum(r["measured"] for r in rounds) / sum(r["seconds"] for r in rounds),
        "cpu_s_per_million": 1e6 * sum(r["server_cpu_s"] for r in rounds) / max(answered, 1),
        "client_cpu_s_per_million": 1e6 * sum(r["client_cpu_s"] for r in rounds) / max(answered, 1),
        "p50_us": statistics.median(r["p50_us"] for r in rounds),
        "p99_us": statistics.median(r["p99_us"] for r in rounds),
        "rss_mb": max(r["rss_mb"] for r in rounds),
        "rounds": rounds,
    }


def interleave(contestants, scenario, plan):
    """{server name: summary} of one scenario."""
    rounds = {c.server.name: [] for c in contestants}
    for number in range(plan.rounds):
        first = number % len(contestants)
        for c in contestants[first:] + contestants[:first]:
            rounds[c.server.name].append(c.turn(scenario, plan.seconds, plan.warmup, number + 1))
    return {name: summary(results) for name, results in rounds.items()}


def single(contestants, tools, plan, size):
    """One client's durable write, and in the same rounds the bare write + fdatasync of as many bytes."""
    polling = {c.server.name: [] for c in contestants}
    asleep = {c.server.name: [] for c in contestants}
    bare = []
    for number in range(plan.rounds):
        bare.append(tools.fsync(size, plan.seconds / 4))
        for c in contestants:
            polling[c.server.name].append(c.turn(SINGLE, plan.seconds / 3, plan.warmup / 2, number + 1))
            asleep[c.server.name].append(c.turn(SINGLE_ASLEEP, plan.seconds / 3, plan.warmup / 2, number + 1))
    floor = {kind: {q: statistics.median(b[kind][q] for b in bare) for q in ("p50_us", "p99_us")}
             for kind in ("growing", "zero_filled")}
    return {"servers": {n: summary(r) for n, r in polling.items()},
            "servers_client_asleep": {n: summary(r) for n, r in asleep.items()}, "bytes": size, "bare": floor}


def trace(server, tools):
    """How durable the server's answers are: a short life under strace, apart from every measurement."""
    if not durability.available():
        return durability.UNKNOWN
    name = f"{server.name}-traced"
    data, port, out = tools.fresh(name), free_port(), tools.work / f"{name}.strace"
    process = Process(name, durability.traced(server.command(port, data), out), tools.work / f"{name}.log")
    try:
        process.wait_ready(port)
        key = server.make_key(data)
        server.store.prepare(port, key)
        tools.load(name, port, key, WRITE[server.protocol], 1, TRACED_WRITES, "--once")      # rows exist
        before = pathlib.Path(out).read_text(errors="replace")
        tools.load(name, port, key, WRITE[server.protocol], 1, TRACED_WRITES, "--once")
        after = pathlib.Path(out).read_text(errors="replace")[len(before):]
    finally:
        process.stop()
    return durability.judge(before, after, data, TRACED_WRITES)
