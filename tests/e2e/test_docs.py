"""The documents are true, from top to bottom, against one server.

A newcomer starts one server as `make run` does, opens one shell, and pastes every block of the README, then of each page in docs/ in the
order in which the README names them. That is what the first test does. In a document

    ```sh        a block of shell, or of python, is run as printed
    ```
    ```json      the block that directly follows, if there is one, shows what it prints
    ```

What differs from run to run (times, hashes, seconds that run down, secrets) is compared by its form only: see MASKS. Paths are relative to a
clone: build/gatehouse is there, and files that a block makes are there for the next one.
"""
import http.client
import itertools
import json
import os
import re
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from conftest import line_with_endpoint, program, stop
from helpers import free_port
from test_engine_dynamodb import dynoxide  # noqa: F401

pytestmark = pytest.mark.gatehouse_only

ROOT = Path(__file__).resolve().parents[2]
BLOCK_S = 60  # no block takes longer
FIRST, SECOND = "127.0.0.1:8420", "127.0.0.1:8421"  # the server of `make run`, and one that a document starts itself
ELSEWHERE = "127.0.0.1:8000"  # a DynamoDB endpoint: an independent server
# The page about an installed service: its commands need root and systemd, and tests/deb has those. This part of it asks a running server.
OPERATIONS, OPERATIONS_PARTS = "docs/operations.md", ("Runbooks",)
NOT_RUN = {OPERATIONS}

# (what, stands for)
MASKS = [
    (r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{108}(?![A-Za-z0-9_-])", "TOKEN"),
    (r"([A-Z_]+\.[A-Z_]+)\.[A-Za-z0-9_-]{32}", r"\1.ID"),
    (r"\b(email|phone|ip|device):[A-Za-z0-9_-]{32}", r"\1:HASH"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r'"code":\s*"[0-9A-Z]{8}"', '"code": "CODE"'),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
    (r'"(retry_after|expires_in|reset)":\s*\d+', r'"\1": 0'),
    (r"\b\d{10} (failure|sent|success) v\d+", r"SECONDS \1 VERSION"),
    (r'"(ttl|last_updated)": \{\s*"N": "\d+"\s*\}', r'"\1": 0'),
    (r"(AWS_ACCESS_KEY_ID|AWS_SECRET_ACCESS_KEY)=\S+", r"\1=SECRET"),
    (r"\b\d+ rows of \d+ tables\b", "ROWS of TABLES"),
]


# ---- documents ----


@dataclass
class Block:
    document: str
    line: int  # of its first line
    language: str
    text: str
    shown: "Block" = None  # what it prints, if the document says so

    @property
    def place(self):
        return f"{self.document}:{self.line}"


def blocks(document):
    """Every fenced block, in order; those that show what another prints are its `shown`."""
    found, text = [], (ROOT / document).read_text()
    end = 0
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M):
        block = Block(document, text.count("\n", 0, match.start()) + 2, match[1], match[2])
        runs = found and found[-1].language in ("sh", "python") and found[-1].shown is None
        if runs and block.language not in ("sh", "python", "yaml") and text[end:match.start()].strip() == "":
            found[-1].shown = block
        else:
            found.append(block)
        end = match.end()
    return found


def parts_run(document, names):
    """The blocks under these headings."""
    lines, run, inside = (ROOT / document).read_text().split("\n"), set(), False
    for number, line in enumerate(lines, 1):
        if line.startswith("## "):
            inside = line[3:] in names
        if inside:
            run.add(number)
    return [block for block in blocks(document) if block.line in run]


def documents():
    """The README, and the pages in the order in which it names them."""
    named = re.findall(r"\]\((docs/[\w-]+\.md)\)", (ROOT / "README.md").read_text())
    return ["README.md", *dict.fromkeys(named)]


def masked(text):
    for what, stands_for in MASKS:
        text = re.sub(what, stands_for, text)
    return text


def values(text):
    """What is said: JSON values, which may be spelt in several ways, or lines."""
    text, out = masked(text), []
    try:
        return [json.loads(text)]  # one value over several lines
    except ValueError:
        pass
    for line in filter(str.strip, text.splitlines()):
        try:
            out.append(json.loads(line))
        except ValueError:
            out.append(line.rstrip())
    return out


