"""A proxy in front of a DynamoDB endpoint: it passes everything on and remembers what was asked. Used by test_engine_requests.py and bench/remote."""

import http.client
import http.server
import threading


class Counting(http.server.ThreadingHTTPServer):
    """Passes everything on, and remembers each operation with its body."""

    daemon_threads = True
    request_queue_size = 256  # a server has 64 connections, and may open them all at once

    def __init__(self, target):
        super().__init__(("127.0.0.1", 0), Passing)
        self.target, self.seen, self.lock = target, [], threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self):
        with self.lock:
            seen, self.seen = self.seen, []
        return seen


class Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # head and body in one packet: else each answer waits for an acknowledgement

    def setup(self):
        super().setup()
        self.there = http.client.HTTPConnection(self.server.target, timeout=30)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.seen.append((self.headers["X-Amz-Target"].split(".")[1], body.decode()))
        self.there.request("POST", "/", body, dict(self.headers))
        answer = self.there.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type"))
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass
