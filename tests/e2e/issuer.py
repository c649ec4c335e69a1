"""A token issuer of one's own on loopback (js/issuer.mjs), and an identity file that names it."""

import http.client
import json
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

from conftest import HERE, stop

POOL = "local_AbCdEf123"


class Issuer:
    def __init__(self):
        js = HERE / "js"
        assert (js / "node_modules/jose").is_dir(), f"run `npm ci` in {js} first"
        self.process = subprocess.Popen(["node", "issuer.mjs"], cwd=js, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        self.connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=60)

    def control(self, **asked):
        self.connection.request("POST", "/control", json.dumps(asked), {"Content-Type": "application/json"})
        return json.loads(self.connection.getresponse().read())

    def claims(self, subject="user-1", **more):
        now = int(time.time())
        claims = {"iss": self.url, "sub": subject, "aud": "app", "iat": now - 5, "exp": now + 600, **more}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, subject="user-1", alg="RS256", kid=None, header=None, **more):
        claims = self.claims(subject, **more)
        return self.sign(alg, claims, kid, header)

    def sign(self, alg, claims, kid=None, header=None):
        return self.control(sign={"alg": alg, "claims": claims, "header": header or {}, **({"kid": kid} if kid else {})})["token"]

    def fetches(self):
        return self.control()["fetches"]

    def close(self):
        self.connection.close()
        self.process.stdin.close()
        stop(self.process)
        self.process.stdout.close()

    def identity(self, folder, **settings):
        """A file with this issuer, and its pool."""
        path = Path(folder, "identity.yaml")
        path.write_text(json.dumps({"issuers": [self.entry(**settings), self.pool()]}))  # JSON is YAML
        return path

    def entry(self, **settings):
        entry = {"issuer": self.url, "jwks_url": self.url + "/keys", "audiences": ["app"], "allow_private": True, "provider": "any",
                 "algorithms": ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"], **settings}  # fmt: skip
        return {name: value for name, value in entry.items() if value is not None}

    def pool(self):
        return {"cognito": {"pool": POOL, "clients": ["client-1"], "uses": ["access", "id"], "endpoint": self.url}, "allow_private": True}  # of the provider POOL
