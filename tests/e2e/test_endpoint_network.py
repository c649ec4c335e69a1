"""How `gatehouse serve --engine dynamodb` reaches its endpoint: AWS_CA_BUNDLE, HTTPS_PROXY with NO_PROXY, and AWS_MAX_ATTEMPTS. The endpoint is our own
server with a certificate of a private CA."""

import contextlib
import http.server
import shutil
import socket
import socketserver
import subprocess
import tempfile
import threading

import pytest

from certificates import Certificates
from conftest import line_with_endpoint, program, stop
from test_endpoint_start import SETTINGS, WORLD, refusal
from test_engine_dynamodb import attempt, command, environment, free_port, give_key


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    made.make("server", "ca")
    yield made
    made.release()


@pytest.fixture(scope="module")
def endpoint(certificates):
    """Its URL, by name: proxies are asked for names."""
    with tempfile.TemporaryDirectory(prefix="gatehouse-e2e-") as data:
        port = free_port()
        process = subprocess.Popen(
            [program(), "serve", "--listen", f"127.0.0.1:{port}", "--data", data, "--no-auth", "--tls-cert", certificates.crt("server"),
             "--tls-key", certificates.key("server")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line_with_endpoint(process)
        yield f"https://localhost:{port}"
        stop(process)


class Proxy(socketserver.ThreadingTCPServer):
    """Takes CONNECT, as an HTTP proxy does. `asked`: for what."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, refuses=False):
        self.asked, self.refuses = [], refuses
        super().__init__(("127.0.0.1", 0), Tunnel)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Tunnel(socketserver.StreamRequestHandler):
    def handle(self):
        line = self.rfile.readline().decode()
        while self.rfile.readline().strip():
            pass
        self.server.asked.append(line.split()[1])
        if self.server.refuses or not line.startswith("CONNECT "):
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        host, port = line.split()[1].split(":")
        with socket.create_connection((host, int(port))) as to:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\nX-Of-The-Proxy: yes\r\n\r\n")
            back = threading.Thread(target=self.pump, args=(to, self.connection), daemon=True)
            back.start()
            self.pump(self.connection, to)
            back.join()

    @staticmethod
    def pump(from_, to):
        with contextlib.suppress(OSError):
            while data := from_.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def proxy(**options):
    with Proxy(**options) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@contextlib.contextmanager
def served(url, **variables):
    data = tempfile.mkdtemp(prefix="gatehouse-e2e-")
    give_key(data)
    process = subprocess.Popen(command(data), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(url, **variables))
    try:
        yield line_with_endpoint(process)
    finally:
        stop(process)
        shutil.rmtree(data, ignore_errors=True)
    assert process.returncode == 0


def bundle(certificates):
    return {"AWS_CA_BUNDLE": str(certificates.crt("ca"))}


def test_a_private_ca_is_trusted_if_it_is_in_the_bundle_and_no_other(endpoint, certificates):
    with served(endpoint, **bundle(certificates)) as base:
        assert attempt(base, "bundle")["verdict"] == "allow"
    for other in ({}, {"AWS_CA_BUNDLE": str(certificates.crt("stranger-ca"))}):
        status, said = refusal(endpoint, **other)
        assert status == WORLD and endpoint in said


def test_https_goes_through_the_proxy(endpoint, certificates):
    with proxy() as by, served(endpoint, HTTPS_PROXY=by.url, **bundle(certificates)) as base:
        assert attempt(base, "proxied")["counted"]
        assert set(by.asked) == {endpoint.removeprefix("https://")}


def test_hosts_of_no_proxy_are_called_without_it(endpoint, certificates):
    with proxy() as by, served(endpoint, HTTPS_PROXY=by.url, NO_PROXY="localhost", **bundle(certificates)) as base:
        assert attempt(base, "direct")["counted"]
        assert by.asked == []


def test_a_proxy_that_refuses_is_an_endpoint_that_does_not_answer(endpoint, certificates):
    with proxy(refuses=True) as by:
        status, _ = refusal(endpoint, HTTPS_PROXY=by.url, **bundle(certificates))
        assert status == WORLD and by.asked


class Broken(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.count += 1
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.mark.parametrize("tries", [1, 3])
def test_a_request_is_tried_as_often_as_aws_max_attempts_says(tries):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        server.count = 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert refusal(f"http://127.0.0.1:{server.server_port}", AWS_MAX_ATTEMPTS=str(tries))[0] == WORLD
        assert server.count == tries
        server.shutdown()


@pytest.mark.parametrize("name, value, said", [
    ("AWS_USE_FIPS_ENDPOINT", "true", "AWS_USE_FIPS_ENDPOINT is true, but AWS_ENDPOINT_URL_DYNAMODB"),
    ("AWS_USE_DUALSTACK_ENDPOINT", "true", "AWS_USE_DUALSTACK_ENDPOINT is true, but AWS_ENDPOINT_URL_DYNAMODB"),
    ("AWS_MAX_ATTEMPTS", "many", "AWS_MAX_ATTEMPTS: must be 1 to 10"),
    ("HTTPS_PROXY", "socks5://127.0.0.1:1", "HTTPS_PROXY: must be a URL like http://host:port"),
])
def test_what_cannot_be_done_is_refused_by_name(name, value, said):
    status, line = refusal("http://127.0.0.1:1", **{name: value})
    assert status == SETTINGS and said in line
