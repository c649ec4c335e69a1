"""botocore signs requests of every kind; canonical request, string to sign and signature must be ours byte for byte.

Needs no server: tests/dynamo/sigv4_tool.c answers a line of JSON with a line of JSON. GATEHOUSE_SIGV4_TOOL names
another program than the one in build/; GATEHOUSE_SEED replays a failure.
"""

import base64
import calendar
import json
import os
import random
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import boto3
import pytest
from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = os.environ.get("GATEHOUSE_SIGV4_TOOL", ROOT / "build/tests/dynamo/sigv4_tool")
REQUESTS = 4000
SERVICE = "dynamodb"

REGIONS = ["us-east-1", "eu-central-1", "ap-southeast-2", "us-gov-west-1", "cn-north-1", "local"]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MARKS = "!#$&'()*+,/:;=?@[]\"<>\\^`{|}%-._~ "
BEYOND = "äßéñ漢字ሴ🔑Ω\u200b"
HEADER_NAMES = ["X-Amz-Target", "Content-Type", "Accept", "My-Header1", "zeta", "a", "X-Amz-Meta_1", "X-Amz-User-Agent",
                "Amz-Sdk-Request", "Content-Length", "Content-MD5", "X-Forwarded-For", "Range", "If-Match"]


class Tool:
    def __init__(self):
        self.process = subprocess.Popen([str(TOOL)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def tool():
    tool = Tool()
    yield tool
    tool.close()


# ---- random requests ----


def word(rng, alphabet, least, most):
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(least, most)))


def random_path(rng):
    """DynamoDB's is always "/"; the others show that normalising and encoding agree."""
    if rng.random() < 0.3:
        return rng.choice(["", "/"])
    parts = []
    for _ in range(rng.randint(1, 6)):
        kind = rng.random()
        if kind < 0.25:
            parts.append(rng.choice(["", ".", "..", "...", "%2e%2E", "a.", "%2F", "%zz"]))
        elif kind < 0.6:
            parts.append(quote(word(rng, LETTERS + MARKS + BEYOND, 1, 8), safe=""))
        else:
            parts.append(quote(word(rng, LETTERS + "-._~!$&'()*+,;=:@", 1, 8), safe="-._~!$&'()*+,;=:@"))
    return "/" + "/".join(parts)


def random_query(rng):
    if rng.random() < 0.4:
        return ""
    alphabet = LETTERS + MARKS + BEYOND
    pairs = []
    for _ in range(rng.randint(1, 8)):
        name = rng.choice(["a", "A", "b", "aa", "a-", "a=", word(rng, alphabet, 0, 6)])
        pairs.append(quote(name, safe="-._~") + "=" + quote(word(rng, alphabet, 0, 6), safe="-._~"))
    return "&".join(pairs)


def random_value(rng):
    """Words with runs of blanks between and around them; not Unicode's own blanks, which botocore folds too."""
    words = [word(rng, LETTERS + MARKS.replace(" ", "") + BEYOND, 1, 12) for _ in range(rng.randint(0, 4))]
    text = rng.choice(["", " ", "   ", "\t"])
    for each in words:
        text += each + rng.choice(["", " ", "  ", " \t ", "     "])
    return text


def random_headers(rng, host):
    headers = [("Host", host)]
    for _ in range(rng.randint(0, 8)):
        name = rng.choice(HEADER_NAMES)
        name = rng.choice([name, name.lower(), name.upper()])
        headers.append((name, random_value(rng)))
    if rng.random() < 0.3:
        headers.append((rng.choice(["User-Agent", "Expect", "X-Amzn-Trace-Id"]), random_value(rng)))
    rng.shuffle(headers)
    return headers


def random_body(rng):
    kind = rng.random()
    if kind < 0.1:
        return b""
    if kind < 0.5:
        return json.dumps({word(rng, LETTERS, 1, 9): {"S": word(rng, LETTERS + BEYOND, 0, 40)}}).encode()
    return rng.randbytes(rng.choice([1, 55, 56, 63, 64, 65, 119, 120, 500, rng.randint(0, 5000)]))


