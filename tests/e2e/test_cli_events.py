"""`gatehouse events`: following what happens, consumers, targets, dead letters and redriving them, from a shell."""
import json
import subprocess

import pytest

from conftest import program
from test_cli_remote import Cli, Own, shown
from webhooks import Sink, wait_for

pytestmark = pytest.mark.gatehouse_only


@pytest.fixture(scope="module")
def server():
    made = Own("--private-targets")
    yield made
    made.close()


@pytest.fixture
def cli(server):
    return Cli(server.endpoint)


@pytest.fixture
def sink():
    made = Sink()
    yield made
    made.close()


def suspended(cli, *names):
    for name in names:
        cli.ok("user", "create", name)
        cli.ok("user", "suspend", name)


def test_tail_prints_what_happened_and_ends_if_asked_to(cli):
    suspended(cli, "tail-1", "tail-2")
    events = cli.rows("events", "tail", "--once", "--subject", "tail-1")
    assert events[0]["type"] == "user.created" and "user.suspended" in [e["type"] for e in events]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    line = cli.ok("events", "tail", "--once", "--subject", "tail-2", "--types", "user.suspended").split()
    assert line[1:3] == ["user.suspended", "tail-2"]
    assert len(cli.rows("events", "tail", "--once", "--limit", "2")) == 2
    assert cli.rows("events", "tail", "--once", "--from", "last") == []
    after = str(events[0]["position"])
    assert all(e["position"] > events[0]["position"] for e in cli.rows("events", "tail", "--once", "--after", after))


def test_tail_follows(cli):
    with subprocess.Popen([program(), "events", "tail", "--json", "--subject", "follow-1", "--limit", "1"], stdout=subprocess.PIPE, text=True,
                          env=cli.environment) as tail:
        try:
            cli.ok("user", "create", "follow-1")
            for i in range(1000):  # until it has begun to wait
                cli.ok("user", "set", "follow-1", f"firstName=Ann{i}")
                if tail.poll() is not None:
                    break
            assert json.loads(tail.stdout.readline())["subject"] == "follow-1" and tail.wait() == 0
        finally:
            tail.kill()


def test_consumers_are_made_shown_moved_and_dropped(cli):
    suspended(cli, "consumed")
    made = cli.json("events", "set-consumer", "mailer", "types=user.*,email.added", "from=first", "partitions=4")
    assert (made["name"], made["types"], made["partitions"]) == ("mailer", ["user.*", "email.added"], 4)
    row = next(row for row in cli.rows("events", "consumers") if row["name"] == "mailer")
    assert row["lag"]["events"] > 0
    assert "mailer" in cli.ok("events", "consumers") and shown(cli.ok("events", "consumer", "mailer"))["name"] == "mailer"
    assert cli.json("events", "seek-consumer", "mailer", "from=last")["lag"]["events"] == 0
    cli.ok("events", "drop-consumer", "mailer")
    assert "404" in cli.refused("events", "consumer", "mailer")


def test_targets_are_made_tested_stopped_and_dropped(cli, sink):
    made = cli.json("events", "set-target", "hook", "type=webhook", f"url={sink.url}", "types=user.suspended", "lanes=2")
    assert made["secret"].startswith("whsec_") and made["lanes"] == 2
    assert cli.json("events", "test-target", "hook")["sent"] is True
    suspended(cli, "hooked")
    wait_for(lambda: any(e["subject"] == "hooked" for e in sink.events()))
    assert next(row for row in cli.rows("events", "targets") if row["name"] == "hook")["type"] == "webhook"
    assert wait_for(lambda: cli.rows("events", "tries", "hook"))[0]["status"] == 204 and "204" in cli.ok("events", "tries", "hook")
    assert cli.json("events", "disable-target", "hook")["enabled"] is False
    assert cli.json("events", "seek-target", "hook", "from=first")["redelivers"] > 0
    assert cli.json("events", "seek-target", "hook", "from=last")["skips"] > 0
    assert cli.json("events", "enable-target", "hook")["enabled"] is True
    assert cli.json("events", "rotate-secret", "hook", "keepOld=60")["secret"] != made["secret"]
    cli.ok("events", "drop-target", "hook")
    assert "404" in cli.refused("events", "target", "hook")


