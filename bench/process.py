"""A server under measurement: start it, pause it while another one is measured, read what it used, stop it.

Only the process this object started, and what that one started, is ever signalled, by its id."""
import os
import pathlib
import signal
import socket
import subprocess
import time

READY_SECONDS_MAX = 20
STOP_SECONDS_MAX = 20
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """The server did not start, or is gone."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def family(pid):
    """The process and all its descendants."""
    pids = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            pids += family(int(child))
    return pids


def process_cpu_seconds(pid):
    """User and system time of all threads, and of children that have ended."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_SECOND


def process_rss_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Process:
    def __init__(self, name, command, log):
        self.name = name
        self.log = log
        with open(log, "wb") as out:
            self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def wait_ready(self, port, seconds_max=READY_SECONDS_MAX):
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline and self.child.poll() is None:
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.02)
        raise ServerFailed(f"{self.name} did not begin to listen; its output is in {self.log}")

    def cpu_seconds(self):
        return sum(process_cpu_seconds(pid) for pid in family(self.child.pid))

    def rss_mb(self):
        return sum(process_rss_mb(pid) for pid in family(self.child.pid))

    def pause(self):
        self._signal(signal.SIGSTOP)

    def resume(self):
        self._signal(signal.SIGCONT)

    def stop(self):
        """Asks, waits, and only then insists. Under strace the server is the last of the family, and is asked alone:
        strace ends with it."""
        if self.child.poll() is not None:
            return
        self.child.send_signal(signal.SIGCONT)
        os.kill(family(self.child.pid)[-1], signal.SIGTERM)
        try:
            self.child.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def _signal(self, number):
        if self.child.poll() is not None:
            raise ServerFailed(f"{self.name} has ended with status {self.child.returncode}; see {self.log}")
        self.child.send_signal(number)
