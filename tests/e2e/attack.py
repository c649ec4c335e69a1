"""An attacker of its own, as a process: many slow connections and a bounded flood of malformed requests.

    attack.py PORT CONNECTIONS FLOOD_PER_S < requests.json

It reads what to send from standard input, opens all slow connections, prints `ready`, and goes on until its standard input
ends; then it prints what it did as a line of JSON. It is as unfriendly as it can be to the server and as friendly as it can be
to the machine (lowest priority, bounded rates): what good clients feel is then the server's doing and not the scheduler's.

The slow ones, a third each: a head that comes a byte at a time, a body of which half comes, answers that are never read."""

import json
import os
import resource
import select
import socket
import sys
import time

TICK_S = 0.05
BYTE_EVERY_S = 1.0      # of each connection that sends its head byte by byte
SMALL_WINDOW = 4096     # bytes of answers that the kernel may keep for those who do not read
FLOOD_OPEN_MAX = 64     # exchanges of the flood under way at once


def connect(port, window=None):
    s = socket.socket()
    if window:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    s.settimeout(30)
    s.connect(("127.0.0.1", port))
    s.setblocking(False)
    return s


def send(s, data):
    """What a peer sends to a server that may have had enough of it; how much was taken."""
    try:
        return s.send(data)
    except OSError:
        return 0


class Trickle:
    """Heads a byte at a time, each connection once in BYTE_EVERY_S, spread evenly."""

    def __init__(self, peers, text):
        self.peers, self.text, self.turn, self.due = peers, text, 0, 0.0

    def tick(self):
        self.due = min(self.due + len(self.peers) * TICK_S / BYTE_EVERY_S, len(self.peers))
        while self.due >= 1:
            at = self.turn // len(self.peers) % len(self.text)
            send(self.peers[self.turn % len(self.peers)], self.text[at:at + 1])
            self.turn, self.due = self.turn + 1, self.due - 1


class Flood:
    """Malformed requests, so many a second, each on a connection of its own; counts the answers."""

    def __init__(self, port, texts, per_s):
        self.port, self.texts, self.per_s = port, texts, per_s
        self.open, self.poll, self.due, self.sent, self.answered = {}, select.poll(), 0.0, 0, 0

    def begin(self):
        s = connect(self.port)
        send(s, self.texts[self.sent % len(self.texts)])
        self.open[s.fileno()] = s
        self.poll.register(s, select.POLLIN)
        self.sent += 1

    def end(self, fd):
        s = self.open.pop(fd)
        self.poll.unregister(fd)
        try:
            self.answered += s.recv(65536).startswith(b"HTTP/1.1 ")
        except OSError:
            pass
        s.close()

    def tick(self):
        for fd, _ in self.poll.poll(0):
            self.end(fd)
        self.due = min(self.due + self.per_s * TICK_S, FLOOD_OPEN_MAX)
        while self.due >= 1 and len(self.open) < FLOOD_OPEN_MAX:
            self.begin()
            self.due -= 1


def told_to_stop():
    return bool(select.select([sys.stdin], [], [], TICK_S)[0])


def main():
    port, count, per_s = (int(word) for word in sys.argv[1:])
    given = {name: [text.encode("latin-1") for text in texts] for name, texts in json.loads(sys.stdin.readline()).items()}
    os.nice(19)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    slow_heads = [connect(port) for _ in range(count // 3)]
    half_bodies = [connect(port) for _ in range(count // 3)]
    deaf = [connect(port, SMALL_WINDOW) for _ in range(count - 2 * (count // 3))]
    for s in half_bodies:
        send(s, given["half"][0])
    for s in deaf:
        send(s, given["large"][0])
    trickle, flood = Trickle(slow_heads, given["head"][0]), Flood(port, given["malformed"], per_s)
    print("ready", flush=True)
    began = time.monotonic()
    while not told_to_stop():
        trickle.tick()
        flood.tick()
    print(json.dumps({"seconds": time.monotonic() - began, "flood_sent": flood.sent, "flood_answered": flood.answered}), flush=True)


main()