def test_a_long_name_does_not_touch_the_next_column(cli):
    long = "c" * 64
    cli.ok("events", "set-consumer", long)
    line = next(line for line in cli.ok("events", "consumers").splitlines() if long in line)
    assert line.split()[0] == long
    cli.ok("events", "drop-consumer", long)


def test_a_target_that_refuses_the_test_is_a_failure(cli, sink):
    sink.answer = lambda *_: 400
    cli.ok("events", "set-target", "refuses", "type=webhook", f"url={sink.url}", "types=user.erased")
    assert "did not accept" in cli.refused("events", "test-target", "refuses")
    cli.ok("events", "drop-target", "refuses")


def test_dead_letters_are_listed_shown_redriven_and_dropped(cli, sink):
    sink.answer = lambda event, *_: 400 if event["subject"].startswith("dead-") else 200
    cli.ok("events", "set-target", "poison", "type=webhook", f"url={sink.url}", "types=user.suspended", "tries=1")
    suspended(cli, "dead-1", "dead-2", "dead-3")
    letters = wait_for(lambda: len(rows := cli.rows("events", "dead-letters", "--target", "poison")) == 3 and rows)
    assert {row["subject"] for row in letters} == {"dead-1", "dead-2", "dead-3"}
    first, second, third = sorted(letters, key=lambda row: row["subject"])
    assert [row["id"] for row in cli.rows("events", "dead-letters", "--subject", "dead-2")] == [second["id"]]
    assert cli.json("events", "dead-letter", "poison", first["id"])["event"]["subject"] == "dead-1"
    cli.ok("events", "drop-dead-letter", "poison", third["id"])
    sink.answer = lambda *_: 200
    cli.ok("events", "redrive", "poison", first["id"])
    wait_for(lambda: any(e["subject"] == "dead-1" for e in sink.events()))
    assert cli.json("events", "redrive", "--all", "--target", "poison", "--dry-run")["state"] == "done"
    assert len(cli.rows("events", "dead-letters", "--target", "poison")) == 1
    cli.ok("events", "redrive", "--all", "--target", "poison")
    wait_for(lambda: any(e["subject"] == "dead-2" for e in sink.events()))
    assert not any(e["subject"] == "dead-3" for e in sink.events())
    wait_for(lambda: cli.rows("events", "dead-letters", "--target", "poison") == [])
    cli.ok("events", "drop-target", "poison")


@pytest.mark.parametrize("words, complaint", [
    (("tail", "--after", "1", "--from", "first"), "not both"),
    (("tail", "--timeout", "5"), "--timeout"),
    (("set-target", "x", "url"), "FIELD=VALUE"),
    (("set-target", "x", "type=webhook", "secret=whsec_AAAA"), "--settings"),
    (("set-target", "x", "--settings", "/dev/null"), "JSON object"),
    (("set-target", "x", "type=carrier-pigeon"), "type"),
    (("set-consumer", "x", "types=user.cretaed"), "types"),
    (("set-consumer", "x", "types=user.created,"), "types"),
    (("tail", "--once", "--types", "user.created,"), "types"),
    (("redrive", "only-one"), "TARGET and ID"),
    (("redrive", "--all", "a", "b"), "TARGET and ID"),
])
def test_mistakes_are_named(cli, words, complaint):
    assert complaint in cli.refused("events", *words, status=2)


def test_secrets_come_from_a_file(cli, sink, tmp_path):
    path = tmp_path / "target.json"
    path.write_text(json.dumps({"type": "webhook", "url": sink.url, "secret": "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldY"}))
    assert "secret" not in cli.json("events", "set-target", "filed", "--settings", str(path))  # who gave it, has it
    assert cli.json("events", "set-target", "filed", "types=user.erased", "--settings", "-", text=path.read_text())["types"] == ["user.erased"]
    cli.ok("events", "drop-target", "filed")
