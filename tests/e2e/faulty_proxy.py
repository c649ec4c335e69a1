"""A proxy between a server and the DynamoDB endpoint that its tables are at, which does to each request what a test asks for: delays,
drops, resets, truncates, duplicates, throttles, answers garbage, or is gone."""

import http.client
import http.server
import json
import socket
import struct
import threading
import time

# What may be done to a request. `late`: it is forwarded long after its sender gave up.
FAULTS = ("delay", "late", "drop_before", "drop_after", "reset_before", "reset_after", "truncate", "duplicate", "throttle", "unavailable",
          "broken", "garbage")


class Proxy:
    """`choose(target)`, with the operation's name, says what is done to a request: one of FAULTS, or None."""

    def __init__(self, endpoint):
        self.host, self.port = endpoint.split("//")[1].split(":")
        self.choose = lambda target: None
        self.delay_s = 0.05
        self.late_s = 1.0
        self.seen = 0
        self.is_gone = False
        self.lock = threading.Lock()
        self.connections = set()
        self.own = threading.local()
        self.server = None
        self.address = ("127.0.0.1", 0)
        self.back()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.address[1]}"

    def back(self):
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def setup(self):
                super().setup()
                with proxy.lock:
                    proxy.connections.add(self.connection)

            def finish(self):
                with proxy.lock:
                    proxy.connections.discard(self.connection)
                try:
                    super().finish()
                except OSError:
                    pass

            def do_POST(self):
                try:
                    proxy.handle(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *words):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                pass

        self.is_gone = False
        self.server = Server(self.address, Handler)
        self.address = self.server.server_address
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def gone(self):
        """Nobody listens any more, every connection is reset, and what is read from now on is not forwarded."""
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            self.is_gone = True
            held = list(self.connections)
        for connection in held:
            self.reset(connection)

    def stop(self):
        self.gone()

    @staticmethod
    def reset(connection):
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        except OSError:
            pass

    # ---- one request ----

    def forward(self, headers, body):
        """Over a connection of this thread's. One that was closed meanwhile is opened again only if nothing came back."""
        for fresh in (False, True):
            link = getattr(self.own, "link", None)
            if link is None or fresh:
                link = self.own.link = http.client.HTTPConnection(self.host, int(self.port), timeout=30)
                link.connect()
                link.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                link.request("POST", "/", body, headers)
                answer = link.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.BadStatusLine, ConnectionError):
                link.close()
                self.own.link = None
                if fresh:
                    raise

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        headers = {name: value for name, value in request.headers.items() if name.lower() != "connection"}
        target = request.headers.get("x-amz-target", ".").split(".")[1]
        with self.lock:
            self.seen += 1
            fault = "reset_before" if self.is_gone else self.choose(target)
        if fault == "delay":
            time.sleep(self.delay_s)
        if fault == "late":
            threading.Timer(self.late_s, self.quietly, (headers, body)).start()
        if fault in ("late", "drop_before"):
            self.close(request)
        elif fault == "reset_before":
            request.close_connection = True
            self.reset(request.connection)
        elif fault == "throttle":
            self.answer(request, 400, "ProvisionedThroughputExceededException")
        elif fault == "unavailable":
            self.answer(request, 503, "ServiceUnavailable")
        elif fault == "broken":
            self.answer(request, 500, "InternalServerError")
        elif fault == "garbage":  # done, and what is said of it is nothing that DynamoDB says
            self.forward(headers, body)
            self.send(request, 200, [("content-type", "application/x-amz-json-1.0")], b"<html>\x00\xff it works! </html>")
        else:
            status, fields, text = self.forward(headers, body)
            if fault == "duplicate":
                status, fields, text = self.forward(headers, body)
            if fault == "drop_after":
                self.close(request)
            elif fault == "reset_after":
                request.close_connection = True
                self.reset(request.connection)
            elif fault == "truncate":
                self.send(request, status, fields, text, part=len(text) // 2)
            else:
                self.send(request, status, fields, text)

    def quietly(self, headers, body):
        try:
            self.forward(headers, body)
        except OSError:
            pass

    @staticmethod
    def close(request):
        request.close_connection = True
        try:
            request.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def answer(self, request, status, name):
        text = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{name}", "message": "as the test wants it"}).encode()
        self.send(request, status, [("content-type", "application/x-amz-json-1.0")], text)

    def send(self, request, status, fields, text, part=None):
        request.send_response_only(status)
        for name, value in fields:
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                request.send_header(name, value)
        request.send_header("content-length", str(len(text)))
        request.end_headers()
        request.wfile.write(text if part is None else text[:part])
        request.wfile.flush()
        if part is not None:
            self.close(request)
