"""`gatehouse check`: what it says of a sound directory, of a damaged one, on a terminal and without one."""
import os
import pty
import subprocess
from pathlib import Path

import boto3
import pytest

from conftest import line_with_endpoint, program, stop
from test_access import CONFIG, REGION

pytestmark = pytest.mark.gatehouse_only
LARGE = 390 * 1024


def check(data):
    return subprocess.run([program(), "check", "--data", data], text=True, capture_output=True, timeout=120)


def started(data):
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return process, boto3.client("dynamodb", endpoint_url=line_with_endpoint(process), region_name=REGION, config=CONFIG,
                                 aws_access_key_id="a", aws_secret_access_key="b")


def files_of(data):
    return sorted((Path(data) / "store").glob("*.sst"))


def state_of(data):
    return sorted((str(path), path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_ino) for path in Path(data).rglob("*"))


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A data directory with some files, closed in order; with an index and an expiry entry for each of its rows."""
    data = tmp_path_factory.mktemp("check") / "data"
    rows = 0
    while not files_of(data):
        process, client = started(data)
        if rows == 0:
            client.create_table(TableName="large", BillingMode="PAY_PER_REQUEST",
                                AttributeDefinitions=[{"AttributeName": a, "AttributeType": "S"} for a in "pg"],
                                KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                                GlobalSecondaryIndexes=[{"IndexName": "by-g", "Projection": {"ProjectionType": "KEYS_ONLY"},
                                                         "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}]}])
            client.update_time_to_live(TableName="large", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"})
        for _ in range(60):
            client.put_item(TableName="large", Item={"p": {"S": f"{rows}"}, "g": {"S": "x"}, "v": {"S": os.urandom(LARGE // 2).hex()},
                                                     "ttl": {"N": "4000000000"}})
            rows += 1
        stop(process)
    return data, rows


def test_a_sound_directory_is_called_sound_and_left_as_it_is(filled):
    data, rows = filled
    before = state_of(data)
    done = check(data)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert "is sound" in last and f"{rows} rows, {rows} index entries and {rows} expiry entries agree" in last
    lines = done.stderr.splitlines()
    assert lines[0].startswith("blocks   0 %") and any(line.startswith("blocks 100 %") for line in lines)
    assert lines[-1].startswith("rows 100 %") and f"{3 * rows} rows and entries compared" in lines[-1]
    assert len(lines) <= 2 * 11 and "\r" not in done.stderr
    assert state_of(data) == before


def test_a_terminal_is_shown_a_bar(filled):
    data, _ = filled
    ours, theirs = pty.openpty()
    process = subprocess.Popen([program(), "check", "--data", data], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            more = os.read(ours, 4096)
        except OSError:  # how a terminal ends
            break
        if not more:
            break
        seen += more
    os.close(ours)
    assert process.wait(60) == 0 and b"is sound" in process.stdout.read()
    assert b"\rblocks [" in seen and b"#" in seen and b"100 %" in seen and seen.endswith(b"\r\x1b[K")


def test_damage_in_a_file_is_found_and_the_file_named(filled):
    data, _ = filled
    victim = files_of(data)[0]
    good = victim.read_bytes()
    victim.write_bytes(good[:1000] + bytes([good[1000] ^ 4]) + good[1001:])
    try:
        done = check(data)
    finally:
        victim.write_bytes(good)
    assert done.returncode == 1 and done.stdout == ""
    assert victim.name in done.stderr and "checksum" in done.stderr
    assert "DAMAGED: 1 of " in done.stderr.splitlines()[-1]
    assert check(data).returncode == 0


def test_a_directory_that_a_server_has_open_is_not_checked(tmp_path):
    process, _ = started(tmp_path)
    try:
        done = check(tmp_path)
        assert done.returncode == 1 and "could not be checked" in done.stderr and "in use" in done.stderr
    finally:
        stop(process)
    assert check(tmp_path).returncode == 0


def test_what_a_killed_server_left_is_checked_and_left_as_it_is(tmp_path):
    process, client = started(tmp_path)
    try:
        client.create_table(TableName="killed", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
                            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}])
        for number in range(20):
            client.put_item(TableName="killed", Item={"p": {"S": f"{number}"}})
    finally:
        process.kill()
    process.wait()
    before = state_of(tmp_path)
    done = check(tmp_path)
    assert done.returncode == 0 and "20 rows" in done.stdout, done.stderr
    assert state_of(tmp_path) == before


def test_a_directory_that_is_no_data_directory_is_not_touched(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 1 and "could not be checked" in done.stderr and list(tmp_path.iterdir()) == []
