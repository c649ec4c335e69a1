"""The aws cli as the tests use it: Debian's program, at the test's endpoint, with JSON out."""

import json
import subprocess

AWS = "/usr/bin/aws"
TIMEOUT_S = 60


class Cli:
    def __init__(self, endpoint, env):
        self.endpoint, self.env = endpoint, env

    def run(self, *arguments):
        """Runs `aws dynamodb …` and returns what it did, whatever that was."""
        command = [AWS, "dynamodb", *arguments, "--endpoint-url", self.endpoint, "--output", "json"]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=TIMEOUT_S)

    def __call__(self, *arguments):
        """The answer as JSON; None if the command prints nothing."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    def refused(self, *arguments):
        """The error's text; the command must fail."""
        done = self.run(*arguments)
        assert done.returncode != 0, "the command was not refused"
        return done.stderr
