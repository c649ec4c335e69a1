"""Where the tests find their server, and the few things every test needs.

GATEHOUSE_ENDPOINT points the suite at an endpoint that already runs (any implementation: tests of what only
Gatehouse does are skipped there). Otherwise build/gatehouse, or the program GATEHOUSE_BIN names, is started on a
free port with a data directory of its own, and stopped by its process id at the end.
"""

import os
import selectors
import shutil
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from helpers import assert_alive, n, put_many, s, scan_sorted
from wire import Wire

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START_S = 60
STOP_S = 60

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_MAX_ATTEMPTS": "1",
    "AWS_PAGER": "",
}
os.environ.update(CREDENTIALS)


def pytest_configure(config):
    config.addinivalue_line("markers", "gatehouse_only: shows what only Gatehouse does; skipped elsewhere")


def pytest_collection_modifyitems(items):
    if not os.environ.get("GATEHOUSE_ENDPOINT") or os.environ.get("GATEHOUSE_IS_GATEHOUSE"):
        return
    skip = pytest.mark.skip(reason="GATEHOUSE_ENDPOINT is not known to be Gatehouse")
    for item in items:
        if "gatehouse_only" in item.keywords:
            item.add_marker(skip)


# ---- the server ----


def line_with_endpoint(process):
    """Reads standard output up to the line that says where the server listens."""
    deadline = time.monotonic() + START_S
    seen = b""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < deadline:
            if not ready.select(timeout=1):
                continue
            more = os.read(process.stdout.fileno(), 4096)
            if not more:
                break
            seen += more
            for line in seen.split(b"\n")[:-1]:
                if b"listening on http" in line:
                    return line.split(b"listening on ", 1)[1].split()[0].decode()
    raise RuntimeError(f"the server said nowhere that it listens: {seen!r}")


def program():
    return os.environ.get("GATEHOUSE_BIN", str(ROOT / "build" / "gatehouse"))


@pytest.fixture(scope="session")
def endpoint():
    given = os.environ.get("GATEHOUSE_ENDPOINT")
    if given:
        yield given
        return
    data = tempfile.mkdtemp(prefix="gatehouse-e2e-")
    command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        yield line_with_endpoint(process)
        assert process.poll() is None, f"the server ended by itself with {process.returncode}"
    finally:
        stop(process)
        shutil.rmtree(data, ignore_errors=True)
    assert process.returncode == 0, f"the server did not stop in order: {process.returncode}"


def stop(process):
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# ---- clients ----


@pytest.fixture(scope="session")
def ddb(endpoint):
    """boto3, without its own checks (the server's are what is tested) and without retries."""
    config = Config(
        parameter_validation=False,
        retries={"total_max_attempts": 1, "mode": "standard"},
        read_timeout=60,
        max_pool_connections=16,
    )
    return boto3.client("dynamodb", endpoint_url=endpoint, config=config)


@pytest.fixture
def wire(endpoint):
    connection = Wire(endpoint)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def client_env():
    """The environment for programs that the tests start: nothing of the caller's own AWS settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, **CREDENTIALS}


# ---- tables ----


def table_name(hint="t"):
    return f"e2e.{hint}-{uuid.uuid4().hex[:12]}"


def key_parts(keys):
    """("pk:S", "sk:N") to DynamoDB's two lists."""
    pairs = [part.split(":") for part in keys]
    schema = [{"AttributeName": name, "KeyType": kind} for (name, _), kind in zip(pairs, ("HASH", "RANGE"))]
    return schema, dict(pairs)


def index(name, *keys, projection="ALL", include=None):
    """An index as CreateTable wants it, and the types of its keys."""
    schema, types = key_parts(keys)
    shape = {"ProjectionType": projection}
    if include:
        shape["NonKeyAttributes"] = include
    return {"IndexName": name, "KeySchema": schema, "Projection": shape}, types


def table_request(name, *keys, gsi=(), lsi=(), **more):
    schema, types = key_parts(keys)
    for _, index_types in [*gsi, *lsi]:
        types = {**types, **index_types}
    request = {"TableName": name, "KeySchema": schema, "BillingMode": "PAY_PER_REQUEST"}
    request["AttributeDefinitions"] = [{"AttributeName": a, "AttributeType": t} for a, t in types.items()]
    if gsi:
        request["GlobalSecondaryIndexes"] = [shape for shape, _ in gsi]
    if lsi:
        request["LocalSecondaryIndexes"] = [shape for shape, _ in lsi]
    return {**request, **more}


def wait_for(ddb, waiter, name):
    ddb.get_waiter(waiter).wait(TableName=name, WaiterConfig={"Delay": 0.05, "MaxAttempts": 400})


class Tables:
    """Makes tables and removes all of them at the end."""

    def __init__(self, ddb):
        self.ddb = ddb
        self.names = []

    def make(self, *keys, hint="t", name=None, **more):
        name = name or table_name(hint)
        self.ddb.create_table(**table_request(name, *(keys or ("pk:S",)), **more))
        self.names.append(name)
        wait_for(self.ddb, "table_exists", name)
        return name

    def release(self):
        for name in self.names:
            try:
                self.ddb.delete_table(TableName=name)
            except self.ddb.exceptions.ClientError:
                pass  # the test has removed it itself


@pytest.fixture
def tables(ddb):
    made = Tables(ddb)
    yield made
    made.release()


@pytest.fixture(scope="module")
def module_tables(ddb):
    made = Tables(ddb)
    yield made
    made.release()


@pytest.fixture(scope="module")
def table(module_tables):
    """A table with a string key `pk`, shared by a file's tests: each uses keys of its own."""
    return module_tables.make("pk:S")


@pytest.fixture(scope="module")
def pairs(module_tables):
    """The same with a range key `sk`, a string."""
    return module_tables.make("pk:S", "sk:S")


@pytest.fixture
def key(request):
    """A key nobody else uses."""
    return f"{request.node.name[:40]}-{uuid.uuid4().hex[:8]}"


# ---- a table that must stay as it is ----


@pytest.fixture(scope="module")
def guarded(ddb, module_tables):
    """A table that no hostile request may change."""
    table = module_tables.make("pk:S", hint="guarded")
    put_many(ddb, table, [{"pk": s(f"{i}"), "v": n(i), "l": {"L": [n(1)]}} for i in range(5)])
    return table


@pytest.fixture
def unharmed(ddb, endpoint, wire, guarded):
    """Compares the table before and after the test, and has both connections answer a good request."""
    before = scan_sorted(ddb, guarded)
    yield wire
    assert_alive(wire, guarded)
    fresh = Wire(endpoint)
    assert_alive(fresh, guarded)
    fresh.close()
    assert scan_sorted(ddb, guarded) == before


# ---- /v1 ----


@pytest.fixture
def v1(endpoint):
    from v1 import V1  # which needs this file

    connection = V1(endpoint)
    yield connection
    connection.close()


@pytest.fixture
def subject():
    """One that no other test uses."""
    return f"subject-{uuid.uuid4().hex}"
