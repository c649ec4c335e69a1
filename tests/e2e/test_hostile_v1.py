"""Every member of every documented request under /v1, replaced by a value of every other JSON type.

The requests are the examples of openapi.yaml, and for each route one with every member that its schema names. The same request
with nothing wrong in it is sent first on the same connection: a decoder that reads what it has not checked finds its texts in
memory. Whatever is sent, the server refuses it or does it, in JSON, and goes on."""

import json
import subprocess
from urllib.parse import urlsplit

import pytest

from conftest import ROOT, line_with_endpoint, program, stop
from test_openapi import OPERATIONS, parameter_value
from wire import Wire

POINTER = 0x1111111111  # as a pointer it leads nowhere
STRAYS = [None, True, 0, -1, POINTER, 2**63 - 1, 1.5, -1e300, "", "x", "\0", "x" * 300, [], [None], [POINTER, "x"], ["x", "x"], [[]], {}, {"a": POINTER}, {"": {}}]
WHOLE = {(request["method"], request["path"]): request["body"] for request in json.loads(subprocess.check_output([ROOT / "tools" / "documented"]))
         if "whole" in request}
IN_LISTS = [None, True, POINTER, 1.5, "", [], {}]


def spoiled(value):
    """The value with one member, or one entry of a list, of another type."""
    for stray in STRAYS:
        if stray != value or type(stray) is not type(value):
            yield stray
    if isinstance(value, dict):
        for name, inner in value.items():
            for changed in spoiled(inner):
                yield {**value, name: changed}
    elif isinstance(value, list) and value:
        for stray in IN_LISTS:
            yield [stray, *value]
            yield [*value, stray]
            yield [value[0], stray, *value]
        for changed in spoiled(value[0]):
            yield [changed, *value[1:]]


def target(path, operation, name):
    for parameter in operation["parameters"]:
        value = parameter_value(parameter, name) if parameter["in"] == "path" else None
        path = path if value is None else path.replace("{" + parameter["name"] + "}", value)
    return path


def bodies(path, method, operation):
    media = operation["requestBody"]["content"]["application/json"]
    for name, example in media["examples"].items():
        yield name, example["value"]
    yield next(iter(media["examples"])), WHOLE[method, path]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A server of its own: what is sent may do anything."""
    data = tmp_path_factory.mktemp("hostile")
    identity = data / "identity.yaml"
    identity.write_text('push: {url: "http://127.0.0.1:9", allow_private: true}\n')  # nobody is there: what is sent waits
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(data / "data"), "--no-auth", "--identity", str(identity)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        yield process, line_with_endpoint(process)
        assert process.poll() is None, f"the server ended by itself with {process.returncode}"
    finally:
        stop(process)
        process.stdout.close()


WITH_BODY = [(path, method, operation) for path, method, operation in OPERATIONS if "requestBody" in operation]


@pytest.mark.parametrize("path,method,operation", WITH_BODY, ids=[operation["operationId"] for _, _, operation in WITH_BODY])
def test_a_member_of_another_type_is_refused_or_ignored_and_the_server_goes_on(house, path, method, operation):
    process, endpoint = house
    assert urlsplit(endpoint).hostname == "127.0.0.1"
    wire = Wire(endpoint)
    for name, body in bodies(path, method, operation):
        where = target(path, operation, name)
        whole = json.dumps(body).encode()
        for changed in spoiled(body):
            wire.send(method.upper(), where, whole, {"Content-Type": "application/json"})
            reply = wire.send(method.upper(), where, json.dumps(changed).encode(), {"Content-Type": "application/json"})
            assert reply.status < 500, (operation["operationId"], changed, reply.body[:300])
            reply.json()
    wire.close()
    assert process.poll() is None
