"""The servers that are compared: one entry each."""
import dataclasses
import json
import pathlib
import subprocess
import typing

import dynamo
import redis_store

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = ROOT / "bench" / "node_modules"
GATEHOUSE = ROOT / "build" / "gatehouse"
DYNOXIDE = MODULES / "@dynoxide" / "linux-x64"
DYNALITE = MODULES / "dynalite"
REDIS = pathlib.Path("/usr/bin/redis-server")
STORES = {"dynamo": dynamo, "redis": redis_store}   # by protocol: prepare(port), sum_counts(port, keys)


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    protocol: str                # how it is prepared, filled and checked
    program: pathlib.Path        # must exist, or the server cannot be measured
    install: str                 # what to do if it does not
    command: typing.Callable     # (port, data directory) -> arguments; the directory is empty
    version: typing.Callable     # () -> text

    @property
    def store(self):
        return STORES[self.protocol]


def npm_version(package):
    return lambda: json.loads((package / "package.json").read_text())["version"]


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
    Server(
        name="gatehouse",
        protocol="dynamo",
        program=GATEHOUSE,
        install="make",
        command=lambda port, data: [
            str(GATEHOUSE), "serve", "--listen", f"127.0.0.1:{port}", "--data", str(data), "--no-auth"],
        version=lambda: "this checkout",
    ),
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
