"""How long each failure of docs/operations.md lasts is measured by bench/recovery: it runs, every failure recovers, and the page names each."""
import re
import subprocess

import pytest

from conftest import ROOT

pytestmark = pytest.mark.gatehouse_only
RUN_S = 300
NEEDS_ROOT = {"full-disk"}


def test_the_server_recovers_from_every_failure_and_the_page_says_how_long_it_takes():
    done = subprocess.run([ROOT / "bench/recovery", "--rounds", "1", "--users", "50"], capture_output=True, text=True, timeout=RUN_S)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()[1:]}
    assert {name for name, seconds in rows.items() if seconds == "-"} <= NEEDS_ROOT, done.stdout
    page = (ROOT / "docs/operations.md").read_text()
    measured = re.findall(r"\| `([a-z-]+)`: [\d.]+ m?s", page)
    assert sorted(measured) == sorted(rows), "docs/operations.md lists other failures than bench/recovery measures"
