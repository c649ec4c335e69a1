"""Limits for proxies: /v1/authz itself, behind a real nginx with the example configuration, and as Envoy would call it."""
import http.client
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from conftest import ROOT, stop
from helpers import free_port
from issuer import Issuer
from limited import Limited, fresh

pytestmark = pytest.mark.gatehouse_only

POLICIES = """
limits:
  login-ip: {limit: 3, per: day}
  memory: {limit: 3, per: day}
  table: {limit: 3, per: day, engine: table}
"""


@pytest.fixture(scope="module")
def server():
    made = Limited(POLICIES)
    yield made
    made.close()


# ---- the route ----


@pytest.mark.parametrize("policy", ["memory", "table"])
def test_authz_says_yes_and_no_by_status(server, policy):
    headers = {"X-Gatehouse-Policy": policy, "X-Gatehouse-Key": fresh()}
    assert [server.get("/v1/authz", headers).status for _ in range(5)] == [200, 200, 200, 429, 429]
    refused = server.get("/v1/authz", {**headers, "X-Gatehouse-Deny-Status": "403"})
    assert refused.status == 403 and int(refused.headers["retry-after"]) > 0
    assert re.fullmatch(rf'"{policy}";r=0;t=\d+', refused.headers["ratelimit"])


def test_authz_takes_a_query_where_no_header_speaks(server):
    key = fresh()
    assert server.get(f"/v1/authz?policy=memory&key={key}&cost=3").status == 200
    assert server.get(f"/v1/authz?policy=memory&key={key}&deny=403").status == 403
    assert server.get(f"/v1/authz?policy=memory&key={key}").status == 429


def test_authz_counts_one_address_once_however_it_is_written(server):
    for i, address in enumerate(["2001:db8::1", "2001:DB8:0::1", "2001:db8:0:0:0:0:0:1", "2001:db8::1"]):
        headers = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": address, "X-Gatehouse-Key-Kind": "ip"}
        assert server.get("/v1/authz", headers).status == (200 if i < 3 else 429)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/v1/authz", "/v1/authz/", "/v1/authz/any/path%2f?with=query"])
def test_authz_takes_any_method_path_and_body(server, method, path):
    headers = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": fresh()}
    body = b"no JSON" if method in ("POST", "PUT", "PATCH") else None
    assert server.wire.send(method, path, body, headers).status == 200


def test_a_clients_own_path_and_query_choose_nothing(server):
    assert server.get("/v1/authz/x?policy=memory&key=k").status == 422
    key, other = fresh(), fresh()
    headers = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": key}
    for _ in range(3):
        assert server.get(f"/v1/authz?key={other}&cost=0&policy=table", headers).status == 200
    assert server.get(f"/v1/authz?key={other}&cost=0", headers).status == 429


BAD = [
    {},
    {"X-Gatehouse-Policy": "nothing", "X-Gatehouse-Key": "k"},
    {"X-Gatehouse-Policy": "memory"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": ""},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k" * 257},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": b"\xff\xfe"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "nowhere", "X-Gatehouse-Key-Kind": "ip"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k", "X-Gatehouse-Key-Kind": "shoe"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key-From": "x-absent"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key-From": "x" * 100},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "the client's", "X-Gatehouse-Key-From": "x-real-ip", "X-Real-IP": "192.0.2.1"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k", "X-Gatehouse-Cost": "-1"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k", "X-Gatehouse-Cost": "1000000001"},
    {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k", "X-Gatehouse-Deny-Status": "200"},
]


@pytest.mark.parametrize("headers", BAD)
def test_bad_settings_are_refused(server, headers):
    reply = server.get("/v1/authz", headers)
    assert reply.status == 422 and reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("name", ["X-Gatehouse-Policy", "X-Gatehouse-Key", "X-Gatehouse-Key-Kind", "X-Gatehouse-Cost", "X-Gatehouse-Deny-Status"])
