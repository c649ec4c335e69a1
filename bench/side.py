"""A server with its data, started again and again, and what is asked of it: what bench/growth and bench/large share."""
import http.client
import json
import os
import pathlib
import re
import socket
import statistics
import struct
import time

import scenarios
from process import Process, ServerFailed, free_port
from servers import LOOPS

CONNECTIONS = 64
READY_S_MAX = 120
HOUR_US = 3600 * 1000000
CLOCK_HEAD = b"gatehouse-clock\n"
POLICIES = """attempts:
  locks:
    STANDARD: {{duration: 900}}
  journeys:
    SIGN_IN:
      types:
        PASSWORD_ENTRY: {{max: 1000000, life: {life}, renewed: true}}
        MFA_CODE_ENTRY: {{max: 1000000, qualifier: method, life: {life}, renewed: true}}
"""
ROW = {"PK": {"S": "one-of-many-%d"}, "SK": {"S": "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"}}
GET = scenarios.Request("GetItem", json.dumps({"TableName": "auth-state", "Key": ROW, "ConsistentRead": True}), '"Item"')
QUERY = scenarios.Request("Query", json.dumps({
    "TableName": "auth-state", "KeyConditionExpression": "PK = :p AND begins_with(SK, :s)",
    "ExpressionAttributeValues": {":p": ROW["PK"], ":s": {"S": "SIGN_IN#"}}, "ConsistentRead": True}), '"Count":1')


def written_bytes(pid):
    return int(re.search(r"^write_bytes: (\d+)", pathlib.Path(f"/proc/{pid}/io").read_text(), re.M)[1])


def stored_bytes(path):
    return sum(int(f.stat().st_blocks) * 512 for f in path.rglob("*") if f.is_file() and f.name != "ballast")


def metrics(port, names):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return [float(re.search(rf"^{re.escape(name)} (\S+)", text, re.M)[1]) for name in names]


def metric(port, name):
    return metrics(port, [name])[0]


def redis_is_ready(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
            s.sendall(b"PING\r\n")
            return s.recv(100).startswith(b"+PONG")
    except OSError:
        return False


def is_ready(port):
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False


class Clock:
    """The time of a server that is given its environment: as it is, and so many hours on."""

    def __init__(self, path):
        self.path, self.environment = path, {"GATEHOUSE_TEST_CLOCK": str(path)}
        path.write_bytes(CLOCK_HEAD + struct.pack("<qq", 0, 0))

    def move(self, hours):
        with open(self.path, "r+b") as f:
            f.seek(len(CLOCK_HEAD))
            f.write(struct.pack("<q", int(hours * HOUR_US)))


class Side:
    """A server with its data, started again and again. Its data is new, or that of an earlier run."""

    def __init__(self, name, command, tools, environment=None, data=None):
        self.name, self.command, self.tools = name, command, tools
        self.environment = environment or {}
        self.port, self.data = free_port(), data or tools.fresh(name)
        self.start()

    def start(self):
        for name, value in self.environment.items():
            os.environ[name] = value
        try:
            self.process = Process(self.name, self.command(self.port, self.data), self.tools.work / f"{self.name}.log")
        finally:
            for name in self.environment:
                del os.environ[name]
        self.process.wait_ready(self.port, READY_S_MAX)

    def kill_and_start(self):
        """Seconds from the start of a killed server until it is ready."""
        self.process.child.kill()
        self.process.child.wait()
        began = time.monotonic()
        self.start()
        ready = redis_is_ready if self.name.startswith("redis") else is_ready
        while not ready(self.port):
            if time.monotonic() - began > READY_S_MAX:
                raise ServerFailed(f"{self.name} is not ready")
            time.sleep(0.005)
        return time.monotonic() - began

    def load(self, request, keys, *more, connections=CONNECTIONS):
        """What bench/load measured, with the server's CPU and bytes written."""
        cpu, written = self.process.cpu_seconds(), written_bytes(self.process.child.pid)
        r = self.tools.load(self.name, self.port, None, request, connections, keys, *more)
        return {"requests_per_s": r["requests_per_s"], "p50_us": r["p50_us"], "p99_us": r["p99_us"], "max_ms": r["max_us"] / 1e3,
                "cpu_us": 1e6 * (self.process.cpu_seconds() - cpu) / r["answered"], "answered": r["answered"],
                "written_bytes": (written_bytes(self.process.child.pid) - written) / r["answered"]}


def together(sides, requests, keys, plan, *more, connections=CONNECTIONS):
    """{side: medians}, rounds interleaved; the longest answer of all rounds. `keys`: of all sides, or {side: keys}."""
    rounds = {s.name: [] for s in sides}
    for number in range(plan.rounds):
        for side in sides if number % 2 == 0 else reversed(sides):
            for other in sides:
                other.process.pause() if other is not side else other.process.resume()
            rounds[side.name].append(side.load(requests[side.name], keys[side.name] if isinstance(keys, dict) else keys, "--seconds", str(plan.seconds), "--warmup", "0.2",
                                               "--seed", str(number + 1), *more, connections=connections))
    for side in sides:
        side.process.resume()
    return {name: {k: (max if k == "max_ms" else statistics.median)(r[k] for r in all_) for k in all_[0]} for name, all_ in rounds.items()}


def gatehouse_command(program, policies):
    return lambda port, data: [str(program), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), "--loops", str(LOOPS),
                               "--policies", str(policies), "--no-auth"]
