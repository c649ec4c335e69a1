"""Random policies and requests: the server's engine and the evaluator beside this file must agree on every decision.

A batch has a seed, which is printed when it fails: `SEED=n` runs that one alone. `ACCESS_PAIRS` and `ACCESS_DECIDE`
choose how many pairs are judged and which program judges them.
"""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from evaluator import decide  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DECIDE = os.environ.get("ACCESS_DECIDE", str(ROOT / "build" / "tests" / "access" / "decide"))
PAIRS = int(os.environ.get("ACCESS_PAIRS", "100000"))
BATCHES, REQUESTS = 10, 5

ACTIONS = ["dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan", "dynamodb:PutItem",
           "dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:ListTables", "gatehouse:Check", "kms:Decrypt"]
REGIONS, ACCOUNTS = ["eu-west-1", "eu-west-2", "us-east-1"], ["123456789012", "111111111111"]
TABLES = ["Users", "Users2", "User", "devices-dev", "devices.prod", "a"]
TEXTS = ["a", "b", "ab", "aab", "abab", "user-1", "user-2", "USER-1", "ALL_ATTRIBUTES", "COUNT", "", "é", "aéb", "日本", "a*b",
         "x?y", "*", "a\nb", "a.b", "(a", "[a]", "ſ", "K", "\0"]
ADDRESSES = ["10.0.0.1", "10.1.2.3", "192.168.1.77", "203.0.113.9", "::1", "2001:db8::1", "2001:db8:8000::1",
             "::ffff:10.0.0.1", "0.0.0.0", "255.255.255.255"]
RANGES = ["10.0.0.0/8", "10.0.0.1", "10.0.0.0/31", "10.9.9.9/15", "192.168.1.64/26", "0.0.0.0/0", "::/0", "2001:db8::/33",
          "2001:db8::/32", "::1", "::ffff:10.0.0.0/104", "::ffff:0:0/96", "fe80::/10", "203.0.113.9/32", "128.0.0.0/1"]
TIMES = [1700000000, 1709164800, 1709164799, 0, 951782400]
DATES = ["2024-02-29", "2024-02-29T00:00:00Z", "2024-02-28T23:59:59Z", "2024-02-29T02:00+02:00", "2000-02-29T00:00:00Z",
         "2023-11-14T22:13:20Z", "2023-11-14T17:13:20.500000-05:00", "1970-01-01", "1709164800", 1700000000, "0"]
NUMBERS = ["1700000000", "1700000000.0", "1699999999.999999", 1709164800, "0", "-1", "951782400.5", 0]
STRING_KEYS = ["dynamodb:Select", "dynamodb:ReturnValues", "dynamodb:ReturnConsumedCapacity", "dynamodb:EnclosingOperation"]
MANY_KEYS = ["dynamodb:LeadingKeys", "dynamodb:Attributes"]
STRINGS = ["StringEquals", "StringNotEquals", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase", "StringLike",
           "StringNotLike"]
