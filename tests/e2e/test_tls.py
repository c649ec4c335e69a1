"""TLS as operators and clients see it: boto3 and the aws cli over https, openssl's own client, certificates that are replaced
under load, certificates that clients must show, and what the command line refuses."""

import http.client
import os
import selectors
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError

from certificates import Certificates, openssl
from cli import AWS
from conftest import program, stop
from wire import read_all

pytestmark = pytest.mark.gatehouse_only
START_S = 30
SWAPS = 20
CLIENTS = 4
BIG = 350_000


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    for name, kind in (("first", "ec"), ("second", "rsa"), ("client", "ec")):
        made.make(name, by="ca", kind=kind)
    made.make("stranger", by="stranger-ca")
    yield made
    made.release()


class Lines:
    """A pipe, read line by line, with an end to every wait."""

    def __init__(self, pipe):
        self.pipe, self.seen = pipe, b""

    def wait_for(self, text):
        deadline = time.monotonic() + START_S
        with selectors.DefaultSelector() as ready:
            ready.register(self.pipe, selectors.EVENT_READ)
            while time.monotonic() < deadline:
                for line in self.seen.split(b"\n")[:-1]:
                    if text in line:
                        self.seen = self.seen.split(line + b"\n", 1)[1]
                        return line.decode()
                if ready.select(timeout=1):
                    more = os.read(self.pipe.fileno(), 65536)
                    if not more:
                        break
                    self.seen += more
        raise RuntimeError(f"{text!r} was never said: {self.seen!r}")


class Server:
    """A server with TLS; "live" is the certificate it is given."""

    def __init__(self, certificates, *more, first="first"):
        self.certificates = certificates
        self.data = tempfile.mkdtemp(prefix="gatehouse-tls-")
        certificates.put(first, "live")
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--no-auth", "--tls-cert",
                   certificates.crt("live"), "--tls-key", certificates.key("live"), *more]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.log = Lines(self.process.stderr)
        line = Lines(self.process.stdout).wait_for(b"listening on ")
        self.endpoint = line.split("listening on ", 1)[1].split()[0]
        parts = urlsplit(self.endpoint)
        self.address = (parts.hostname, parts.port)

    def client(self, verify="ca", **more):
        config = Config(retries={"total_max_attempts": 1, "mode": "standard"}, max_pool_connections=16, **more)
        return boto3.client("dynamodb", endpoint_url=self.endpoint, config=config,
                            verify=str(self.certificates.crt(verify)))

    def context(self, certificate=None):
        context = ssl.create_default_context(cafile=str(self.certificates.crt("ca")))
        if certificate:
            context.load_cert_chain(self.certificates.crt(certificate), self.certificates.key(certificate))
        return context

    def connection(self, certificate=None):
        return http.client.HTTPSConnection(*self.address, timeout=20, context=self.context(certificate))

    def shown(self):
        """The name in the certificate that a new connection is shown."""
        with socket.create_connection(self.address, timeout=20) as plain:
            with self.context().wrap_socket(plain, server_hostname=self.address[0]) as peer:
                subject = dict(part[0] for part in peer.getpeercert()["subject"])
                return subject["commonName"]

    def s_client(self, *arguments, text=""):
        host, port = self.address
        return openssl("s_client", "-connect", f"{host}:{port}", "-CAfile", self.certificates.crt("ca"), *arguments, text=text)

    def reload(self, says=b"reloaded the certificate"):
        self.process.send_signal(signal.SIGHUP)
        return self.log.wait_for(says)

    def close(self):
        stop(self.process)
        shutil.rmtree(self.data, ignore_errors=True)
        assert self.process.returncode == 0


@pytest.fixture(scope="module")
def server(certificates):
    running = Server(certificates)
    yield running
    running.close()


@pytest.fixture
def start(certificates):
    """Starts servers for one test, each to be stopped at its end."""
    running = []

    def start_one(*more):
        running.append(Server(certificates, *more))
        return running[-1]

    yield start_one
    for server in running:
        server.close()


@pytest.fixture(scope="module")
def table(server):
    server.client().create_table(TableName="secure", BillingMode="PAY_PER_REQUEST",
                                 AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
                                 KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}])
    return "secure"


# ---- clients ----


def test_the_greeting_says_https(server):
    assert server.endpoint.startswith("https://127.0.0.1:")


def test_boto3_verifies_the_server_and_is_served(server, table):
    ddb = server.client()
    ddb.put_item(TableName=table, Item={"pk": {"S": "a"}, "v": {"N": "1"}})
    assert ddb.get_item(TableName=table, Key={"pk": {"S": "a"}})["Item"]["v"] == {"N": "1"}


