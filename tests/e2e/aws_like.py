"""A proxy before a DynamoDB endpoint that refuses as AWS documents: tests/remote/aws_like.h, as a program. One that runs with its tables behind it meets
TransactionConflict. Used by tests and bench/remote."""

import json
import pathlib
import subprocess
import urllib.request
from urllib.parse import urlsplit

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "build/tests/remote/aws_like_tool"


class AwsLike:
    """Before the endpoint with that URL. `hold_us`: how long a write holds its items; `delay_us`: how far the endpoint is away."""

    def __init__(self, endpoint, hold_us=4000, delay_us=0):
        self.process = subprocess.Popen([str(TOOL), str(urlsplit(endpoint).port), "0", str(hold_us), str(delay_us)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def set(self, **what):
        """set(refuse={"TransactGetItems": 2}), also late, lose, mix, hold; release=True; holdUs, delayUs, mixUs, mixPercent, refusePercent, forget. Returns what it counted."""
        with urllib.request.urlopen(self.url + "/aws-like", json.dumps(what).encode()) as answer:
            return json.load(answer)

    def counted(self):
        """{"operations": {"GetItem": {"requests": 3, "refused": 0}}, "refusedReadUnits": 0, "refusedWriteUnits": 0, "late": 0}"""
        return self.set()

    def requests(self, operation):
        return self.counted()["operations"].get(operation, {"requests": 0})["requests"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
