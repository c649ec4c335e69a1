"""Tokens of other libraries, without a server: tests/token/token_tool.c answers each token with an outcome.

`jose` signs one for each algorithm and kind. `aws-jwt-verify` judges 10,000 mutated ones: we accept nothing that it refuses, and
where we refuse more, it is by a rule that src/token/README.md lists. GATEHOUSE_TOKENS sets how many; GATEHOUSE_SEED replays a failure.
"""

import collections
import json
import os
import random
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
JS = Path(__file__).resolve().parent / "js"
TOOL = os.environ.get("GATEHOUSE_TOKEN_TOOL", ROOT / "build/tests/token/token_tool")
TOKENS = int(os.environ.get("GATEHOUSE_TOKENS", 10000))
TIMEOUT_S = 300

# What aws-jwt-verify accepts and we do not: see "What is refused" in src/token/README.md.
STRICTER = {
    "too-large", "malformed", "json", "duplicate-member", "header", "embedded-key", "critical", "type", "claim", "expired",
    "issued-in-future", "too-old",
}  # fmt: skip


def made(*arguments):
    """The set-up line, and the tokens that js/tokens.mjs made."""
    for package in ("jose", "aws-jwt-verify"):
        assert (JS / "node_modules" / package).is_dir(), f"run `npm ci` in {JS} first"
    done = subprocess.run(["node", "tokens.mjs", *arguments], cwd=JS, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    setup, *lines = done.stdout.splitlines()
    return setup, [json.loads(line) for line in lines]


def judged(setup, tokens):
    """Our outcome for each."""
    asked = "".join(line + "\n" for line in (setup, *(json.dumps(each["token"], ensure_ascii=True) for each in tokens)))
    done = subprocess.run([str(TOOL)], input=asked, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr[-4000:]
    outcomes = done.stdout.splitlines()
    assert len(outcomes) == len(tokens)
    return outcomes


def test_tokens_of_jose_are_valid_for_each_algorithm_and_kind():
    setup, tokens = made("good")
    assert len(tokens) == 7 * 5
    assert [(each["kind"], outcome) for each, outcome in zip(tokens, judged(setup, tokens))] == [(each["kind"], "valid") for each in tokens]
    assert all(each["aws"] in (True, None) for each in tokens)


def test_nothing_is_accepted_that_aws_jwt_verify_refuses():
    seed = os.environ.get("GATEHOUSE_SEED") or str(random.SystemRandom().randrange(2**31))
    print(f"GATEHOUSE_SEED={seed}")
    setup, tokens = made("mutated", str(TOKENS), seed)
    assert len(tokens) == TOKENS
    counts = collections.Counter()
    for each, outcome in zip(tokens, judged(setup, tokens)):
        if outcome == "valid":
            assert each["aws"], each
        elif each["aws"]:
            assert outcome in STRICTER, (outcome, each)
        counts[each["aws"], outcome] += 1
    print(sorted(counts.items(), key=str))
    assert counts[True, "valid"] > TOKENS / 20, "hardly any token was good: the mutations show little"
    assert sum(n for (aws, _), n in counts.items() if not aws) > TOKENS / 4
