"""Without authentication: programs are answered, web pages are not, whatever name they reach the server by; and no request is
answered whose path or meaning could be read in two ways."""
import http.client
import json
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from conftest import line_with_endpoint, program, stop
from test_access import REGION, Guarded

pytestmark = pytest.mark.gatehouse_only
ATTEMPT = json.dumps({"subject": "ann", "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"})
SUM = "/v1/subjects/ann/sum?prefix=SIGN_IN"
TABLES = {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"}


class Open:
    def __init__(self, data, *words):
        self.process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth", *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.endpoint = line_with_endpoint(self.process)
        self.port = urlsplit(self.endpoint).port

    def ask(self, method, path, body=None, headers=()):
        """(status, answer as text)"""
        return ask(self.port, method, path, body, {"Host": f"127.0.0.1:{self.port}", **dict(headers)})


def ask(port, method, path, body, headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    started = Open(tmp_path_factory.mktemp("open"), "--host-names", "gate.example,Other-1.example")
    yield started
    stop(started.process)


EVERYWHERE = [("POST", "/v1/attempts", ATTEMPT, {}), ("GET", SUM, None, {}), ("POST", "/", "{}", TABLES), ("GET", "/", None, {}),
              ("GET", "/metrics", None, {}), ("GET", "/readyz", None, {}), ("GET", "/nothing", None, {})]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0:{port}",
                                  "10.0.0.1", "128.0.0.1", "127.1", "[::2]", "gate.example.", "", "169.254.169.254", "xn--localhost", "a" * 300])
def test_a_name_that_is_not_its_own_is_refused_everywhere(server, host):
    for method, path, body, headers in EVERYWHERE:
        status, text = server.ask(method, path, body, {**headers, "Host": host.format(port=server.port)})
        assert status == 403 and "host-names" in text, (path, status, text)
    assert json.loads(server.ask("GET", SUM)[1])["sum"] == 0


@pytest.mark.parametrize("host", ["localhost", "LocalHost:{port}", "127.0.0.1", "127.9.8.7:1", "[::1]:{port}", "[::1]", "gate.example",
                                  "GATE.example:80", "other-1.example"])
def test_loopback_and_the_names_that_were_configured_are_answered(server, host):
    for method, path, body, headers in EVERYWHERE[1:]:
        status, _ = server.ask(method, path, body, {**headers, "Host": host.format(port=server.port)})
        assert status == (404 if path == "/nothing" else 200)


