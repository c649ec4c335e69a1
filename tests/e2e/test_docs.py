"""The documents are true: their commands run as printed against a server of their own, and answer what is printed beneath.

A block of shell is followed by a block with its output. Times, hashes and seconds that run down differ from run to run: they are compared by
their form only.
"""
import http.client
import json
import os
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from conftest import line_with_endpoint, program, stop

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:8420"
TIMEOUT_S = 120
END = "-- end of the block --"


def blocks(name):
    """(language, text) of each fenced block, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / name).read_text(), re.S | re.M)


def masked(text):
    text = re.sub(r"\b[A-Za-z0-9_-]{108}\b", "TOKEN", text)
    text = re.sub(r"\b(email|phone|ip|device):[A-Za-z0-9_-]{32}", r"\1:HASH", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r'"(retry_after|expires_in|reset)":\s*\d+', r'"\1": 0', text)
    text = re.sub(r"\b\d{10} (failure|sent) ", r"SECONDS \1 ", text)
    return re.sub(r'"(ttl|last_updated)": \{\s*"N": "\d+"\s*\}', r'"\1": 0', text)


def lines(text):
    """What was said, a JSON value or a text a line."""
    out = []
    for line in masked(text).splitlines():
        try:
            out.append(json.loads(line))
        except ValueError:
            out.append(line)
    return [line for line in out if line != ""]


def same(said, shown):
    try:
        return json.loads(masked(said)) == json.loads(masked(shown))  # one value over several lines
    except ValueError:
        return lines(said) == lines(shown)


@pytest.fixture
def server(tmp_path):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--no-auth"],
                               stdout=subprocess.PIPE)
    try:
        yield line_with_endpoint(process)
    finally:
        stop(process)


def run_blocks(commands, endpoint, directory):
    """What each block says, all in one shell."""
    script = "shopt -s expand_aliases\nset -e\n" + "".join(f"{text}\necho '{END}'\n" for text in commands)
    environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": ""}
    done = subprocess.run(["bash"], input=script.replace(ADDRESS, endpoint), cwd=directory, env=environment, text=True,
                          capture_output=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split(END + "\n")[:-1]


@pytest.mark.parametrize("name", ["docs/login-flow.md", "docs/data-model.md", "docs/policies.md"])
def test_the_commands_run_as_printed_and_answer_what_is_shown(name, server, tmp_path):
    all_blocks = blocks(name)
    shown = [(text, all_blocks[i + 1][1]) for i, (language, text) in enumerate(all_blocks) if language == "sh"]
    assert len(shown) > 1
    for (command, want), said in zip(shown, run_blocks([text for text, _ in shown], server, tmp_path), strict=True):
        assert same(said, want), f"{command}\nsaid:\n{said}\nshown:\n{want}"


# ---- policies ----


def put(connection, section, document):
    connection.request("GET", f"/v1/policies/{section}")
    answer = connection.getresponse()
    answer.read()
    connection.request("PUT", f"/v1/policies/{section}", json.dumps(document), {"If-Match": answer.headers["ETag"]})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_every_policy_that_is_shown_is_accepted(server):
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=TIMEOUT_S)
    shown = [yaml.safe_load(text) for language, text in blocks("docs/policies.md") if language == "yaml"]
    assert len(shown) >= 5
    for document in shown:
        assert put(connection, "attempts", document["attempts"])[0] == 200
    connection.close()


def test_every_setting_of_a_policy_is_explained():
    source = (ROOT / "src" / "service" / "rules_read.c").read_text()
    settings = set(re.findall(r'(?:fields_\w+|refs_read|names_read)\((?:r, )?&?\w+, "(\w+)"', source))
    assert {"max", "life", "known_device", "allow_sources", "ends_demand"} <= settings
    text = (ROOT / "docs" / "policies.md").read_text()
    assert [name for name in sorted(settings) if not re.search(rf"\b{name}\b", text)] == []


# ---- rows ----


def test_every_table_and_every_kind_of_row_is_in_the_data_model():
    service = ROOT / "src" / "service"
    names = re.findall(r'X\(TABLE_\w+, "([^"]+)"', (service / "tables.h").read_text())
    names += re.findall(r'#define KEY_\w+\s+"(\w+)"', (service / "key_names.h").read_text())
    assert len(names) > 10
    text = (ROOT / "docs" / "data-model.md").read_text()
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []
