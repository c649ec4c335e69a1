"""TLS as a scanner sees it: Debian's sslscan offers the server everything it knows, openssl's client and a hello made by hand what
a scanner does not. All that is accepted is listed here; what is not listed must be refused."""

import re
import socket
import struct
import subprocess
import xml.etree.ElementTree as xml

import pytest

from certificates import Certificates
from test_tls import Server

pytestmark = pytest.mark.gatehouse_only

SCAN_S_MAX = 120
VERSIONS = {"1.2", "1.3"}
SUITES = {
    "TLSv1.3": {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"},
    "TLSv1.2": {"ECDHE-{}-AES128-GCM-SHA256", "ECDHE-{}-AES256-GCM-SHA384", "ECDHE-{}-CHACHA20-POLY1305"},
}
KINDS = {"ec": "ECDSA", "rsa": "RSA"}
GROUPS = {"x25519", "secp256r1 (NIST P-256)", "secp384r1 (NIST P-384)"}
DEFLATE, NO_COMPRESSION = 1, 0


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    for kind in KINDS:
        made.make(kind, by="ca", kind=kind)
    yield made
    made.release()


@pytest.fixture(scope="module", params=KINDS)
def server(request, certificates):
    """With a certificate of each kind; `server.kind` says which."""
    running = Server(certificates, first=request.param)
    running.kind = request.param
    yield running
    running.close()


@pytest.fixture(scope="module")
def scan(server):
    host, port = server.address
    done = subprocess.run(["sslscan", "--xml=-", "--no-colour", "--show-certificate", f"{host}:{port}"], capture_output=True, text=True,
                          timeout=SCAN_S_MAX, check=False)
    assert done.returncode == 0, done.stderr
    # sslscan writes text between its elements, some of it not XML's
    return xml.fromstring(re.sub(r"[^\t\n\x20-\x7e]", "", done.stdout)).find("ssltest")


def test_only_tls_1_2_and_1_3_are_spoken(scan):
    asked = {(p.get("type"), p.get("version")): p.get("enabled") for p in scan.iter("protocol")}
    assert len(asked) == 6      # SSL 2 and 3, TLS 1.0 to 1.3: the scanner did ask
    assert {version for (kind, version), enabled in asked.items() if enabled == "1"} == VERSIONS
    assert asked["ssl", "2"] == asked["ssl", "3"] == "0"


def test_only_suites_with_ecdhe_and_aead_are_accepted(scan, server):
    found = {version: {c.get("cipher") for c in scan.iter("cipher") if c.get("sslversion") == version} for version in SUITES}
    assert found == {version: {name.format(KINDS[server.kind]) for name in names} for version, names in SUITES.items()}
    assert {c.get("sslversion") for c in scan.iter("cipher")} == set(SUITES)


def test_only_sound_groups_are_accepted(scan):
    assert {g.get("name") for g in scan.iter("group")} == GROUPS


def test_there_is_no_renegotiation_and_no_heartbleed(scan, server):
    assert scan.find("renegotiation").get("supported") == "0"
    assert {h.get("vulnerable") for h in scan.iter("heartbleed")} == {"0"}
    said = server.s_client("-tls1_2", text="R\n")
    assert "RENEGOTIATING" in said.stderr and "no renegotiation" in said.stderr


def test_the_certificate_is_the_configured_one(scan, server, certificates):
    def lines(text):
        return re.search("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", text, re.S)[0].split()

    configured = certificates.crt(server.kind).read_text()
    assert lines(scan.find("certificates/certificate/certificate-blob").text) == lines(configured)
    said = server.s_client("-showcerts")
    assert lines(said.stdout) == lines(configured) and "Verify return code: 0 (ok)" in said.stdout
    assert said.stdout.count("BEGIN CERTIFICATE") == 1     # nothing else is sent


# ---- compression: neither Debian's openssl nor its sslscan can ask for it ----


def extension(number, content):
    return struct.pack(">HH", number, len(content)) + content


def listed(*numbers):
    return struct.pack(f">H{len(numbers)}H", 2 * len(numbers), *numbers)


def hello(compressions):
    """A ClientHello of TLS 1.2 that offers these methods of compression."""
    extensions = extension(10, listed(0x001D, 0x0017)) + extension(13, listed(0x0403, 0x0804, 0x0401)) + extension(11, b"\x01\x00")
    body = (b"\x03\x03" + bytes(32) + b"\x00" + listed(0xC02B, 0xC02C, 0xC02F, 0xC030)
            + bytes([len(compressions), *compressions]) + struct.pack(">H", len(extensions)) + extensions)
    message = b"\x01" + struct.pack(">I", len(body))[1:] + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def first_record(server, sent):
    """(type, content) of what the server says first."""
    with socket.create_connection(server.address, timeout=20) as peer, peer.makefile("rb") as answer:
        peer.sendall(sent)
        head = answer.read(5)
        return head[0], answer.read(struct.unpack(">H", head[3:])[0])


def test_compression_is_not_agreed_to_when_offered(server):
    kind, content = first_record(server, hello([DEFLATE, NO_COMPRESSION]))
    assert (kind, content[0]) == (22, 2), "not a ServerHello"
    session_bytes = content[38]
    assert content[39 + session_bytes + 2] == NO_COMPRESSION


def test_a_client_that_only_wants_compression_is_refused(server):
    kind, content = first_record(server, hello([DEFLATE]))
    assert kind == 21 and content[0] == 2, "not a fatal alert"
