"""A receiver of webhooks for tests: it records each message, and answers as a test says: a status, or whatever it writes to the socket itself."""

import http.server
import json
import threading
import time

WAIT_S = 60


def wait_for(what, wait_s=WAIT_S):
    """Polls until it is true, and returns it."""
    end = time.monotonic() + wait_s
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.005)
    return found


class Sink:
    """`answer(event)` returns a status, (status, headers), or None after it has dealt with handler.wfile itself."""

    def __init__(self, port=0, answer=None, tls=None):
        """tls: an ssl.SSLContext, for https."""
        self.answer, self.tls = answer or (lambda event: 204), tls
        self.tries, self.taken = [], []
        self.body = b""  # of every answer
        self.lock = threading.Lock()
        self.open(port)

    def open(self, port=0):
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                event = json.loads(body)
                seen = {"headers": {name.lower(): value for name, value in self.headers.items()}, "body": body, "event": event, "path": self.path}
                with sink.lock:
                    sink.tries.append(seen)
                said = sink.answer(event)
                if said is None:
                    self.close_connection = True
                    return
                status, headers = said if isinstance(said, tuple) else (said, {})
                if status < 300:
                    with sink.lock:
                        sink.taken.append(seen)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(sink.body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(sink.body)

            def log_message(self, *_):
                pass

        class Threads(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        self.server = Threads(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        if self.tls:  # the handshake is in the thread of the connection
            self.server.socket = self.tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def events(self, **like):
        """Those it has taken, in their order, once each."""
        with self.lock:
            taken = list(self.taken)
        known, list_ = set(), []
        for seen in taken:
            event = seen["event"]
            if event["id"] not in known and all(event.get(name) == value for name, value in like.items()):
                known.add(event["id"])
                list_.append(event)
        return list_

    def wait_for(self, count, **like):
        return wait_for(lambda: len(found := self.events(**like)) >= count and found)


def assert_in_order(events):
    """Of each subject, each number once, rising without a gap."""
    last = {}
    for event in events:
        subject, seq = event["subject"], event["seq"]
        assert seq == last.get(subject, seq - 1) + 1, f"{subject}: {seq} after {last.get(subject)}"
        last[subject] = seq