ORDERS = ["Equals", "NotEquals", "LessThan", "LessThanEquals", "GreaterThan", "GreaterThanEquals"]


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def maybe(self, chance):
        return self.r.random() < chance

    def some(self, make, most=3):
        """One value, or a list of some."""
        return make() if self.maybe(0.5) else [make() for _ in range(self.r.randint(1, most))]

    def wild(self, text):
        """The text with stars and question marks in some places."""
        out = list(text)
        for _ in range(self.r.randint(0, 4)):
            at = self.r.randint(0, len(out))
            kind = self.r.randrange(4)
            if kind == 0:
                out[at:at] = "*"
            elif kind == 1:
                out[at:at + self.r.randint(1, 4)] = "*"
            elif kind == 2 and at < len(out):
                out[at] = "?"
            elif kind == 3:
                out[at:at] = "?"
        return "".join(out)

    def case(self, text):
        return "".join(c.swapcase() if self.maybe(0.3) else c for c in text) if self.maybe(0.3) else text

    def action_pattern(self):
        if self.maybe(0.15):
            return "*"
        service, name = self.r.choice(ACTIONS).split(":")
        return self.case(service + ":" + (self.wild(name) if self.maybe(0.6) else name or "*") or "*")

    def tail(self):
        index = "/index/" + self.r.choice(["ByEmail", "x", "Users"]) if self.maybe(0.3) else ""
        return "table/" + self.r.choice(TABLES) + index

    def resource(self):
        if self.maybe(0.1):
            return self.r.choice(["*", "arn:aws:s3:::bucket/a:b", "arn:aws:dynamodb", ""])
        return ":".join(["arn:aws:dynamodb", self.r.choice(REGIONS), self.r.choice(ACCOUNTS), self.tail()])

    def resource_pattern(self):
        if self.maybe(0.15):
            return "*"
        if self.maybe(0.1):
            return "arn:aws:dynamodb:" + self.r.choice(["*", "eu-*", "eu-west-1:*", "eu-west-1:1234*", "us-*:*"])
        parts = ["aws", "dynamodb", self.r.choice(REGIONS), self.r.choice(ACCOUNTS), self.tail()]
        for i in (0, 2, 3, 4):
            if self.maybe(0.35):
                parts[i] = self.r.choice(["*", self.wild(parts[i])]) or "*"
        return "arn:" + ":".join(parts)

    def prefix(self, spelled, many):
        if many or self.maybe(0.15):
            spelled = self.r.choice(["ForAllValues:", "ForAnyValue:"]) + spelled
        return spelled + ("IfExists" if self.maybe(0.2) else "")

    def string_value(self, operator):
        if "Like" in operator:
            return self.wild(self.r.choice(TEXTS))
        if "IgnoreCase" in operator:
            return self.case(self.r.choice([text for text in TEXTS if text.isascii()]))
        return self.r.choice(TEXTS)

    def condition(self):
        """An operator, a key, and values for them."""
        kind = self.r.randrange(10)
        if kind < 4:
            operator, key = self.r.choice(STRINGS), self.r.choice(MANY_KEYS if kind < 3 else STRING_KEYS)
            return self.prefix(operator, kind < 3), key, self.some(lambda: self.string_value(operator))
        if kind == 4:
            return "Null", self.r.choice(MANY_KEYS + STRING_KEYS + ["aws:SourceIp"]), self.r.choice(["true", "false", True])
        if kind == 5:
            return self.prefix("Bool", False), "aws:SecureTransport", self.r.choice(["true", "false", "True", False])
        if kind == 6:
            return self.prefix("Numeric" + self.r.choice(ORDERS), False), "aws:EpochTime", self.some(
                lambda: self.r.choice(NUMBERS))
        if kind == 7:
            return self.prefix("Date" + self.r.choice(ORDERS), False), self.r.choice(
                ["aws:CurrentTime", "aws:EpochTime"]), self.some(lambda: self.r.choice(DATES))
        return self.prefix(self.r.choice(["IpAddress", "NotIpAddress"]), False), "aws:SourceIp", self.some(
            lambda: self.r.choice(RANGES))

    def statement(self):
        out = {"Effect": self.r.choice(["Allow", "Allow", "Deny"])}
        out["Action" if self.maybe(0.85) else "NotAction"] = self.some(self.action_pattern)
        out["Resource" if self.maybe(0.85) else "NotResource"] = self.some(self.resource_pattern)
        if self.maybe(0.6):
            out["Condition"] = {}
            for operator, key, values in (self.condition() for _ in range(self.r.randint(1, 2))):
                out["Condition"].setdefault(operator, {})[key] = values
        return out

    def policy(self):
        statements = [self.statement() for _ in range(self.r.randint(1, 4))]
        one = len(statements) == 1 and self.maybe(0.5)
        return json.dumps({"Version": "2012-10-17", "Statement": statements[0] if one else statements},
                          ensure_ascii=self.maybe(0.5))

    def request(self):
        context = {}
        for key in MANY_KEYS:
            if self.maybe(0.6):
                context[self.case(key)] = [self.r.choice(TEXTS) for _ in range(self.r.randint(0, 3))]
        for key in STRING_KEYS:
            if self.maybe(0.5):
                context[key] = self.r.choice(TEXTS)
        for key, values in (("aws:SourceIp", ADDRESSES), ("aws:SecureTransport", [True, False]),
                            ("aws:CurrentTime", TIMES), ("aws:EpochTime", TIMES)):
            if self.maybe(0.7):
                context[key] = self.r.choice(values)
        return {"action": self.case(self.r.choice(ACTIONS)), "resource": self.resource(), "context": context}

    def case_of(self):
        return {"policies": [self.policy() for _ in range(self.r.choice([0, 1, 1, 1, 2, 3]))],
                "requests": [self.request() for _ in range(REQUESTS)]}


def judge(cases):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    run = subprocess.run([DECIDE], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return run.stdout.splitlines()


def seeds():
    if "SEED" in os.environ:
        return [int(os.environ["SEED"])]
    start = random.SystemRandom().randrange(1 << 32)
    return range(start, start + BATCHES)


@pytest.mark.parametrize("seed", seeds())
def test_both_evaluators_agree(seed):
    print("seed", seed)
    generator = Generator(seed)
    cases = [generator.case_of() for _ in range(PAIRS // BATCHES // REQUESTS)]
    answers = judge(cases)
    assert len(answers) == len(cases)
    seen = {}
    for case, answer in zip(cases, answers):
        documents = [json.loads(text) for text in case["policies"]]
        expected = [decide(documents, request) for request in case["requests"]]
        assert answer.split() == expected, f"seed {seed}: {json.dumps(case)}"
        for word in expected:
            seen[word.split(":")[0]] = seen.get(word.split(":")[0], 0) + 1
    print(seen)
    for decision in ("allowed", "denied", "default"):  # a test of one outcome would show little
        assert seen.get(decision, 0) > PAIRS // BATCHES // 20, seen
