"""The examples in README.md work as printed: they are taken from it and run, with only the address changed."""
import os
import re
import subprocess
from pathlib import Path

import pytest

from conftest import line_with_endpoint, program, stop

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()


def block(language):
    """All blocks of that language, as one."""
    return "".join(re.findall(rf"^```{language}\n(.*?)^```", README, re.S | re.M))


def run(command, text, endpoint):
    assert "http://127.0.0.1:8420" in text
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": ""}
    return subprocess.run(command, input=text.replace("http://127.0.0.1:8420", endpoint), env=environment, text=True,
                          capture_output=True, timeout=120)


@pytest.fixture
def fresh(tmp_path):
    """A server that nobody has used yet, as a reader's is."""
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--no-auth"],
                               stdout=subprocess.PIPE)
    try:
        yield line_with_endpoint(process)
    finally:
        stop(process)


def test_the_examples_of_the_readme_work_as_printed(fresh):
    shell = run(["bash", "-e"], "shopt -s expand_aliases\n" + block("sh"), fresh)
    assert shell.returncode == 0, shell.stderr
    assert '"Count": 1' in shell.stdout and "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY" in shell.stdout
    assert shell.stdout.count('"verdict":"allow"') == 5 and shell.stdout.count('"verdict":"locked"') == 2
    assert '"allowed":true' in shell.stdout and "SIGN_IN#LOCK#PASSWORD_ENTRY" in shell.stdout
    python = run(["/usr/bin/python3", "-"], block("python"), fresh)
    assert python.returncode == 0, python.stderr
    assert "SIGN_IN#LOCK#PASSWORD_RESET" in python.stdout