def test_a_setting_that_is_there_twice_is_refused(server, name):
    """One of the two would be the client's, and only the proxy knows which."""
    headers = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "192.0.2.1", "X-Gatehouse-Key-Kind": "ip", "X-Gatehouse-Cost": "1", "X-Gatehouse-Deny-Status": "403"}
    reply = server.get("/v1/authz", {**headers, name.lower(): headers[name]})
    assert reply.status == 400 and name.lower() in reply.json()["detail"]


def test_a_header_that_the_key_comes_from_and_is_there_twice_is_refused(server):
    headers = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key-From": "x-real-ip", "X-Real-IP": "192.0.2.1"}
    assert server.get("/v1/authz", headers).status == 200
    assert server.get("/v1/authz", {**headers, "x-real-ip": "192.0.2.2"}).status == 400
    listed = {"X-Gatehouse-Policy": "memory;from=x-real-ip", "X-Real-IP": "192.0.2.1", "x-real-ip": "192.0.2.2"}
    assert server.get("/v1/authz", listed).status == 400


@pytest.mark.parametrize("source", ["authorization", "Authorization", "cookie", "proxy-authorization", "x-api-key", "x-gatehouse-cost", "X-GATEHOUSE-KEY"])
def test_a_secret_does_not_become_a_key(server, source):
    secret = fresh("tok_live")
    sent = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key-From": source, source: secret}
    if source.lower().startswith("x-gatehouse"):
        sent = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key-From": source}
    reply = server.get("/v1/authz", sent)
    assert reply.status == 422 and reply.json()["field"] == "x-gatehouse-key-from"
    if not source.lower().startswith("x-gatehouse"):
        reply = server.get("/v1/authz", {"X-Gatehouse-Policy": f"memory;from={source}", source: secret})
        assert reply.status == 422 and reply.json()["field"] == "x-gatehouse-policy"
    assert secret.encode() not in reply.body + server.get("/v1/limits/top?max=100").body + server.get("/metrics").body


@pytest.mark.parametrize("policy", ["memory", "table"])
def test_a_cost_of_zero_looks_and_is_refused_where_nothing_is_left(server, policy):
    headers = {"X-Gatehouse-Policy": policy, "X-Gatehouse-Key": fresh()}
    look = {**headers, "X-Gatehouse-Cost": "0"}
    assert server.get("/v1/authz", look).status == 200
    assert server.get("/v1/authz", {**headers, "X-Gatehouse-Cost": "3"}).status == 200
    refused = server.get("/v1/authz", look)
    assert refused.status == 429 and int(refused.headers["retry-after"]) > 0


# ---- several limits in a call ----


def test_several_policies_are_all_or_nothing(server):
    address, client = "203.0.113.77", fresh()
    headers = {"X-Gatehouse-Policy": "memory;from=x-real-ip;kind=ip, table;from=x-client-id;cost=2", "X-Real-IP": address, "X-Client-Id": client}
    first = server.get("/v1/authz", headers)
    assert first.status == 200 and [r["remaining"] for r in first.json()["results"]] == [2, 1]
    assert first.headers["ratelimit-policy"] == '"memory";q=3;w=86400, "table";q=3;w=86400'
    second = server.get("/v1/authz", headers)
    assert second.status == 429 and [r["allowed"] for r in second.json()["results"]] == [True, False]
    assert int(second.headers["retry-after"]) > 0
    assert server.allow("memory", {"ip": address}, 0)["results"][0]["remaining"] == 2  # nothing was taken of the first
    assert server.allow("table", client, 0)["results"][0]["remaining"] == 1


def test_one_key_can_be_for_several_policies(server):
    key = fresh()
    headers = {"X-Gatehouse-Policy": "memory , table", "X-Gatehouse-Key": key, "X-Gatehouse-Cost": "3"}
    assert server.get("/v1/authz", headers).status == 200
    assert server.get("/v1/authz", headers).status == 429
    assert server.get(f"/v1/authz?policy=memory,table&key={fresh()}").status == 200


