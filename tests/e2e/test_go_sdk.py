"""The AWS SDK for Go, from Debian's packages, signs in with a key made on the command line, and is refused by the next request once
the key is revoked. Not part of `make test` but `make test-go`: the compiler and the SDK take 690 MB of disk."""

import os
import shutil
import subprocess

import pytest

from conftest import HERE, ROOT, stop
from test_access import EVERYTHING, REGION, Guarded

pytestmark = [pytest.mark.gatehouse_only,
              pytest.mark.skipif(not os.environ.get("GATEHOUSE_TEST_GO"), reason="needs 690 MB of Go: make test-go")]
COMPILE_S_MAX = 600
STEP_S_MAX = 60
STEPS = ["create", "put", "get", "update", "query", "transact"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Offline, from what Debian put into /usr/share/gocode."""
    out = tmp_path_factory.mktemp("go")
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": "", "CGO_ENABLED": "0",
                   "GOCACHE": os.environ.get("GOCACHE", str(ROOT / "build" / "go-cache"))}
    done = subprocess.run(["go", "build", "-o", out / "client", HERE / "go" / "main.go"], env=environment, timeout=COMPILE_S_MAX,
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return out / "client"


@pytest.fixture
def server():
    running = Guarded()
    yield running
    stop(running.process)
    running.process.stdout.close()
    shutil.rmtree(running.data, ignore_errors=True)
    assert running.process.returncode == 0


def client(compiled, server, key):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.Popen([compiled], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={
        **kept, "GATEHOUSE_ENDPOINT": server.endpoint, "AWS_REGION": REGION, "AWS_ACCESS_KEY_ID": key[0], "AWS_SECRET_ACCESS_KEY": key[1]})


def test_the_go_sdk_signs_in_with_a_created_key_and_is_refused_once_it_is_revoked(compiled, server):
    process = client(compiled, server, server.make("go", EVERYTHING))
    try:
        assert [process.stdout.readline().strip() for _ in STEPS] == STEPS
        assert server.command("key", "revoke", "go").returncode == 0
        said, _ = process.communicate("go on\n", timeout=STEP_S_MAX)
        assert (said.strip(), process.returncode) == ("UnrecognizedClientException", 0)
    finally:
        process.kill()
        process.wait()


def test_the_go_sdk_with_a_wrong_secret_is_refused_at_once(compiled, server):
    key = server.make("go", EVERYTHING)
    process = client(compiled, server, (key[0], key[1][::-1]))
    said, _ = process.communicate("", timeout=STEP_S_MAX)
    assert said.startswith("failed: InvalidSignatureException") and process.returncode == 1
