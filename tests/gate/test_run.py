"""The runner itself: what fails a run. A copy of `tests/run` runs suites that are small scripts, in a tree of their own."""
import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUNNER = Path(__file__).resolve().parent.parent / "run"
ONCE_RED = '[ -e "$0.ran" ] && echo "1 passed, 0 failed" && exit 0; touch "$0.ran"; echo "an acknowledged write is lost"; echo "0 passed, 1 failed"; exit 1'


class Tree:
    """A tree with the runner and the suites that a test gives it."""

    def __init__(self, root):
        self.root = root
        (root / "tests").mkdir()
        shutil.copy(RUNNER, root / "tests/run")
        for folder in ("tests/service", "tests/contract", "tests/e2e"):
            (root / folder).mkdir()

    def suite(self, path, script):
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)

    def fuzzer(self, name, script):
        (self.root / "fuzz").mkdir(exist_ok=True)
        shutil.copy(RUNNER.parent.parent / "fuzz/run", self.root / "fuzz/run")
        self.suite(f"build/asan/fuzz/{name}", script)
        self.suite(f"build/fuzz/{name.removesuffix('_fuzz')}_replay", "exit 0")

    def listed(self, *lines):
        (self.root / "tests/second_tries.txt").write_text("# a list\n" + "".join(line + "\n" for line in lines))

    def run(self, group, **environment):
        done = subprocess.run(["/usr/bin/python3", self.root / "tests/run", "--only", group], capture_output=True, text=True,
                              env={**os.environ, **environment}, timeout=60)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.mark.parametrize("group,path", [
    ("crash", "build/tests/crash/crash"), ("model", "build/tests/model/model"), ("tsan", "build/tsan/tests/engine/race_test"),
    ("unit", "build/asan/tests/engine/lost_test"), ("unit", "build/asan/tests/contract/items_test"), ("unit", "build/asan/tests/base/plain_test")])
def test_a_suite_that_fails_once_fails_the_run(tree, group, path):
    tree.suite("tests/crash/prove", 'echo "1 passed, 0 failed"')
    tree.suite(path, ONCE_RED)
    status, output = tree.run(group)
    assert "an acknowledged write is lost" in output
    assert status == 1 and output.splitlines()[-1].endswith(" 1 failed"), output
    assert "once more" not in output


def test_a_fuzzer_that_fails_once_fails_the_run(tree):
    tree.fuzzer("json_fuzz", ONCE_RED)
    status, output = tree.run("fuzz")
    assert status == 1 and output.splitlines()[-1] == "0 passed, 1 failed", output


def test_a_suite_on_the_list_has_a_second_try_and_the_end_names_it(tree):
    tree.suite("build/asan/tests/base/impatient_test", ONCE_RED)
    tree.listed("base/impatient_test | 2026-11-18 | waits for a timer")
    status, output = tree.run("unit")
    assert status == 0 and output.splitlines()[-2:] == [
        "needed a second try: base/impatient_test (on the list since 2026-11-18: waits for a timer)", "1 passed, 0 failed"], output


def test_a_suite_on_the_list_that_fails_twice_fails_the_run(tree):
    tree.suite("build/asan/tests/base/broken_test", 'echo "0 passed, 1 failed"; exit 1')
    tree.listed("base/broken_test | 2026-11-18 | waits for a timer")
    status, output = tree.run("unit")
    assert status == 1 and output.splitlines()[-1] == "0 passed, 1 failed", output


@pytest.mark.parametrize("line,said", [
    ("engine/lost_test | 2026-11-18 | a reason", "`engine/lost_test` never gets a second try"),
    ("engine/lost_test | | a reason", "expected `suite | YYYY-MM-DD | reason`"),
    ("engine/lost_test | 2026-11-18 |", "expected `suite | YYYY-MM-DD | reason`")])
def test_a_wrong_line_on_the_list_ends_the_run_before_it_begins(tree, line, said):
    tree.suite("build/asan/tests/engine/lost_test", 'echo "1 passed, 0 failed"')
    tree.listed(line)
    status, output = tree.run("unit")
    assert status == 1 and output == f"second_tries.txt, line 2: {said}\n"


def test_a_suite_that_says_nothing_and_fails_is_a_failure_and_its_seed_is_shown(tree):
    tree.suite("tests/crash/prove", 'echo "1 passed, 0 failed"')
    tree.suite("build/tests/crash/crash", 'echo "crash: seed ${SEED:-77}, 60 cycles"; kill -9 $$')
    status, output = tree.run("crash")
    assert status == 1 and "SEED=77" in output
    assert "SEED=12" in tree.run("crash", SEED="12")[1]


def test_a_fuzzer_gets_the_seed_that_is_shown(tree):
    tree.fuzzer("json_fuzz", 'echo "got $1"; exit 1')
    status, output = tree.run("fuzz", SEED="5")
    assert status == 1 and "SEED=5" in output and "got -seed=5" in output


def test_an_input_that_only_valgrind_refuses_fails_the_run(tree):
    tree.fuzzer("json_fuzz", 'for corpus; do :; done; echo x >"$corpus/input"')
    tree.suite("build/fuzz/json_replay", 'exit 99')
    assert tree.run("fuzz")[0] == 1