def test_sixteen_policies_pass_and_seventeen_do_not():
    names = [f"p{i}" for i in range(17)]
    server = Limited("limits: {" + ", ".join(f"{name}: {{limit: 3, per: day}}" for name in names) + "}")
    try:
        assert server.get("/v1/authz", {"X-Gatehouse-Policy": ",".join(names[:16]), "X-Gatehouse-Key": "k"}).status == 200
        assert server.get("/v1/authz", {"X-Gatehouse-Policy": ",".join(names), "X-Gatehouse-Key": "k"}).status == 422
    finally:
        server.close()


BAD_LISTS = ["memory,", ",memory", "memory,,table", "memory,memory", "memory;", "memory;from", "memory;from=", "memory;cost=x", "memory;cost=1;cost=2",
             "memory;kind=shoe", "memory;ttl=1", "memory;from=x-absent", "memory;from=" + "x" * 64, "memory,nothing", ";", ","]


@pytest.mark.parametrize("policies", BAD_LISTS)
def test_a_list_of_policies_that_makes_no_sense_is_refused(server, policies):
    assert server.get("/v1/authz", {"X-Gatehouse-Policy": policies, "X-Gatehouse-Key": "k"}).status == 422


@pytest.mark.parametrize("path, headers", [("/v1/authz", {}), ("/v1/authz?key=k", {}), ("/v1/authz", {"X-Gatehouse-Policy": ""}), ("/v1/authz/behind", {})])
def test_a_question_without_a_policy_or_a_token_is_told_what_is_missing(server, path, headers):
    answer = server.get(path, headers)
    assert (answer.status, answer.json()["field"]) == (422, "policy") and "missing; send" in answer.json()["detail"]


def test_a_query_names_no_header(server):
    assert server.get("/v1/authz?policy=memory;from=host&key=k").status == 422


def test_what_envoy_sends_is_understood(server):
    """By packaging/examples/envoy.yaml: the client's method, path and query behind the prefix, only the headers listed."""
    headers = {"authorization": "Bearer ID.SECRET", "x-gatehouse-policy": "memory", "x-gatehouse-key-kind": "ip",
               "x-gatehouse-key-from": "x-envoy-external-address", "x-envoy-external-address": "198.51.100.9", "content-length": "0"}
    answers = [server.wire.send("POST", "/v1/authz/login?policy=table&cost=0", None, headers) for _ in range(4)]
    assert [a.status for a in answers] == [200, 200, 200, 429]
    assert {"ratelimit", "ratelimit-policy", "retry-after"} <= set(answers[3].headers)


# ---- tokens ----


@pytest.fixture(scope="module")
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def guard(issuer, tmp_path_factory):
    """A server that knows an issuer, once it has its keys."""
    made = Limited(POLICIES, "--identity", str(issuer.identity(tmp_path_factory.mktemp("identity"))))
    end = time.monotonic() + 20
    while ask(made, issuer.token()).status != 200:
        assert time.monotonic() < end, "the keys were not fetched"
        time.sleep(0.02)
    yield made
    made.close()


def ask(server, token, setting="required", **headers):
    sent = {"X-Gatehouse-Token": setting, **headers}
    return server.get("/v1/authz", {**sent, "Authorization": f"Bearer {token}"} if token else sent)


def suspended(server):
    user = fresh("user")
    assert server.post("/v1/users", {"id": user}).status == 201
    assert server.post(f"/v1/users/{user}/suspend", b"").status == 200
    return user


