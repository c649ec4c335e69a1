"""The few Redis commands that check the counters afterwards. There is nothing to prepare: a key is made when it is set."""
import socket

from scenarios import COUNTER

CALL_SECONDS_MAX = 30
KEYS_AT_ONCE = 1000


class CallFailed(Exception):
    pass


def values(port, keys):
    """The values of all these keys, None where there is none."""
    words = ["MGET", *keys]
    request = f"*{len(words)}\r\n" + "".join(f"${len(w)}\r\n{w}\r\n" for w in words)
    with socket.create_connection(("127.0.0.1", port), timeout=CALL_SECONDS_MAX) as s, s.makefile("rb") as answer:
        s.sendall(request.encode())
        if (head := answer.readline()) != b"*%d\r\n" % len(keys):
            raise CallFailed(f"MGET: {head.decode(errors='replace').strip()}")
        return [value(answer) for _ in keys]


def value(answer):
    length = int(answer.readline()[1:])
    return None if length < 0 else answer.read(length + 2)[:length]


def prepare(_port, _key):
    """True: the server keeps times to live."""
    return True


def sum_counts(port, _key, rows):
    names = [COUNTER.replace("%d", f"{number:08}") for number in range(rows)]
    parts = (names[at:at + KEYS_AT_ONCE] for at in range(0, rows, KEYS_AT_ONCE))
    return sum(int(v or 0) for part in parts for v in values(port, part))
