"""What a server really does before it answers a write: its flushes and the bytes it writes, seen by strace.

One client sends a few updates, one after the other; every flush in that time is counted. A server that flushes less
than once a write has answered writes that a power cut would take back."""
import dataclasses
import re
import shutil

FLUSH = re.compile(r"\b(?:fsync|fdatasync|sync_file_range|msync)\((?:\d+<([^>]*)>)?")
WRITE = re.compile(r"\bp?write(?:64)?\(\d+<(/[^>]*)>, [^,]*, (\d+)")
WRITEV = re.compile(r"\bp?writev2?\(\d+<(/[^>]*)>")
VECTOR = re.compile(r"iov_len=(\d+)")
SYNC_OPEN = re.compile(r"\bopenat\(.*O_D?SYNC")
CALLS = "fsync,fdatasync,sync_file_range,msync,write,pwrite64,writev,pwritev,pwritev2,openat"


@dataclasses.dataclass(frozen=True)
class Durability:
    flushes: float | None   # a write; None: not known
    bytes: float | None     # written to files, a write

    def __str__(self):
        if self.flushes is None:
            return "not checked (strace is not installed)"
        if self.flushes >= 1:
            return f"durable when answered: {self.flushes:.2f} flushes and {self.bytes:.0f} bytes a write"
        if self.flushes > 0:
            return f"NOT durable when answered: {self.flushes:.2f} flushes a write"
        return "NOT durable when answered: no flush at all"


UNKNOWN = Durability(None, None)


def available():
    return shutil.which("strace") is not None


def traced(command, trace):
    return ["strace", "-f", "-y", "-s", "0", "-e", f"trace={CALLS}", "-e", "signal=none",
            "-o", str(trace), *command]


def written(line, data):
    """Bytes this line writes to a file under the data path."""
    if (m := WRITE.search(line)) and m[1].startswith(data):
        return int(m[2])
    if (m := WRITEV.search(line)) and m[1].startswith(data):
        return sum(int(n) for n in VECTOR.findall(line))
    return 0


def judge(trace_before, trace_after, data, writes):
    """trace_before: what was traced until the first of the writes; trace_after: during them."""
    flushes = sum(1 for line in trace_after.splitlines() if FLUSH.search(line))
    total = sum(written(line, str(data)) for line in trace_after.splitlines())
    if any(str(data) in line for line in trace_before.splitlines() if SYNC_OPEN.search(line)):
        flushes += writes   # each write flushes itself
    return Durability(flushes / writes, total / writes)
