"""The servers that are compared: one entry each."""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import typing

import dynamo
import redis_store
from scenarios import TABLE

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = ROOT / "bench" / "node_modules"
GATEHOUSE = ROOT / "build" / "gatehouse"
DYNOXIDE = MODULES / "@dynoxide" / "linux-x64"
DYNALITE = MODULES / "dynalite"
POLICIES = ROOT / "bench" / "policies.yaml"     # for /v1: under these every request counts and none is refused
REDIS = pathlib.Path("/usr/bin/redis-server")
LOOPS = max(1, (os.cpu_count() or 2) - 1)       # one core is the generator's, which has one thread
STORES = {"dynamo": dynamo, "redis": redis_store}   # by protocol: prepare(port, key), sum_counts(port, key, rows)


# What a service that keeps its counters in the table may do, and what the harness itself needs.
POLICY = {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Resource": f"arn:aws:dynamodb:*:*:table/{TABLE}",
     "Action": ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:Query"]},
    {"Effect": "Allow", "Resource": f"arn:aws:dynamodb:*:*:table/{TABLE}",
     "Action": ["dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTimeToLive", "dynamodb:Scan"]}]}


@dataclasses.dataclass(frozen=True)
class Key:
    id: str
    secret: str


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    protocol: str                # how it is prepared, filled and checked
    program: pathlib.Path        # must exist, or the server cannot be measured
    install: str                 # what to do if it does not
    command: typing.Callable     # (port, data directory) -> arguments; the directory is empty
    version: typing.Callable     # () -> text
    make_key: typing.Callable = lambda data: None   # (data directory) -> Key to sign with; None: it asks for none
    many: bool = False           # it is filled with as many rows as --rows says

    @property
    def store(self):
        return STORES[self.protocol]


def npm_version(package):
    return lambda: json.loads((package / "package.json").read_text())["version"]


def gatehouse(name, *options):
    return Server(
        name=name,
        protocol="dynamo",
        program=GATEHOUSE,
        install="make",
        command=lambda port, data: [
            str(GATEHOUSE), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data),
            "--loops", str(LOOPS), "--policies", str(POLICIES), *options],
        version=lambda: "this checkout",
    )


def gatehouse_key(data):
    text = subprocess.run([str(GATEHOUSE), "key", "create", "bench", "--policy", "-", "--data", str(data)],
                          input=json.dumps(POLICY), stdout=subprocess.PIPE, text=True, check=True).stdout
    return Key(*(re.search(rf"AWS_{part}=(\S+)", text)[1] for part in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")))


def redis(name, *options):
    """Debian's Redis with no configuration file: one data directory, no snapshots, and the log as the options say."""
    return Server(
        name=name,
        protocol="redis",
        program=REDIS,
        install="tools/install test",
        command=lambda port, data: [
            str(REDIS), "--bind", "127.0.0.1", "--port", str(port), "--dir", str(data), "--save", "", *options],
        version=lambda: subprocess.run([str(REDIS), "--version"], stdout=subprocess.PIPE, text=True,
                                       check=True).stdout.split()[2].removeprefix("v="),
    )


SERVERS = [
    gatehouse("gatehouse", "--no-auth"),
    dataclasses.replace(gatehouse("gatehouse-signed"), make_key=gatehouse_key),
    dataclasses.replace(gatehouse("gatehouse-many", "--no-auth"), many=True),
    Server(
        name="dynoxide",
        protocol="dynamo",
        program=DYNOXIDE / "dynoxide",
        install="npm ci --prefix bench --ignore-scripts",
        command=lambda port, data: [
            str(DYNOXIDE / "dynoxide"), "serve", "--host", "127.0.0.1", "--port", str(port),
            "--db-path", f"{data}.sqlite"],
        version=npm_version(DYNOXIDE),
    ),
    Server(
        name="dynalite",
        protocol="dynamo",
        program=DYNALITE / "cli.js",
        install="npm ci --prefix bench --ignore-scripts",
        command=lambda port, data: [
            "node", str(DYNALITE / "cli.js"), "--host", "127.0.0.1", "--port", str(port),
            "--path", str(data), "--createTableMs", "0"],
        version=npm_version(DYNALITE),
    ),
    redis("redis-always", "--appendonly", "yes", "--appendfsync", "always"),
    redis("redis-everysec", "--appendonly", "yes", "--appendfsync", "everysec"),
    redis("redis-memory", "--appendonly", "no"),
]
