"""A caller that sends heavy requests as fast as they are answered, as a process of its own.

    heavy.py PORT CONNECTIONS < requests.json

It reads whole HTTP requests (texts) from standard input, one list in a line, prints `ready`, and sends them in turn on each
connection until its standard input ends. Then it prints how often each status was answered, as a line of JSON. It runs only
when nobody else wants the core: what others feel is then the server's doing and not the scheduler's."""

import collections
import json
import os
import selectors
import socket
import sys


class Line:
    def __init__(self, port, requests, first):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.requests, self.turn, self.seen = requests, first, b""
        self.send()

    def send(self):
        self.socket.sendall(self.requests[self.turn % len(self.requests)])
        self.turn += 1

    def read(self):
        """The status of the answer, once it is whole."""
        more = self.socket.recv(1 << 20)
        assert more, "the server closed the connection"
        self.seen += more
        head, found, body = self.seen.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        if not found or len(body) < length:
            return None
        self.seen = b""
        return head.split()[1].decode()


def main(port, connections):
    requests = [text.encode() for text in json.loads(sys.stdin.readline())]
    statuses = collections.Counter()
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with selectors.DefaultSelector() as ready:
        ready.register(sys.stdin, selectors.EVENT_READ)
        for i in range(connections):
            line = Line(port, requests, i)
            ready.register(line.socket, selectors.EVENT_READ, line)
        print("ready", flush=True)
        while True:
            for event, _ in ready.select():
                if event.data is None:
                    print(json.dumps(statuses), flush=True)
                    return
                status = event.data.read()
                if status is not None:
                    statuses[status] += 1
                    event.data.send()


main(int(sys.argv[1]), int(sys.argv[2]))
