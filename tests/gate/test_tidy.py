"""tools/tidy, in a small tree of its own: which files it runs clang-tidy on, and which it trusts to be clean."""

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

HEADER = "int sum(int a, int b);\n"
CLEAN = """\
#include <assert.h>
#include <errno.h>
#include "sum.h"

int sum(int a, int b)
{
\tassert(a != EINTR);
\treturn a + b;
}
"""
FAULTY = "int first(int empty);\n\nint first(int empty)\n{\n\tint *p = 0;\n\n\treturn empty ? 0 : *p;\n}\n"


class Tree:
    def __init__(self, root):
        self.root = root
        (root / "tools").mkdir()
        shutil.copy(ROOT / "tools/tidy", root / "tools/tidy")
        shutil.copy(ROOT / ".clang-tidy", root / ".clang-tidy")
        self.write("src/sum.h", HEADER)
        self.write("src/sum.c", CLEAN)

    def write(self, path, text):
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(text)

    def replace(self, path, old, new):
        text = (self.root / path).read_text()
        assert old in text
        self.write(path, text.replace(old, new, 1))

    def tidy(self, mode):
        return subprocess.run([self.root / "tools/tidy", mode], capture_output=True, text=True, timeout=300)

    def checked(self):
        """How many files --check ran, all of them clean."""
        done = self.tidy("--check")
        assert done.returncode == 0, done.stdout + done.stderr
        return int(re.search(r"(\d+) files checked", done.stdout).group(1))

    def listed(self):
        return [line.split()[0] for line in (self.root / "tools/tidy.clean").read_text().splitlines()]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


@pytest.fixture
def clean(tree):
    done = tree.tidy("--update")
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


def test_a_clean_file_on_the_list_is_not_run_again(tree):
    assert tree.checked() == 1
    assert tree.checked() == 1  # --check lists nothing
    assert tree.tidy("--update").returncode == 0
    assert tree.listed() == ["src/sum.c"]
    assert tree.checked() == 0


def test_a_fault_is_found_and_its_file_is_not_listed(clean):
    clean.write("src/fault.c", FAULTY)
    for mode in ("--check", "--update", "--all", "--check"):
        done = clean.tidy(mode)
        assert done.returncode == 1
        assert "src/fault.c:7" in done.stdout and "clang-analyzer-core.NullDereference" in done.stdout
        assert "1 with findings" in done.stdout
        assert clean.listed() == ["src/sum.c"]


def test_a_file_that_does_not_compile_is_a_finding(clean):
    clean.write("src/broken.c", '#include "absent.h"\n')
    done = clean.tidy("--update")
    assert done.returncode == 1 and "absent.h" in done.stdout
    assert clean.listed() == ["src/sum.c"]


@pytest.mark.parametrize("path, old, new", [
    ("src/sum.h", "int sum", "int product(int a, int b);\nint sum"),
    ("src/sum.c", "a + b", "b + a"),
    ("src/sum.c", "EINTR", "EAGAIN"),
    (".clang-tidy", "clang-analyzer-*", "clang-analyzer-*,-bugprone-branch-clone"),
])
def test_a_change_of_a_file_its_header_or_the_configuration_makes_it_run_again(clean, path, old, new):
    clean.replace(path, old, new)
    assert clean.checked() == 1
    assert clean.tidy("--update").returncode == 0
    assert clean.listed() == ["src/sum.c"]
    assert clean.checked() == 0


def test_comments_and_blank_space_do_not(clean):
    clean.replace("src/sum.h", "int sum", "/* Adds. */\n\nint sum")
    clean.replace("src/sum.c", "#include", "/* Moves the assertion\n * down. */\n\n#include")
    clean.replace("src/sum.c", "(int a,", "(/* at least 0 */ int a, ")
    clean.replace(".clang-tidy", "# ", "# A reason.\n# ")
    assert clean.checked() == 0


def test_text_of_system_headers_does_not_count():
    loader = importlib.machinery.SourceFileLoader("tidy", str(ROOT / "tools/tidy"))
    tidy = importlib.util.module_from_spec(importlib.util.spec_from_loader("tidy", loader))
    loader.exec_module(tidy)
    text = b'# 1 "src/a.c"\nint a;\n# 1 "/usr/include/x.h" 1 3 4\nint x;\n# 2 "src/a.c" 2\nint b;\n'
    assert tidy.own_text(text) == tidy.own_text(text.replace(b"int x;", b"long y;")) == b"int a;int b;"
    assert tidy.own_text(b"a - -b") != tidy.own_text(b"a -- b")


def test_a_file_that_is_gone_leaves_the_list(clean):
    clean.write("client/other.c", CLEAN.replace('#include "sum.h"', HEADER))
    assert clean.tidy("--update").returncode == 0
    assert clean.listed() == ["client/other.c", "src/sum.c"]
    (clean.root / "client/other.c").unlink()
    assert clean.tidy("--update").returncode == 0
    assert clean.listed() == ["src/sum.c"]


def test_a_list_with_the_lines_of_two_branches_serves_both(clean):
    ours = (clean.root / "tools/tidy.clean").read_text()
    theirs = re.sub(r"\w+$", "0" * 32, ours)
    clean.write("tools/tidy.clean", f"<<<<<<< HEAD\n{theirs}=======\n{ours}>>>>>>> theirs\n")
    assert clean.checked() == 0
    assert clean.tidy("--update").returncode == 0
    assert (clean.root / "tools/tidy.clean").read_text() == ours


def test_too_many_files_that_are_not_listed_are_refused_at_once(clean):
    for i in range(41):
        clean.write(f"src/many{i}.c", FAULTY)
    done = clean.tidy("--check")
    assert done.returncode == 1
    assert done.stderr == "clang-tidy: 41 files are not on the list: run tools/tidy --update\n"
    assert done.stdout == ""


def test_each_check_that_is_off_has_a_reason():
    text = (ROOT / ".clang-tidy").read_text()
    off = re.findall(r"^  -([\w.-]+),?$", text, re.M)
    reasons = re.findall(r"^# ([\w.-]+)\n#   \w", text, re.M)
    assert off and off == reasons
