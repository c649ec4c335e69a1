"""A disk that fills up under a real server, on small file systems of its own: writes are refused, reads go on, nothing ends the
process, and it writes again without help once there is room; also if it was started on a disk without a byte left."""

import json
import os
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import line_with_endpoint, program, stop

pytestmark = pytest.mark.gatehouse_only

DISK_MB = 256
PATIENCE_S = 30
TABLE = {"TableName": "things", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
         "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def mount(kind, where):
    if kind == "tmpfs":
        return run("mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", where / "disk")
    image = where / "image"
    with open(image, "wb") as file:
        file.truncate(DISK_MB << 20)
    made = run("mkfs.ext4", "-q", "-m", "0", image)
    return made if made.returncode != 0 else run("mount", "-o", "loop", image, where / "disk")


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request, tmp_path):
    (tmp_path / "disk").mkdir()
    if not shutil.which("mkfs.ext4") and request.param == "ext4":
        pytest.skip("there is no mkfs.ext4")
    done = mount(request.param, tmp_path)
    if done.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield tmp_path / "disk"
    finally:
        assert run("umount", tmp_path / "disk").returncode == 0


class Server:
    def __init__(self, disk):
        self.disk = disk
        self.start("127.0.0.1:0")

    def start(self, listen=None):
        command = [program(), "serve", "--no-auth", "--listen", listen or self.url.split("//")[1], "--data", str(self.disk / "data")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.url = line_with_endpoint(self.process).rstrip("/")

    def call(self, operation, **body):
        """The status and the answer; 0 while nobody answers."""
        headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}", "Content-Type": "application/x-amz-json-1.0"}
        request = urllib.request.Request(self.url + "/", json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def put(self, number):
        return self.call("PutItem", TableName="things", Item={"p": {"S": str(number)}, "pad": {"S": "x" * 10000}})[0]

    def count(self):
        status, answer = self.call("Scan", TableName="things", Select="COUNT")
        assert status == 200, answer
        return answer["Count"]

    def has(self, number):
        status, answer = self.call("GetItem", TableName="things", Key={"p": {"S": str(number)}})
        assert status == 200, answer
        return "Item" in answer


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.05)


def use_up(disk, leave=0):
    """Another program's file takes all room but so much."""
    room = os.statvfs(disk)
    with open(disk / "other", "ab") as file:
        size = room.f_bavail * room.f_frsize - leave
        chunk = 1 << 20
        while size > 0 and chunk > 0:
            try:
                size -= os.write(file.fileno(), b"\1" * min(chunk, size))
            except OSError:
                chunk //= 2


def test_writes_are_refused_reads_go_on_and_it_recovers_without_help(disk):
    server = Server(disk)
    try:
        assert server.call("CreateTable", **TABLE)[0] == 200
        assert all(server.put(number) == 200 for number in range(100))
        use_up(disk, leave=32 << 20)
        until(lambda: server.put(100) == 503)
        use_up(disk)  # not a byte
        assert server.put(101) == 503 and server.has(7) and server.count() >= 100
        (disk / "other").unlink()
        until(lambda: server.put(102) == 200)
        assert server.has(102) and server.process.poll() is None
    finally:
        stop(server.process)
    assert server.process.returncode == 0


def test_a_start_without_a_byte_of_room_reads_and_recovers_without_help(disk):
    server = Server(disk)
    try:
        assert server.call("CreateTable", **TABLE)[0] == 200
        assert all(server.put(number) == 200 for number in range(100))
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        (disk / "data" / "ballast").unlink(missing_ok=True)
        use_up(disk)
        server.start()
        assert server.put(100) == 503 and server.count() == 100 and server.has(7)
        (disk / "other").unlink()
        until(lambda: server.put(101) == 200)
        assert server.count() == 101
        assert run(program(), "check", "--data", disk / "data").returncode == 1  # it is open: the same process went on
    finally:
        stop(server.process)
    assert server.process.returncode == 0
    assert run(program(), "check", "--data", disk / "data").returncode == 0


def test_a_start_with_nothing_but_the_ballast_reads_and_a_stop_on_a_full_disk_is_in_order(disk):
    server = Server(disk)
    try:
        assert server.call("CreateTable", **TABLE)[0] == 200
        assert all(server.put(number) == 200 for number in range(100))
        until((disk / "data" / "ballast").exists)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        use_up(disk)
        server.start()
        assert not (disk / "data" / "ballast").exists()
        assert server.put(100) == 503 or server.put(100) == 503
        assert server.count() == 100
        use_up(disk)
    finally:
        stop(server.process)
    assert server.process.returncode == 0
    (disk / "other").unlink()
    assert run(program(), "check", "--data", disk / "data").returncode == 0