def test_authz_requires_a_token(guard, issuer):
    subject = fresh("who")
    good = ask(guard, issuer.token(subject))
    assert good.status == 200 and good.headers["x-gatehouse-subject"] == subject and good.headers["x-gatehouse-issuer"] == issuer.url
    assert good.json()["allowed"] is True and good.json()["token"]["valid"] is True
    absent = ask(guard, None)
    assert absent.status == 401 and absent.headers["www-authenticate"] == "Bearer" and absent.json() == {"allowed": False, "token": {"valid": False}}
    for token in ("nonsense", issuer.token(aud="other"), issuer.token(header={"alg": "none"})):
        refused = ask(guard, token)
        assert refused.status == 401 and refused.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
        assert not {"x-gatehouse-subject", "x-gatehouse-issuer"} & set(refused.headers) and refused.json()["allowed"] is False
    assert guard.get("/v1/authz", {"X-Gatehouse-Token": "required", "Authorization": "Basic abc"}).status == 401
    inactive = ask(guard, issuer.token(suspended(guard)))
    assert inactive.status == 403 and inactive.json()["token"]["reason"] == "user_suspended"


@pytest.mark.parametrize("subject", ["two words", "zoë", "line\r\nX-Gatehouse-Subject: admin", "tab\t", "\x7f", " "])
def test_authz_refuses_a_subject_that_its_header_cannot_hold_so_that_no_proxy_passes_the_clients_own(guard, issuer, subject):
    key = fresh("k")
    limited = {"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": key}
    refused = ask(guard, issuer.token(subject), **limited)
    assert refused.status == 401 and "x-gatehouse-subject" not in refused.headers
    assert refused.json() == {"allowed": False, "token": {"valid": False, "verdict": "invalid_token", "reason": "subject"}}
    assert [guard.get("/v1/authz", limited).status for _ in range(4)] == [200, 200, 200, 429], "a limit was taken"
    good = ask(guard, issuer.token("!~printable-ASCII|{}"))
    assert good.status == 200 and good.headers["x-gatehouse-subject"] == "!~printable-ASCII|{}"


def test_authz_takes_the_token_from_the_header_and_for_the_audience_that_the_proxy_names(guard, issuer):
    token = issuer.token(aud=["app", "orders"])
    named = {"X-Client-Authorization": f"bearer {token}"}
    assert ask(guard, None, "required;from=x-client-authorization", **named).status == 200
    assert ask(guard, "of-the-proxy", "required; from=X-Client-Authorization", **named).status == 200
    assert ask(guard, token, "required;audience=orders").status == 200
    assert ask(guard, token, "required;audience=billing").status == 401
    assert ask(guard, None, "required;from=x-client-authorization", **named, **{"x-client-authorization": "Bearer other"}).status == 400


@pytest.mark.parametrize("setting", ["", "yes", "optional", "required;", "required;from", "required;from=", "required;to=x", "required;from=a;from=b"])
def test_a_wish_for_a_token_that_makes_no_sense_is_refused(guard, issuer, setting):
    assert ask(guard, issuer.token(), setting).status == 422


def test_the_query_can_require_a_token_and_no_header_of_a_client_turns_that_off(guard, issuer):
    token = {"Authorization": "Bearer " + issuer.token()}
    assert guard.get("/v1/authz?token=required", token).status == 200
    assert guard.get("/v1/authz?token=required").status == 401
    for header in ({"X-Gatehouse-Policy": "memory", "X-Gatehouse-Key": "k"}, {"X-Gatehouse-Token": "required;from=x-other"}):
        assert guard.get("/v1/authz?token=required", header).status == 400
    assert guard.get("/v1/authz", {"X-Gatehouse-Token": "required", "x-gatehouse-token": "required", **token}).status == 400


@pytest.mark.parametrize("policy", ["memory", "table"])
def test_a_token_that_is_refused_takes_no_limit(guard, issuer, policy):
    limits = {"X-Gatehouse-Policy": policy, "X-Gatehouse-Key": fresh()}
    for token in (None, "nonsense", issuer.token(suspended(guard))):
        assert ask(guard, token, **limits).status in (401, 403)
    answers = [ask(guard, issuer.token(), **limits) for _ in range(4)]
    assert [a.status for a in answers] == [200, 200, 200, 429]
    assert [a.json()["results"][0]["remaining"] for a in answers[:3]] == [2, 1, 0] and answers[0].json()["token"]["valid"]