def difference(block, said):
    """None, or what is wrong and where, for whoever has to mend the document."""
    for i, (want, got) in enumerate(itertools.zip_longest(values(block.shown.text), values(said))):
        if want != got:
            return (f"{block.shown.place}, value {i + 1}: the document does not show what the block at {block.place} prints\n"
                    f"  shown:   {want if isinstance(want, str) else json.dumps(want)}\n"
                    f"  printed: {got if isinstance(got, str) else json.dumps(got)}\n"
                    f"the block:\n{block.text}\nall it printed:\n{said}")
    return None


# ---- a reader ----


class Shell:
    """The reader's: one bash for all documents, so that variables, aliases and files outlive a block."""

    END = "-- end of a block --"
    PROLOGUE = "shopt -s expand_aliases\nset -o pipefail -E\ntrap 'echo \"failed ($?): $BASH_COMMAND\" >&2' ERR\n"

    def __init__(self, directory):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GATEHOUSE_"))}
        environment = {**kept, "AWS_EC2_METADATA_DISABLED": "true", "AWS_PAGER": "", "AWS_CONFIG_FILE": os.devnull,
                       "PATH": f"{directory / 'clone' / 'build'}:{os.environ['PATH']}"}  # pages about an installed program call it by its name
        self.directory = directory
        self.errors = open(directory / "errors", "w+b")
        self.bash = subprocess.Popen(["bash"], cwd=directory / "clone", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=self.errors, start_new_session=True)
        self.tell(self.PROLOGUE)

    def tell(self, text):
        self.bash.stdin.write(text.encode())
        self.bash.stdin.flush()

    def run(self, language, text):
        """What the block prints, and what it complains of."""
        script = self.directory / ("block." + language)
        script.write_text(text)
        before = os.fstat(self.errors.fileno()).st_size
        self.tell(f"{'source' if language == 'sh' else '/usr/bin/python3'} {script} </dev/null\necho '{self.END}'\n")
        said = self.read()
        return said, os.pread(self.errors.fileno(), 100_000, before).decode()

    def read(self):
        deadline, said, end = time.monotonic() + BLOCK_S, b"", (self.END + "\n").encode()
        with selectors.DefaultSelector() as ready:
            ready.register(self.bash.stdout, selectors.EVENT_READ)
            while not said.endswith(end):
                assert time.monotonic() < deadline, f"it did not end within {BLOCK_S} s; it said {said!r}"
                if ready.select(timeout=1):
                    more = os.read(self.bash.stdout.fileno(), 65536)
                    assert more, f"the shell ended; it said {said!r}"
                    said += more
        return said[: -len(end)].decode()

    def close(self):
        """Also what it left in the background: they are in a session of its own."""
        os.killpg(self.bash.pid, signal.SIGKILL)
        self.bash.wait()
        self.bash.stdout.close()
        self.bash.stdin.close()
        self.errors.close()


@pytest.fixture
def clone(tmp_path):
    """A directory like a clone that was built, as far as documents need it."""
    (tmp_path / "clone" / "build").mkdir(parents=True)
    (tmp_path / "clone" / "build" / "gatehouse").symlink_to(program())
    (tmp_path / "clone" / "packaging").symlink_to(ROOT / "packaging")
    return tmp_path / "clone"


@pytest.fixture
def served(clone):
    """The address of a server that nobody has used yet, started as `make run` does."""
    assert "serve --listen $(LISTEN) --data data --no-auth" in (ROOT / "Makefile").read_text()
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", "data", "--no-auth"], cwd=clone,
                               stdout=subprocess.PIPE)
    try:
        yield urlsplit(line_with_endpoint(process)).netloc
    finally:
        stop(process)
        process.stdout.close()


def paste(shell, block, addresses):
    """Runs a block as printed, except for the ports. What is wrong, or None."""
    text = block.text
    for printed, real in addresses.items():
        text = text.replace(printed, real)
    said, errors = shell.run(block.language, text)
    for printed, real in addresses.items():
        said = said.replace(real, printed)
    if "failed (" in errors or "Traceback" in errors:
        return f"{block.place}: a command failed\n{errors}\nthe block:\n{block.text}\nit printed:\n{said}"
    return difference(block, said) if block.shown else None


