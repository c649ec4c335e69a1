"""Files beside the data: a server does not start, and `gatehouse check` names the file, when one is damaged, changed by hand,
another directory's or gone. A directory of an older program is sealed once."""
import json
import os
import shutil
import stat
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import line_with_endpoint, program, stop

pytestmark = pytest.mark.gatehouse_only
SEALED = ("identifiers.key", "keys.json", "devices.key")


def run(*words):
    return subprocess.run([program(), *words], text=True, capture_output=True, timeout=120)


def start(data, *words):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", str(data), *words], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    return process, line_with_endpoint(process)


def start_and_stop(data, *words):
    process, _ = start(data, *words)
    stop(process)


def assert_refused(data, *words):
    """Start and check both say these words; neither changes anything."""
    before = {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file() and path.name != "ballast"}
    for command in (("serve", "--listen", "127.0.0.1:0", "--data", str(data)), ("check", "--data", str(data))):
        done = run(*command)
        assert done.returncode == 1, done
        for word in words:
            assert word in done.stderr, done.stderr
    for path, content in before.items():
        if path.parent.name not in ("store", "journal") and path.name != "audit.log":
            assert path.read_bytes() == content


@pytest.fixture()
def data(tmp_path):
    directory = tmp_path / "data"
    process, url = start(directory, "--no-auth")
    body = {"subject": {"email": "ann@example.org"}, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/attempts", json.dumps(body).encode())) as reply:
        assert reply.status == 200
    stop(process)
    start_and_stop(directory)  # makes keys.json
    return directory


@pytest.mark.parametrize("name", SEALED)
def test_a_flipped_bit_keeps_a_server_from_starting_and_is_named(data, name):
    good = (data / name).read_bytes()
    for at in (0, len(good) // 2, len(good) - 1):
        (data / name).write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        assert_refused(data, name, "Restore it from a backup")
    (data / name).write_bytes(good)
    assert run("check", "--data", str(data)).returncode == 0
    start_and_stop(data)


@pytest.mark.parametrize("name", SEALED)
def test_a_file_that_is_gone_is_not_made_again_beside_data(data, name):
    (data / name).rename(data / "away")
    assert_refused(data, name, "is missing", "Restore it from a backup")
    assert not (data / name).exists()


@pytest.mark.parametrize("name", SEALED)
def test_a_file_of_another_directory_is_refused(data, tmp_path, name):
    start_and_stop(tmp_path / "other")
    shutil.copy(tmp_path / "other" / name, data / name)
    assert_refused(data, name, "belongs to another data directory")


def test_keys_that_were_edited_by_hand_are_refused_until_they_are_sealed(data):
    keys = json.loads((data / "keys.json").read_text())
    keys["keys"][0]["max_connections"] = 7
    (data / "keys.json").write_text(json.dumps(keys, indent=2))
    assert_refused(data, "keys.json", "gatehouse key seal")
    assert run("key", "create", "more", "--policy", os.devnull, "--data", str(data)).returncode != 0
    done = run("key", "seal", "--data", str(data))
    assert done.returncode == 0 and "1 keys" in done.stdout, done
    assert "key.seal" in (data / "audit.log").read_text()
    start_and_stop(data)
    assert " 7 " in run("key", "list", "--data", str(data)).stdout


@pytest.mark.parametrize("gone", [("store",), ("journal",), ("store", "journal")])
def test_data_that_is_gone_is_not_taken_for_an_empty_directory(data, gone):
    for name in gone:
        shutil.rmtree(data / name)
    assert_refused(data, gone[0], "missing")
    assert not (data / gone[0]).exists() or gone == ("journal",)


def test_a_store_whose_files_are_gone_is_not_made_anew(data):
    for path in (data / "store").iterdir():
        path.unlink()
    assert_refused(data, "store/CURRENT is missing")


def unseal(data):
    """What the last program before seals would have left."""
    (data / "FORMAT").write_text("gatehouse 2\n")
    (data / "devices.key").unlink()  # it had none
    key = (data / "identifiers.key").read_bytes()
    (data / "identifiers.key").write_bytes(key[:32])
    keys = json.loads((data / "keys.json").read_text())
    del keys["seal"]
    (data / "keys.json").write_text(json.dumps(keys) + "\n")


def test_a_directory_of_an_older_program_is_sealed_once(data):
    key = (data / "identifiers.key").read_bytes()[:32]
    unseal(data)
    plain = (data / "keys.json").read_bytes()
    start_and_stop(data)
    assert (data / "identifiers.key").read_bytes()[:32] == key and len((data / "identifiers.key").read_bytes()) > 32
    assert "seal" in json.loads((data / "keys.json").read_text())
    assert run("check", "--data", str(data)).returncode == 0
    (data / "keys.json").write_bytes(plain)
    assert_refused(data, "keys.json", "has no seal")


def test_nothing_in_the_directory_can_be_read_by_others(data):
    for path in [data / "store", *(data / "store").iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)  # as older programs left them
    start_and_stop(data)
    for path in data.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