def test_a_token_never_passes_while_its_user_cannot_be_looked_up(guard, issuer):
    """Limits that fail open let requests pass; a table of users with other keys is an error, not a yes."""
    server = Limited("limits:\n  table: {limit: 3, per: day, engine: table, on_failure: open}\n", "--identity", str(issuer.identity(guard.data)),
                     "--table-users", "rate-limits-of-others")
    try:
        end = time.monotonic() + 20
        while ask(server, issuer.token()).status != 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        keys = [{"AttributeName": "other", "KeyType": "HASH"}]
        made = server.wire.call("CreateTable", {"TableName": "rate-limits-of-others", "BillingMode": "PAY_PER_REQUEST", "KeySchema": keys,
                                                "AttributeDefinitions": [{"AttributeName": "other", "AttributeType": "S"}]})
        assert made.status == 200, made.body
        limits = {"X-Gatehouse-Policy": "table", "X-Gatehouse-Key": fresh()}
        assert server.get("/v1/authz", limits).status == 200
        assert ask(server, issuer.token()).status == 409 and ask(server, issuer.token(), **limits).status == 409
    finally:
        server.close()


# ---- a real nginx ----


class Application(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        told = sorted(f"{name}: {value}" for name, value in self.headers.items() if name.lower().startswith("x-gatehouse"))
        if self.path[:5] == "/told" or self.path[:13] == "/account/told":
            self.wfile.write("\n".join(told).encode())
        else:
            self.wfile.write(b"the application\n" if self.path[:9] != "/account/" else f"for {self.headers['X-User']}\n".encode())

    def log_message(self, *_):
        pass


def wait_for_port(port, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read().decode()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("nginx does not listen")


class Nginx:
    """packaging/examples/nginx.conf with other ports, in a directory of its own."""

    def __init__(self, gatehouse, application):
        self.port = free_port()
        self.dir = Path(tempfile.mkdtemp(prefix="gatehouse-nginx-"))
        example = (ROOT / "packaging/examples/nginx.conf").read_text()
        for old, new in (("127.0.0.1:8420", gatehouse), ("127.0.0.1:9000", application), ("127.0.0.1:8080", f"127.0.0.1:{self.port}")):
            assert old in example
            example = example.replace(old, new)
        paths = "".join(f"{kind}_temp_path {self.dir}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.dir / "nginx.conf").write_text(
            f"daemon off; worker_processes 1; pid {self.dir}/pid; error_log stderr;\n"
            f"events {{}}\nhttp {{ access_log off; {paths}\n{example}\n}}\n")
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-p", str(self.dir), "-c", str(self.dir / "nginx.conf")], stderr=subprocess.PIPE)
        wait_for_port(self.port, self.process)

    def get(self, path="/", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = (answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read())
        connection.close()
        return found

    def close(self):
        stop(self.process)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def application():
    app = ThreadingHTTPServer(("127.0.0.1", 0), Application)
    thread = threading.Thread(target=app.serve_forever)
    thread.start()
    yield f"127.0.0.1:{app.server_address[1]}"
    app.shutdown()
    thread.join()
    app.server_close()


def test_nginx_limits_by_address_and_says_when_to_come_back(application):
    server = Limited(POLICIES)
    nginx = Nginx(urlsplit(server.endpoint).netloc, application)
    try:
        for left in (2, 1, 0):
            status, headers, body = nginx.get("/page?policy=memory&cost=0", **{"X-Gatehouse-Cost": "0", "X-Gatehouse-Key": "other"})
            assert (status, body) == (200, b"the application\n")
            assert re.fullmatch(rf'"login-ip";r={left};t=\d+', headers["ratelimit"])
            assert headers["ratelimit-policy"] == '"login-ip";q=3;w=86400'
        status, headers, body = nginx.get()
        assert status == 429 and b"Too many" in body
        assert int(headers["retry-after"]) > 0 and '"login-ip";r=0' in headers["ratelimit"]
        server.halt()  # while Gatehouse is away, requests pass
        assert nginx.get()[0] == 200
    finally:
        nginx.close()
        server.close()


def test_nginx_lets_only_active_users_with_a_good_token_at_sensitive_operations(application, guard, issuer):
    nginx = Nginx(urlsplit(guard.endpoint).netloc, application)
    try:
        user = fresh("user")
        assert guard.post("/v1/users", {"id": user}).status == 201
        token = {"Authorization": "Bearer " + issuer.token(user)}
        assert nginx.get("/account/close", **token, **{"X-User": "root"})[::2] == (200, f"for {user}\n".encode())
        for headers in ({}, {"Authorization": "Bearer x.y.z"}, {"Authorization": "Bearer " + issuer.token(user, aud="other")},
                        {"X-Client-Authorization": token["Authorization"]}, {"X-Gatehouse-Token": "required;from=x-own", "X-Own": token["Authorization"]}):
            status, answered, _ = nginx.get("/account/close", **headers)
            assert status == 401 and answered["www-authenticate"].startswith("Bearer"), headers
        assert guard.post(f"/v1/users/{user}/suspend", b"").status == 200
        assert nginx.get("/account/close", **token)[0] == 403
    finally:
        nginx.close()


FORGED = {f"X-Gatehouse-{name}": "forged" for name in ("Subject", "Issuer", "Policy", "Key", "Key-From", "Key-Kind", "Cost", "Deny-Status", "Token")}


def test_behind_nginx_only_gatehouse_says_whose_the_request_is(application, guard, issuer):
    nginx = Nginx(urlsplit(guard.endpoint).netloc, application)
    try:
        status, _, told = nginx.get("/told", **FORGED)
        assert (status, told) == (200, b"")
        subject = fresh("who")
        status, _, told = nginx.get("/account/told", **FORGED, Authorization="Bearer " + issuer.token(subject))
        assert (status, told.decode().splitlines()) == (200, [f"X-Gatehouse-Issuer: {issuer.url}", f"X-Gatehouse-Subject: {subject}"])
    finally:
        nginx.close()


def test_nginx_passes_one_challenge_and_a_503_with_its_retry_after(application, issuer, tmp_path):
    """A token whose key is not there yet: its bearer must not be signed out, but come back."""
    server = Limited(POLICIES, "--identity", str(issuer.identity(tmp_path, jwks_url="http://127.0.0.1:9/keys")))
    nginx = Nginx(urlsplit(server.endpoint).netloc, application)
    try:
        connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=20)
        for token, status in (("x.y.z", 401), (issuer.token(), 503)):
            connection.request("GET", "/account/close", headers={"Authorization": "Bearer " + token})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
            assert len(answer.headers.get_all("WWW-Authenticate", [])) == (status == 401)
            assert len(answer.headers.get_all("Retry-After", [])) == (status == 503)
        assert 0 < int(answer.headers["Retry-After"]) <= 60
        connection.close()
    finally:
        nginx.close()
        server.close()


def test_nginx_lets_nobody_at_sensitive_operations_while_gatehouse_is_away(application, issuer, tmp_path):
    server = Limited(POLICIES, "--identity", str(issuer.identity(tmp_path)))
    nginx = Nginx(urlsplit(server.endpoint).netloc, application)
    try:
        server.halt()
        assert nginx.get("/account/close", Authorization="Bearer " + issuer.token())[0] == 500
        assert nginx.get("/")[0] == 200  # limits fail open, by the same example
    finally:
        nginx.close()
        server.close()
