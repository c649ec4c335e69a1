"""A stand-in for Expo's push API: it takes messages, gives tickets and receipts, and fails as it is told."""
import gzip
import json
import socket
import struct
import threading
import time
from collections import Counter, deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Expo:
    """`plan`: what the next calls of `send` get, in order; after that all are answered well. A step is a name below, or a function of
    the recipients that returns (status, body, headers).

    `delivered` counts what was accepted, by token: what a phone would show."""

    def __init__(self, plan=(), token=None):
        self.token = token
        self.lock = threading.Lock()
        self.stall = threading.Event()
        self.connections = set()
        self.reset_all(plan)
        expo = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    raw = gzip.decompress(raw)
                expo.handle(self, json.loads(raw))

            def log_message(self, *_):
                pass

        class Listener(ThreadingHTTPServer):
            daemon_threads = True

            def process_request(self, request, client_address):
                expo.connections.add(request)
                super().process_request(request, client_address)

            def shutdown_request(self, request):
                expo.connections.discard(request)
                super().shutdown_request(request)

            def handle_error(self, *_):
                pass  # the peer was killed

        self.make = lambda port: Listener(("127.0.0.1", port), Handler)
        self.listen(0)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def reset_all(self, plan=()):
        """As if nothing had been sent yet."""
        self.plan = deque(plan)
        self.requests = []  # (path, headers, body)
        self.keep = True
        self.delivered = Counter()
        self.dead = set()  # tokens: an error in the ticket
        self.dead_later = set()  # tokens: an error in the receipt
        self.limited = Counter()  # token: how often it is told MessageRateExceeded
        self.limited_later = Counter()  # … in its receipt
        self.weather = None  # a step that every call of `send` gets until this is None again, before the plan
        self.stalls = set()  # tokens whose calls are accepted and never answered
        self.projects = {}  # token: project
        self.bad = set()  # tokens that have the whole request refused
        self.receipts = {}  # id: token
        self.not_ready = set()  # tokens without a receipt
        self.calls = 0
        self.times = []  # (when, how many messages) of each call
        self.steps = Counter()

    # ---- life and death

    def listen(self, port):
        self.http = self.make(port)
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def die(self):
        """Nobody listens any more, and connections end: calls under way get no answer."""
        self.http.shutdown()
        self.http.server_close()
        for connection in list(self.connections):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended by itself

    def revive(self):
        self.listen(int(self.url.rsplit(":", 1)[1]))

    def close(self):
        self.stall.set()
        self.http.shutdown()
        self.http.server_close()

    # ---- answers

    @staticmethod
    def reply(handler, status, body, headers=()):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        handler.send_response(status)
        for name, value in dict(headers).items():
            handler.send_header(name, value)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    @staticmethod
    def reset(handler):
        """The connection ends with RST, as of a machine that dies."""
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.close_connection = True
        handler.connection.close()

    def handle(self, handler, body):
        with self.lock:
            if self.keep:
                self.requests.append((handler.path, dict(handler.headers), body))
        if self.token is not None and handler.headers.get("Authorization") != f"Bearer {self.token}":
            return self.reply(handler, 401, {"errors": [{"code": "UNAUTHORIZED", "message": "insufficient permissions"}]})
        try:
            if handler.path == "/--/api/v2/push/send":
                self.send(handler, body)
            elif handler.path == "/--/api/v2/push/getReceipts":
                self.get_receipts(handler, body)
            else:
                self.reply(handler, 404, {})
        except OSError:
            pass  # the peer was killed
        return None

    def send(self, handler, body):
        tokens = [to for message in (body if isinstance(body, list) else [body])
                  for to in (message["to"] if isinstance(message["to"], list) else [message["to"]])]
        with self.lock:
            self.calls += 1
            self.times.append((time.monotonic(), len(tokens)))
            step = self.weather or (self.plan.popleft() if self.plan else "answer")
            if self.stalls & set(tokens):
                step = "accepted_then_stalls"
            self.steps[step if isinstance(step, str) else "function"] += 1
        if callable(step):
            return self.reply(handler, *step(tokens))
        return getattr(self, step)(handler, tokens, body)

    def answer(self, handler, tokens, body):
        refused = self.refusal(tokens)
        if refused is not None:
            return self.reply(handler, 400, refused)
        tickets = self.accept(tokens)
        return self.reply(handler, 200, {"data": tickets if isinstance(body, list) else tickets[0]})

    def refusal(self, tokens):
        if len(tokens) > 100:
            return {"errors": [{"code": "PUSH_TOO_MANY_NOTIFICATIONS", "message": "too many"}]}
        if self.bad & set(tokens):
            return {"errors": [{"code": "VALIDATION_ERROR", "message": "not a token"}]}
        projects = {}
        for token in tokens:
            projects.setdefault(self.projects.get(token, "@one/app"), []).append(token)
        if len(projects) > 1:
            return {"errors": [{"code": "PUSH_TOO_MANY_EXPERIENCE_IDS", "message": "several projects", "details": projects}]}
        return None

    def accept(self, tokens):
        with self.lock:
            return [self.ticket(token) for token in tokens]

    def ticket(self, token):
        if token in self.dead:
            return {"status": "error", "message": "not registered", "details": {"error": "DeviceNotRegistered"}}
        if self.limited[token] > 0:
            self.limited[token] -= 1
            return {"status": "error", "message": "slower", "details": {"error": "MessageRateExceeded"}}
        self.delivered[token] += 1
        ticket = f"ticket-{len(self.receipts)}"
        self.receipts[ticket] = token
        return {"status": "ok", "id": ticket}

    def get_receipts(self, handler, body):
        found = {ticket: self.receipt(self.receipts[ticket]) for ticket in body["ids"]
                 if ticket in self.receipts and self.receipts[ticket] not in self.not_ready}
        self.reply(handler, 200, {"data": found})

    def receipt(self, token):
        if token in self.dead_later:
            return {"status": "error", "message": "gone", "details": {"error": "DeviceNotRegistered"}}
        if self.limited_later[token] > 0:
            self.limited_later[token] -= 1
            return {"status": "error", "message": "slower", "details": {"error": "MessageRateExceeded"}}
        return {"status": "ok"}

    # ---- steps of a plan

    def throttle(self, handler, _tokens, _body):
        self.reply(handler, 429, {"errors": [{"code": "TOO_MANY_REQUESTS", "message": "slower"}]}, {"Retry-After": "1"})

    def broken(self, handler, _tokens, _body):
        self.reply(handler, 503, b"<html>")

    def gateway(self, handler, _tokens, _body):
        """A gateway that reaches nobody; the caller cannot know."""
        self.reply(handler, 502, b"<html>")

    def accepted_then_reset(self, handler, tokens, _body):
        self.accept(tokens)
        self.reset(handler)

    def lost(self, handler, _tokens, _body):
        self.reset(handler)

    def accepted_then_gateway(self, handler, tokens, _body):
        self.accept(tokens)
        self.reply(handler, 504, b"<html>")

    def nonsense(self, handler, tokens, _body):
        self.accept(tokens)
        self.reply(handler, 200, b'{"data": [{"status": "o')

    def accepted_then_stalls(self, handler, tokens, _body):
        """Longer than any call may take; unless the test is over."""
        self.accept(tokens)
        self.stall.wait(120)
        self.reset(handler)