@pytest.mark.parametrize("headers", [
    {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://localhost:3000"},
    {"Origin": "http://127.0.0.1"}, {"Origin": "https://127.0.0.1:{port}"}, {"Origin": "http://127.0.0.1:{port}.evil.example"},
    {"Origin": "http://evil.example?gate.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "nonsense"}, {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"}])
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json"])
def test_what_another_web_page_sends_is_refused_and_does_nothing(server, headers, content_type):
    headers = {name: value.replace("{port}", str(server.port)) for name, value in headers.items()}
    for method, path, body, more in EVERYWHERE:
        status, text = server.ask(method, path, body, {"Content-Type": content_type, **more, **headers})
        assert status == 403 and "host-names" in text, (path, status, text)
    assert json.loads(server.ask("GET", SUM)[1])["sum"] == 0


def test_a_page_of_its_own_or_of_a_configured_host_is_answered(server):
    own = f"http://127.0.0.1:{server.port}"
    for headers in ({"Origin": own}, {"Origin": own, "Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"},
                    {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://gate.example:3000", "Sec-Fetch-Site": "cross-site"}):
        assert server.ask("GET", SUM, None, headers)[0] == 200, headers


def test_the_error_of_an_sdk_says_what_to_do(server):
    status, text = server.ask("POST", "/", "{}", {**TABLES, "Host": "gatehouse:8420"})
    answer = json.loads(text)
    assert status == 403 and answer["__type"].endswith("AccessDeniedException")
    assert "Host: gatehouse:8420" in answer["message"] and "host-names" in answer["message"]


def test_curl_as_the_readme_prints_it_works(tmp_path):
    server = Open(tmp_path)
    try:
        for host in ("127.0.0.1", "localhost"):
            done = subprocess.run(["curl", "-s", f"http://{host}:{server.port}/v1/attempts", "-d", ATTEMPT], capture_output=True, text=True)
            assert json.loads(done.stdout)["verdict"] == "allow"
        assert server.ask("GET", "/", None, {"Host": "gate.example"})[0] == 403  # nothing was configured
    finally:
        stop(server.process)


@pytest.mark.parametrize("names, status", [("a" * 1024, 0), ("a" * 1025, 2), ("a,b.c", 0), ("a,,b", 2), ("a:80", 2), ("http://a", 2), ("a b", 2)])
def test_names_of_hosts_are_checked_at_the_start(tmp_path, names, status):
    done = subprocess.run([program(), "serve", "--no-auth", "--data", tmp_path, "--host-names", names, "--check-config"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == status and (status == 0 or "host-names" in done.stderr)


# ---- with authentication ----


@pytest.fixture(scope="module")
def guarded():
    started = Guarded()
    yield started
    stop(started.process)
    shutil.rmtree(started.data, ignore_errors=True)


def signed(server, method, path, body, unsigned=(), **headers):
    """(status, answer): signed for all headers but `unsigned`."""
    key = server.key("show", "administrator")
    request = AWSRequest(method, server.endpoint + path, data=body.encode(), headers=headers)
    SigV4Auth(Credentials(*key), "dynamodb" if path == "/" else "gatehouse", REGION).add_auth(request)
    sent = {**dict(request.headers.items()), **dict(unsigned), "Host": urlsplit(server.endpoint).netloc}
    return ask(urlsplit(server.endpoint).port, method, path, body, sent)


def test_with_keys_any_host_and_origin_is_a_matter_of_the_key(guarded):
    key = guarded.key("show", "administrator")
    headers = {"Host": "gate.example", "Origin": "https://front.example", "Authorization": f"Bearer {key[0]}.{key[1]}"}
    assert ask(urlsplit(guarded.endpoint).port, "GET", SUM, None, headers)[0] == 200


@pytest.mark.parametrize("path, name", [
    ("/v1/attempts", "Idempotency-Key"), ("/v1/attempts", "If-Match"), ("/v1/attempts", "if-none-match"),
    ("/v1/attempts", "X-Gatehouse-Cost"), ("/", "x-gatehouse-anything"), ("/", "X-Amz-Target")])
def test_a_header_that_changes_the_meaning_of_a_request_must_be_signed(guarded, path, name):
    target = TABLES["X-Amz-Target"]
    headers = {} if path != "/" else dict(TABLES)
    headers.pop(name, None)
    value = target if name == "X-Amz-Target" else "1"
    body = "{}" if path == "/" else ATTEMPT
    status, text = signed(guarded, "POST", path, body, [(name, value)], **headers)
    assert status in (400, 401) and name.lower() in text.lower() and "must be a 'SignedHeader'" in text
    assert signed(guarded, "POST", path, body, **headers, **{name: value})[0] == 200


@pytest.mark.parametrize("path", ["/v1/subjects/../locks", "/v1/subjects/%2e%2E/sum", "/v1/./locks", "/v1/subjects/ann/%2e", "/..", "/./",
                                  "/v1/subjects/ann/..", "/v1/subjects/.%2e/explain", "/v1/authz/x/../y"])
def test_a_path_with_dot_segments_is_refused(server, guarded, path):
    key = guarded.key("show", "administrator")
    bearer = {"Host": "localhost", "Authorization": f"Bearer {key[0]}.{key[1]}"}
    for status, text in (server.ask("GET", path), ask(urlsplit(guarded.endpoint).port, "GET", path, None, bearer)):
        assert status == 400 and "segment" in text
    assert server.ask("GET", "/v1/subjects/a..b/explain")[0] == 200  # dots within a segment are no matter
    assert server.ask("GET", "/v1/subjects/.../explain")[0] == 200
