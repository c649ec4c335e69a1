"""Certificates for a test run, made by the openssl command: a CA of our own and whatever it signs."""

import shutil
import subprocess
import tempfile
from pathlib import Path

HOSTS = "subjectAltName=DNS:localhost,IP:127.0.0.1"
KEYS = {"ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["-newkey", "rsa:2048"]}


def openssl(*arguments, text=""):
    return subprocess.run(["openssl", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=30)


class Certificates:
    """A directory of NAME.crt and NAME.key; "ca" has signed them all but those of "stranger-ca"."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="gatehouse-certificates-"))
        self.make("ca")
        self.make("stranger-ca")

    def make(self, name, by=None, kind="ec", hosts=HOSTS):
        signed = ["-CA", self.crt(by), "-CAkey", self.key(by), "-addext", "basicConstraints=critical,CA:FALSE"]
        done = openssl("req", "-x509", "-nodes", "-days", "2", *KEYS[kind], "-keyout", self.key(name), "-out", self.crt(name),
                       "-subj", f"/CN={name}", "-addext", hosts, *(signed if by else []))
        assert done.returncode == 0, done.stderr
        return name

    def crt(self, name):
        return self.directory / f"{name}.crt"

    def key(self, name):
        return self.directory / f"{name}.key"

    def put(self, name, to):
        """Makes `to` the same certificate as `name`; each file changes in one step."""
        for file in (self.crt, self.key):
            shutil.copy(file(name), f"{file(to)}.new")
            Path(f"{file(to)}.new").rename(file(to))

    def release(self):
        shutil.rmtree(self.directory, ignore_errors=True)
