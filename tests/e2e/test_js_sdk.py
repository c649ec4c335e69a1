"""Runs the tests of js/ with node's own runner. The SDK is installed there by `npm ci`; a machine without it fails
here rather than passing over a client that has not been tried."""

import subprocess
from pathlib import Path

JS = Path(__file__).resolve().parent / "js"
TIMEOUT_S = 120


def test_the_javascript_sdk(endpoint, client_env):
    sdk = JS / "node_modules" / "@aws-sdk" / "client-dynamodb"
    assert sdk.is_dir(), f"run `npm ci` in {JS} first"
    done = subprocess.run(
        ["node", "--test", "test.mjs"],
        cwd=JS,
        env={**client_env, "GATEHOUSE_ENDPOINT": endpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-8000:]