def test_every_document_works_from_top_to_bottom_against_one_server(served, clone, dynoxide):  # noqa: F811
    addresses = {FIRST: served, SECOND: f"127.0.0.1:{free_port()}", ELSEWHERE: urlsplit(dynoxide).netloc}
    ran = [block for name in documents() for block in (parts_run(name, OPERATIONS_PARTS) if name in NOT_RUN else blocks(name))
           if block.language in ("sh", "python")]
    shell = Shell(clone.parent)
    try:
        wrong = [each for each in (paste(shell, block, addresses) for block in ran) if each]
    finally:
        shell.close()
    assert not wrong, f"{len(wrong)} of {len(ran)} blocks are wrong; the first may be the cause of others:\n\n" + "\n\n".join(wrong)
    assert {block.document for block in ran} >= {"README.md", "docs/login-flow.md", "docs/policies.md", "docs/rate-limits.md",
                                                 "docs/data-model.md", "docs/errors.md", OPERATIONS}
    assert len([block for block in ran if block.shown]) > 15


def test_the_readme_names_every_page():
    assert sorted(name for name in documents() if name != "README.md") == sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md"))


def test_what_can_be_pasted_is_marked_as_shell_and_so_is_run():
    looks = re.compile(r"^\s*(\$ |curl |aws |ddb |build/gatehouse )", re.M)
    for name in set(documents()) - NOT_RUN:
        for block in blocks(name):
            assert block.language in ("sh", "python") or not looks.search(block.text), f"{block.place}: commands in a block that is not run"


# ---- policies ----


def put(connection, section, document):
    connection.request("GET", f"/v1/policies/{section}")
    answer = connection.getresponse()
    answer.read()
    connection.request("PUT", f"/v1/policies/{section}", json.dumps(document), {"If-Match": answer.headers["ETag"]})
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_every_policy_that_is_shown_is_accepted(served):
    connection = http.client.HTTPConnection(served, timeout=BLOCK_S)
    shown = [block for name in ("docs/policies.md", "docs/rate-limits.md") for block in blocks(name) if block.language == "yaml"]
    assert len(shown) >= 6
    for block in shown:
        for section, document in yaml.safe_load(block.text).items():
            status, said = put(connection, section, document)
            assert status == 200, f"{block.place}: {said}"
    connection.close()


def test_every_setting_of_a_policy_is_explained():
    source = (ROOT / "src" / "service" / "rules_read.c").read_text()
    settings = set(re.findall(r'(?:fields_\w+|refs_read|names_read|networks_read|lock_read)\((?:&?r, )?&?\w+, "(\w+)"', source))
    assert {"max", "life", "known_device", "allow_sources", "ends_demand"} <= settings
    text = (ROOT / "docs" / "policies.md").read_text()
    assert [name for name in sorted(settings) if not re.search(rf"\b{name}\b", text)] == []


# ---- rows ----


def test_every_table_and_every_kind_of_row_is_in_the_data_model():
    source = "".join((ROOT / "src" / "service" / name).read_text() for name in ("tables.h", "row.h"))
    names = re.findall(r'X\(TABLE_\w+, "([^"]+)"', source)
    names += re.findall(r'#define KEY_\w+\s+"(\w+)"', source)
    assert len(names) > 10
    text = (ROOT / "docs" / "data-model.md").read_text()
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


# ---- IAM actions and metrics ----


def pages():
    return "\n".join((ROOT / name).read_text() for name in documents())


def test_every_iam_action_is_in_a_page():
    paths = yaml.safe_load((ROOT / "openapi.yaml").read_text())["paths"].values()
    actions = {call["x-action"].removeprefix("gatehouse:") for path in paths for call in path.values() if "x-action" in call}
    assert len(actions) > 50
    text = pages()
    assert [name for name in sorted(actions) if not re.search(rf"\b{name}\b", text)] == []


def test_every_metric_is_in_a_page_and_no_page_names_another(served):
    connection = http.client.HTTPConnection(served, timeout=BLOCK_S)
    connection.request("GET", "/metrics")
    exposed = connection.getresponse().read().decode()
    connection.close()
    metrics = set(re.findall(r"^# TYPE (\w+)", exposed, re.M))
    named = set(re.findall(r"\b(?:gatehouse|process)_[a-z_]+[a-z]\b", pages()))
    assert named == metrics
    table = parts_text(OPERATIONS, "Alarms")
    assert [worker for worker in sorted(set(re.findall(r'worker="([^"]+)"', exposed))) if f"| `{worker}` |" not in table] == []


def parts_text(document, heading):
    return (ROOT / document).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
