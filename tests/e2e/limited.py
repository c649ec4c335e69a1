"""A server with limits of its own: policies in a file, requests as bytes, everything stopped and removed at the end."""
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

from conftest import line_with_endpoint, program, stop
from wire import Wire, as_bytes


class Limited:
    def __init__(self, policies, *options, auth=False):
        self.data = tempfile.mkdtemp(prefix="gatehouse-limits-")
        self.file = Path(self.data, "policies.yaml")
        if policies is not None:
            self.file.write_text(policies)
        self.auth = auth
        self.options = options
        self.start()

    def start(self):
        command = [program(), "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--metrics-ms", "1", *self.options]
        command += ["--policies", str(self.file)] if self.file.exists() else []
        self.process = subprocess.Popen(command + ([] if self.auth else ["--no-auth"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.endpoint = line_with_endpoint(self.process)
        self.wire = Wire(self.endpoint)

    def post(self, path, body, headers=None):
        return self.wire.send("POST", path, as_bytes(body), headers or {})

    def get(self, path, headers=None):
        return self.wire.send("GET", path, None, headers or {})

    def allow(self, policy, key, cost=1):
        reply = self.post("/v1/allow", {"policy": policy, "key": key, "cost": cost})
        assert reply.status == 200, reply.body
        return reply.json()

    def metric(self, line):
        """The value of a sample, by its name and labels."""
        for sample in self.get("/metrics").body.decode().splitlines():
            if sample.startswith(line + " "):
                return float(sample.rsplit(" ", 1)[1])
        return None

    def halt(self):
        self.wire.close()
        stop(self.process)
        return self.process.stderr.read().decode()

    def close(self):
        self.halt()
        shutil.rmtree(self.data, ignore_errors=True)


def fresh(hint="key"):
    """A key that nobody else uses."""
    return f"{hint}-{uuid.uuid4().hex[:12]}"