class Signed:
    """A random request, the steps of botocore's signature over it, and what the tool is asked."""

    def __init__(self, rng):
        self.time = rng.randint(10**6, 4102444799)
        host = rng.choice(["table.example", "127.0.0.1:8420", "[::1]:8000", "LOCALHOST"])
        self.path, self.query = random_path(rng), random_query(rng)
        url = f"http://{host}{self.path}" + (f"?{self.query}" if self.query else "")
        self.method = rng.choice(["POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"])
        self.headers, self.body = random_headers(rng, host), random_body(rng)
        self.dated = rng.random() < 0.2
        token = word(rng, LETTERS + "+/=", 20, 300) if rng.random() < 0.3 else None
        self.credentials = Credentials(word(rng, LETTERS, 16, 24), word(rng, LETTERS + "+/", 1, 60), token)
        self.region = rng.choice(REGIONS)
        self.sign(AWSRequest(self.method, url, headers=None, data=self.body))

    def sign(self, request):
        for name, value in self.headers:
            request.headers.add_header(name, value)
        if self.dated:
            request.headers.add_header("Date", "replaced by botocore")
        assert urlsplit(request.url).path == self.path
        auth = SigV4Auth(self.credentials, SERVICE, self.region)
        request.context["timestamp"] = time.strftime(SIGV4_TIMESTAMP, time.gmtime(self.time))
        auth._modify_request_before_signing(request)
        self.canonical = auth.canonical_request(request)
        self.string_to_sign = auth.string_to_sign(request, self.canonical)
        auth._inject_signature_to_request(request, auth.signature(self.string_to_sign, request))
        self.authorization = request.headers["Authorization"]
        self.sent = [[name, value] for name, value in request.headers.items()]

    def question(self, **changes):
        return {
            "method": self.method, "path": self.path, "query": self.query, "service": SERVICE, "headers": self.sent,
            "sign_headers": self.headers, "body": base64.b64encode(self.body).decode(), "now": self.time,
            "key_id": self.credentials.access_key, "secret": self.credentials.secret_key,
            "token": self.credentials.token or "", "region": self.region, **changes,
        }  # fmt: skip


@pytest.fixture(scope="module")
def rng():
    seed = int(os.environ.get("GATEHOUSE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"GATEHOUSE_SEED={seed}")
    return random.Random(seed)


# ---- what is shown ----


def test_every_step_of_the_signature_agrees_with_botocore(tool, rng):
    for _ in range(REQUESTS):
        signed = Signed(rng)
        answer = tool.ask(signed.question())
        assert answer["canonical"] == signed.canonical
        assert answer["string_to_sign"] == signed.string_to_sign
        assert (answer["verdict"], answer["text"]) == ("", ""), signed.sent
        assert answer["token"] == (signed.credentials.token or "")
        if not signed.dated:
            assert answer["authorization"] == signed.authorization


def test_another_secret_key_body_or_region_does_not_pass(tool, rng):
    for _ in range(200):
        signed = Signed(rng)
        mismatch = "InvalidSignatureException"
        assert tool.ask(signed.question(secret=signed.credentials.secret_key + "x"))["verdict"] == mismatch
        assert tool.ask(signed.question(key_id="other"))["verdict"] == "UnrecognizedClientException"
        body = base64.b64encode(signed.body + b" ").decode()
        assert tool.ask(signed.question(body=body))["verdict"] == mismatch
        elsewhere = [[name, value.replace(signed.region, "mars-1")] for name, value in signed.sent]
        assert tool.ask(signed.question(headers=elsewhere))["verdict"] == mismatch


def test_fifteen_minutes_either_way_and_no_second_more(tool, rng):
    for _ in range(50):
        signed = Signed(rng)
        for offset, verdict in ((-900, ""), (900, ""), (-901, "InvalidSignatureException"),
                                (901, "InvalidSignatureException")):  # fmt: skip
            assert tool.ask(signed.question(now=signed.time + offset))["verdict"] == verdict


def test_what_a_real_client_sends_passes(tool):
    """boto3's own client, stopped where the request would leave."""
    client = boto3.client("dynamodb", region_name="eu-west-1", endpoint_url="http://127.0.0.1:1",
                          aws_access_key_id="AKIDEXAMPLE", aws_secret_access_key="secret+/secret")  # fmt: skip
    seen = []

    class Stop(Exception):
        pass

    def stop(request, **_):
        seen.append(request)
        raise Stop

    client.meta.events.register("before-send.dynamodb.*", stop)
    with pytest.raises(Stop):
        client.update_item(TableName="users", Key={"pk": {"S": "user#ä"}}, UpdateExpression="SET a = :a",
                           ExpressionAttributeValues={":a": {"N": "1"}})  # fmt: skip
    headers = [[name, value if isinstance(value, str) else value.decode()] for name, value in seen[0].headers.items()]
    stamp = dict((name.lower(), value) for name, value in headers)["x-amz-date"]
    answer = tool.ask({
        "method": "POST", "path": "/", "query": "", "service": SERVICE, "headers": headers, "sign_headers": [],
        "body": base64.b64encode(seen[0].body).decode(), "key_id": "AKIDEXAMPLE", "secret": "secret+/secret",
        "now": calendar.timegm(time.strptime(stamp, SIGV4_TIMESTAMP)), "token": "", "region": "eu-west-1",
    })  # fmt: skip
    assert (answer["verdict"], answer["text"]) == ("", "")