def test_boto3_refuses_the_server_if_another_ca_is_trusted(server, table):
    with pytest.raises(SSLError):
        server.client(verify="stranger-ca").list_tables()


def test_the_aws_cli_is_served(server, table, client_env, certificates):
    done = subprocess.run([AWS, "dynamodb", "list-tables", "--endpoint-url", server.endpoint, "--ca-bundle",
                           str(certificates.crt("ca"))], env=client_env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and table in done.stdout, done.stderr


def test_curl_is_served(server, certificates):
    done = subprocess.run(["curl", "-sS", "--cacert", str(certificates.crt("ca")), f"{server.endpoint}/readyz"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_large_items_go_in_and_out(server, table):
    ddb = server.client()
    for i in range(40):
        ddb.put_item(TableName=table, Item={"pk": {"S": f"big{i}"}, "v": {"S": chr(97 + i % 26) * BIG}})
    keys = [{"pk": {"S": f"big{i}"}} for i in range(40)]
    answer = ddb.batch_get_item(RequestItems={table: {"Keys": keys, "ConsistentRead": True}})
    items = answer["Responses"][table]
    assert len(items) > 1 and all(len(set(item["v"]["S"])) == 1 and len(item["v"]["S"]) == BIG for item in items)
    batch = [{"PutRequest": {"Item": {"pk": {"S": f"in{i}"}, "v": {"S": "x" * BIG}}}} for i in range(25)]
    assert not ddb.batch_write_item(RequestItems={table: batch})["UnprocessedItems"]


def test_a_body_of_17_mb_is_read_and_one_past_it_refused(server):
    most = 17 * 1024 * 1024
    for length, status in ((most, 400), (most + 1, 413)):
        connection = server.connection()
        headers = {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"}
        try:
            connection.request("POST", "/", b" " * length, headers)
        except OSError:
            pass  # it may answer and close before it has read everything
        assert connection.getresponse().status == status
        connection.close()


def test_pipelined_requests_are_all_answered(server):
    count = 300
    with socket.create_connection(server.address, timeout=20) as plain:
        with server.context().wrap_socket(plain, server_hostname=server.address[0]) as peer:
            peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n" * (count - 1))
            peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_all(peer).count(b"HTTP/1.1 200 ") == count


# ---- what is spoken ----

ANY_LEVEL = "DEFAULT:@SECLEVEL=0"


@pytest.mark.parametrize("version", ["-tls1_2", "-tls1_3"])
def test_versions_that_are_spoken(server, version):
    done = server.s_client(version, "-verify_return_error")
    assert done.returncode == 0 and "Verify return code: 0 (ok)" in done.stdout, done.stderr


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_versions_that_are_refused(server, version):
    done = server.s_client(version, "-cipher", ANY_LEVEL)
    assert done.returncode != 0 and "protocol version" in done.stderr, done.stderr


@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA", "ECDHE-ECDSA-AES128-CCM"])
def test_suites_that_are_refused(server, suite):
    done = server.s_client("-tls1_2", "-cipher", f"{suite}:@SECLEVEL=0")
    assert done.returncode != 0 and "handshake failure" in done.stderr, done.stderr


def test_the_agreed_protocol_is_http_1_1(server):
    assert "ALPN protocol: http/1.1" in server.s_client("-alpn", "h2,http/1.1").stdout
    assert server.s_client("-alpn", "h2").returncode != 0


def test_renegotiation_is_refused(server):
    done = server.s_client("-tls1_2", text="R\n")
    assert "no renegotiation" in done.stderr, done.stderr


def test_plain_http_is_closed_and_the_next_is_served(server):
    with socket.create_connection(server.address, timeout=20) as peer:
        peer.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert peer.recv(4096) == b""
    assert server.shown() == "first"


# ---- a certificate that is replaced ----


class Pool:
    """Clients that ask without a pause, on a kept connection and on new ones in turn, and count what was lost."""

    def __init__(self, server):
        self.server, self.ends, self.lock = server, threading.Event(), threading.Lock()
        self.answered, self.lost = 0, []
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self, connection):
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read()
            good = answer.status == 200
        except (OSError, http.client.HTTPException) as error:
            good = repr(error)
        with self.lock:
            self.answered += good is True
            if good is not True:
                self.lost.append(good)

    def run(self):
        kept = self.server.connection()
        kept.connect()
        kept.auto_open = False  # a kept connection that was dropped is a loss, and must show
        while not self.ends.is_set():
            self.ask(kept)
            fresh = self.server.connection()
            self.ask(fresh)
            fresh.close()
        kept.close()

    def wait_for(self, more):
        goal, deadline = self.answered + more, time.monotonic() + START_S
        while self.answered < goal:
            assert time.monotonic() < deadline and not self.lost, self.lost
            self.ends.wait(0.001)

    def close(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()


def test_certificates_swapped_under_load_lose_no_request(start, certificates):
    server = start()
    pool = Pool(server)
    try:
        for swap in range(SWAPS):
            pool.wait_for(4 * CLIENTS)
            name = "first" if swap % 2 else "second"
            certificates.put(name, "live")
            server.reload()
            assert server.shown() == name
        pool.wait_for(4 * CLIENTS)
    finally:
        pool.close()
    assert pool.lost == []


def test_a_reload_of_bad_files_is_logged_and_changes_nothing(start, certificates):
    server = start()
    shutil.copy(certificates.key("second"), certificates.key("live"))
    said = server.reload(says=b"old certificate stays in use")
    assert str(certificates.key("live")) in said and "not the key of the certificate" in said
    assert server.shown() == "first"
    certificates.crt("live").unlink()
    assert "No such file" in server.reload(says=b"old certificate stays in use")
    assert server.shown() == "first"
    certificates.put("second", "live")
    server.reload()
    assert server.shown() == "second"


def test_without_tls_a_sighup_is_only_logged():
    data = tempfile.mkdtemp(prefix="gatehouse-tls-")
    process = subprocess.Popen([program(), "serve", "--listen", "127.0.0.1:0", "--data", data, "--no-auth"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    Lines(process.stdout).wait_for(b"listening on http://")
    process.send_signal(signal.SIGHUP)
    Lines(process.stderr).wait_for(b"TLS is off")
    stop(process)
    shutil.rmtree(data, ignore_errors=True)
    assert process.returncode == 0


# ---- certificates of clients ----


def status_for(server, certificate):
    """200, or the reason the server gave."""
    connection = server.connection(certificate)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status
    except ssl.SSLError as error:
        return error.reason
    finally:
        connection.close()


def test_clients_must_show_a_certificate_of_the_ca(start, certificates):
    server = start("--tls-client-ca", certificates.crt("ca"))
    assert status_for(server, "client") == 200
    assert status_for(server, None) == "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert status_for(server, "stranger") == "TLSV1_ALERT_UNKNOWN_CA"
    pair = (str(certificates.crt("client")), str(certificates.key("client")))
    assert server.client(client_cert=pair).list_tables()["TableNames"] == []
    with pytest.raises(SSLError):
        server.client().list_tables()


# ---- what the command line refuses ----


def refused(*arguments):
    data = tempfile.mkdtemp(prefix="gatehouse-tls-")
    done = subprocess.run([program(), "serve", "--data", data, *map(str, arguments)], capture_output=True, text=True, timeout=30)
    shutil.rmtree(data, ignore_errors=True)
    assert done.returncode == 2, (done.returncode, done.stderr)
    return done.stderr


def test_what_is_wrong_with_the_files_is_said_at_the_start(certificates):
    crt, key = certificates.crt, certificates.key
    start = ("--listen", "127.0.0.1:0", "--no-auth")
    assert "--tls-key is missing" in refused(*start, "--tls-cert", crt("first"))
    assert "--tls-cert is missing" in refused(*start, "--tls-key", key("first"))
    assert "--tls-client-ca needs" in refused(*start, "--tls-client-ca", crt("ca"))
    assert f"{crt('none')}: No such file" in refused(*start, "--tls-cert", crt("none"), "--tls-key", key("first"))
    assert f"{key('none')}: No such file" in refused(*start, "--tls-cert", crt("first"), "--tls-key", key("none"))
    assert f"{key('second')}: not the key of the certificate in {crt('first')}" in refused(
        *start, "--tls-cert", crt("first"), "--tls-key", key("second"))
    assert f"client CA file {key('ca')}" in refused(*start, "--tls-cert", crt("first"), "--tls-key", key("first"),
                                                    "--tls-client-ca", key("ca"))


def test_any_address_may_be_listened_on_with_tls_but_not_without(certificates):
    assert "--tls-cert" in refused("--listen", "0.0.0.0:0")
    both = ("--tls-cert", certificates.crt("first"), "--tls-key", certificates.key("first"))
    assert "--no-auth is refused" in refused("--listen", "0.0.0.0:0", "--no-auth", *both)
    # Past the address, to the next thing that is wrong: nothing is listened on for this test.
    assert "No such file" in refused("--listen", "0.0.0.0:0", "--tls-cert", "/none", "--tls-key", "/none")
