"""The servers that are compared: one entry each. A later one (Redis) is one entry more, with its own protocol."""
import dataclasses
import json
import pathlib
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODULES = ROOT / "bench" / "node_modules"
GATEHOUSE = ROOT / "build" / "gatehouse"
DYNOXIDE = MODULES / "@dynoxide" / "linux-x64"
DYNALITE = MODULES / "dynalite"


@dataclasses.dataclass(frozen=True)
class Server:
    name: str
    protocol: str                # which request of a scenario it is sent
    program: pathlib.Path        # must exist, or the server cannot be measured
    install: str                 # what to do if it does not
    command: typing.Callable     # (port, data directory) -> arguments; the directory does not exist yet
    version: typing.Callable     # () -> text


def npm_version(package):
    return lambda: json.loads((package / "package.json").read_text())["version"]


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
]
