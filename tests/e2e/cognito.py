"""Words for tests of identity providers: Cognito's emulator (cognito-local), and a receiver that stands in for what it lacks."""

import http.server
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import boto3
from botocore.config import Config

from conftest import CREDENTIALS, HERE, START_S, stop
from helpers import free_port

EMULATOR = HERE / "js" / "node_modules" / "cognito-local" / "lib" / "bin" / "start.js"
FUNCTION = "gatehouse-post-confirmation"
PASSWORD = "Correct-horse-1"


STARTS_MAX = 5  # somebody else may take a port that was free


def until(condition, seconds=120):
    """Polls until it is true, and returns that. What takes a moment on an idle machine may take long beside other suites."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it never became so"
        time.sleep(0.02)


def answers(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Cognito:
    """The emulator, with one pool; its trigger calls `lambda_endpoint`."""

    def __init__(self, lambda_endpoint):
        assert EMULATOR.is_file(), f"run `npm ci` in {HERE / 'js'} first"
        self.home = tempfile.mkdtemp(prefix="cognito-local-")
        os.mkdir(f"{self.home}/.cognito")
        self.lambda_endpoint = lambda_endpoint
        self.log = open(f"{self.home}/log", "wb")
        assert any(self.started() for _ in range(STARTS_MAX)), "the emulator does not start"
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.api = boto3.client("cognito-idp", endpoint_url=self.endpoint, region_name="local",
                                config=Config(parameter_validation=False, retries={"total_max_attempts": 1}))
        self.pool = self.api.create_user_pool(PoolName="customers")["UserPool"]["Id"]
        self.client = self.api.create_user_pool_client(UserPoolId=self.pool, ClientName="app")["UserPoolClient"]["ClientId"]

    def started(self):
        self.port = free_port()
        with open(f"{self.home}/.cognito/config.json", "w") as file:
            json.dump({"LambdaClient": {"endpoint": self.lambda_endpoint, "region": "local", "credentials": {"accessKeyId": "local", "secretAccessKey": "local"}},
                       "TriggerFunctions": {"PostConfirmation": FUNCTION}, "UserPoolDefaults": {"UsernameAttributes": []},
                       "TokenConfig": {"IssuerDomain": f"http://localhost:{self.port}"}}, file)  # else its tokens name port 9229, wherever it listens
        self.process = subprocess.Popen(["node", str(EMULATOR)], cwd=self.home, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **CREDENTIALS, "PORT": str(self.port), "HOST": "127.0.0.1", "CODE": "9999"})
        until(lambda: self.process.poll() is not None or answers(self.port), START_S)
        return self.process.poll() is None

    def sign_up(self, name, email, **attributes):
        """Signs up and confirms, as a person does; the trigger runs in there. Returns the sub."""
        listed = [{"Name": "email", "Value": email}, {"Name": "email_verified", "Value": "true"},
                  *({"Name": key, "Value": value} for key, value in attributes.items())]
        sub = self.api.sign_up(ClientId=self.client, Username=name, Password=PASSWORD, UserAttributes=listed)["UserSub"]
        self.api.confirm_sign_up(ClientId=self.client, Username=name, ConfirmationCode="9999")
        return sub

    def close(self):
        stop(self.process)
        self.log.close()
        shutil.rmtree(self.home, ignore_errors=True)


class Receiver:
    """Stands in for a pool of Cognito's, where the emulator is lacking: pages with a Limit, every UserStatus, and AdminUserGlobalSignOut. It can be
    down, and it can be wrong: `nasty` is None, "nobody" (it knows nobody), "half" (it knows every second user), "list half" (only its list leaves
    them out), "duplicates" (each user twice on a page), "page twice" (each page twice, under another token) or "circle" (pages without an end)."""

    def __init__(self):
        self.users = {}  # by name: {"sub": …, "email": …}
        self.calls = []  # (operation, body, headers)
        self.signed_out = []
        self.failing = 0  # so many calls fail; -1: all
        self.nasty = None
        self.standing = {}  # by name: (UserStatus, Enabled); others are CONFIRMED and enabled
        self.modified = {}  # by name: UserLastModifiedDate
        self.sign_out_s = 0  # how long one takes
        self.lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if outer.sign_out_s and self.headers["X-Amz-Target"].endswith("SignOut"):
                    time.sleep(outer.sign_out_s)
                status, answer = outer.answer(self.headers["X-Amz-Target"].split(".")[1], body, dict(self.headers))
                raw = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def add(self, count, prefix="user"):
        for i in range(count):
            sub = f"{prefix}-{i:05d}"
            self.users[f"name-{sub}"] = {"sub": sub, "email": f"{sub}@example.org", "email_verified": "true", "given_name": f"N{i}"}

    def record(self, name, attributes):
        status, enabled = self.standing.get(name, ("CONFIRMED", True))
        return {"Username": name, attributes: [{"Name": n, "Value": v} for n, v in self.users[name].items()], "UserStatus": status,
                "Enabled": enabled, "UserCreateDate": 1700000000.0, "UserLastModifiedDate": self.modified.get(name, 1700000000.123)}

    def change(self, name, **attributes):
        """As somebody changes a user there; None: the attribute goes."""
        for key, value in attributes.items():
            self.users[name].pop(key, None)
            if value is not None:
                self.users[name][key] = value
        self.modified[name] = self.modified.get(name, 1700000000.123) + 1

    def list_users(self, body):
        known = sorted(self.users)
        if self.nasty in ("nobody", "half", "list half"):
            known = [] if self.nasty == "nobody" else known[::2]
        first, turn = (int(part) for part in body.get("PaginationToken", "0.0").split("."))
        names = known[first : first + body["Limit"]]
        after, turn = (first, 1) if self.nasty == "page twice" and turn == 0 else (first + len(names), 0)
        token = f"{after}.{turn}" if after < len(known) else "0.0" if self.nasty == "circle" else None
        if self.nasty == "duplicates":
            names = [n for n in names for _ in range(2)]
        return {"Users": [self.record(n, "Attributes") for n in names], **({"PaginationToken": token} if token else {})}

    def knows(self, name):
        return name in self.users and self.nasty != "nobody" and not (self.nasty == "half" and sorted(self.users).index(name) % 2)

    def answer(self, operation, body, headers):
        with self.lock:
            self.calls.append((operation, body, headers))
            if self.failing:
                self.failing -= self.failing > 0
                return 500, {"__type": "InternalErrorException", "message": "down"}
            if operation == "ListUsers":
                assert 1 <= body["Limit"] <= 60
                return 200, self.list_users(body)
            if not self.knows(body["Username"]):
                return 400, {"__type": "UserNotFoundException", "message": "User does not exist."}
            if operation == "AdminGetUser":
                return 200, self.record(body["Username"], "UserAttributes")
            assert operation == "AdminUserGlobalSignOut"
            self.signed_out.append(body["Username"])
            return 200, {}

    def count(self, operation):
        with self.lock:
            return len([1 for name, _, _ in self.calls if name == operation])

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def identity_file(path, endpoint, pool="local_1", **more):
    """An identity file with one pool, called `customers`."""
    settings = {"pool": pool, "name": "customers", "region": "local", "endpoint": endpoint, "allow_private": True, "reconcile": 0, **more}
    lines = "\n".join(f"      {name}: {json.dumps(value)}" for name, value in settings.items())
    path.write_text(f"providers:\n  pools:\n    -\n{lines}\n")
    return str(path)
