"""Rules of one's own under /v1: what is counted by source or by method, and what is answered when it cannot be."""

import uuid
from urllib.parse import quote

import pytest

from v1 import Server, attempt

pytestmark = pytest.mark.gatehouse_only
MFA = "MFA_CODE_ENTRY"


@pytest.fixture
def server(tmp_path):
    """server(types): one whose journey SIGN_IN has these types, as lines of YAML."""
    servers = []

    def start(types, locks="STANDARD: {duration: 60}", more=""):
        lines = ["attempts:", "  locks:", f"    {locks}", "  journeys:", "    SIGN_IN:", "      types:"]
        policies = tmp_path / f"policies-{len(servers)}.yaml"
        policies.write_text("\n".join(lines + [f"        {line}" for line in types] + [more, ""]))
        servers.append(Server("--policies", str(policies)))
        return servers[-1].v1

    yield start
    for one in servers:
        one.close()


def check(v1, subject, *actions, **more):
    return v1.post("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": list(actions), **more})


def total(v1, subject, prefix):
    answer = v1.send("GET", f"/v1/subjects/{subject}/sum?prefix={quote(prefix, safe='')}", b"", {})
    assert answer.status == 200, answer.body
    return answer.json()["sum"]


# ---- sums ----


def test_a_sum_includes_what_a_lock_of_one_device_moved_aside(v1, subject):
    assert v1.record(subject, MFA, times=6, method_id="phone-1")["verdict"] == "locked"
    seen = check(v1, subject, MFA, method_id="phone-2").json()["actions"][MFA]
    assert (seen["count"], seen["max"]) == (6, 11)
    assert total(v1, subject, f"SIGN_IN#ERROR_COUNT#{MFA}") == 6
    assert total(v1, subject, f"SIGN_IN#ERROR_COUNT#{MFA}#phone-1") == 6


def test_a_prefix_ends_where_a_part_of_the_key_ends(v1, subject):
    v1.record(subject, MFA, method_id="phone-1")
    v1.record(subject, MFA, times=2, method_id="phone-10")
    name = f"SIGN_IN#ERROR_COUNT#{MFA}"
    assert total(v1, subject, f"{name}#phone-1") == 1
    assert total(v1, subject, name) == total(v1, subject, f"{name}#") == total(v1, subject, "SIGN_IN") == 3
    assert v1.send("GET", f"/v1/subjects/{subject}/sum?prefix=SIGN", b"", {}).status == 422
    rows = v1.send("GET", f"/v1/subjects/{subject}?prefix={quote(name, safe='')}%23phone-1", b"", {}).json()["counts"]
    assert [row["qualifier"] for row in rows] == ["phone-1"]


# ---- what a rule counts by ----


def test_an_attempt_by_method_without_one_is_refused_and_locks_nothing(v1, subject):
    for outcome in ("failure", "success"):
        for _ in range(6):
            answer = v1.attempts(attempt(subject, MFA, outcome=outcome))
            assert (answer.status, answer.json()["field"]) == (422, "method_id")
    assert check(v1, subject, MFA, method_id="phone-1").json()["actions"][MFA]["count"] == 0
    assert check(v1, subject, MFA).status == 200  # a page that offers the methods


def test_a_rule_by_source_refuses_an_attempt_without_a_source(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max_of_source: 3, life: 600}"])
    for answer in (v1.attempts(attempt(subject)), v1.attempts(attempt(subject, context={"device_token": "d"})),
                   v1.attempts(attempt(subject, outcome="success")), check(v1, subject, "PASSWORD_ENTRY")):
        assert (answer.status, answer.json()["field"]) == (422, "context.ip")
    assert v1.record(subject, context={"ip": "192.0.2.1"})["counted"] is True


def test_a_rule_that_skips_attempts_without_a_source_says_that_it_did_not_count_them(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max_of_source: 3, life: 600, without_source: skip}",
                 "PIN_ENTRY: {max: 3, max_from_source: 2, life: 600, without_source: skip}"])
    answer = v1.record(subject, times=5)
    assert (answer["verdict"], answer["counted"]) == ("allow", False) and "counts" not in answer
    answer = v1.record(subject, "PIN_ENTRY")  # the subject is counted all the same
    assert (answer["counted"], answer["counts"]["PIN_ENTRY"]["count"]) == (True, 1)
    assert v1.record(subject, times=3, context={"ip": "192.0.2.1"})["verdict"] == "locked"


def test_a_lock_by_hand_that_no_type_heeds_is_refused(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max: 3, life: 600, blocked_by: [HEEDED]}"], more="      locks: [HEEDED, UNHEEDED]")

    def lock(name):
        return v1.send("PUT", f"/v1/subjects/{subject}/locks/SIGN_IN/{name}", b'{"kind": "STANDARD"}', {})

    assert lock("HEEDED").status == 200 and v1.record(subject)["verdict"] == "locked"
    answer = lock("UNHEEDED")
    assert (answer.status, answer.json()["field"]) == (422, "name")


# ---- challenges, denied networks, spraying ----


def test_a_challenge_is_asked_for_reported_and_ended(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max: 2, life: 600, at_max: challenge, lock_at: 4}"])
    reached = v1.record(subject, times=2)
    assert (reached["verdict"], reached["reason"], reached["first_time"], reached["counted"]) == ("challenge", "challenge", True, True)
    assert 590 <= reached["retry_after"] <= 600
    assert check(v1, subject, "PASSWORD_ENTRY").json()["verdict"] == "challenge"
    assert check(v1, subject, "PASSWORD_ENTRY", challenge="none").json()["verdict"] == "challenge"
    assert check(v1, subject, "PASSWORD_ENTRY", challenge="passed").json()["verdict"] == "allow"
    assert check(v1, subject, "PASSWORD_ENTRY", challenge="maybe").status == 422
    enforced = v1.post("/v1/check?enforce=status", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]})
    assert enforced.status == 403
    without = v1.record(subject, outcome="success")
    assert (without["verdict"], without["counted"]) == ("challenge", False) and "cleared" not in without
    wrong = v1.record(subject, challenge="passed")
    assert (wrong["verdict"], wrong["counted"], wrong["counts"]["PASSWORD_ENTRY"]["count"]) == ("challenge", True, 3)
    right = v1.record(subject, outcome="success", challenge="passed")
    assert right["verdict"] == "allow" and right["cleared"][0]["count"] == 3
    assert check(v1, subject, "PASSWORD_ENTRY").json()["verdict"] == "allow"
    assert v1.record(subject, times=4, challenge="passed")["verdict"] == "locked"
    assert check(v1, subject, "PASSWORD_ENTRY", challenge="passed").json()["verdict"] == "locked"
    assert v1.record(subject, outcome="success", challenge="passed")["verdict"] == "locked"
    answer = v1.attempts(attempt(subject, challenge="maybe"))
    assert (answer.status, answer.json()["field"]) == (422, "challenge")
    metrics = v1.send("GET", "/metrics", b"", {}).body.decode()
    assert any("gatehouse_verdicts_total" in line and 'verdict="challenge"' in line and not line.endswith(" 0")
               for line in metrics.splitlines())


def test_a_denied_network_is_blocked_even_where_it_is_allowed(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max: 3, life: 600}"],
                more='  allow_sources: [192.0.2.0/24]\n  deny_sources: [192.0.2.128/25, "2001:db8::/32"]')
    for ip in ("192.0.2.128", "::ffff:192.0.2.200", "2001:db8:1::1"):
        answer = v1.record(subject, outcome="success", context={"ip": ip})
        assert (answer["verdict"], answer["reason"], answer["counted"]) == ("blocked", "source_denied", False)
        assert check(v1, subject, "PASSWORD_ENTRY", context={"ip": ip}).json()["reason"] == "source_denied"
    assert v1.record(subject, context={"ip": "192.0.2.127"})["verdict"] == "allow"
    assert v1.record(subject)["verdict"] == "allow"


def test_one_source_that_tries_sixty_accounts_is_stopped_by_what_ships(v1, subject):
    source = {"ip": f"2001:db8:{int(subject[-4:], 16):x}:1::1"}
    answers = [v1.record(f"{subject}-{i}", context=source) for i in range(60)]
    assert sum(answer["counted"] for answer in answers) == 50
    assert [answer["verdict"] for answer in answers[49:]] == ["locked"] * 11
    assert answers[49]["lock"]["kind"] == "SOURCE" and answers[49]["retry_after"] == 300
    assert v1.record(f"{subject}-60", context=source, outcome="success")["verdict"] == "locked"
    assert v1.record(f"{subject}-60", outcome="success")["verdict"] == "allow"  # its owner, from elsewhere


def test_nothing_is_begun_without_the_challenge_and_what_was_begun_with_it_can_succeed(server, subject):
    v1 = server(["PASSWORD_ENTRY: {max: 2, life: 600, at_max: challenge}"])
    v1.record(subject, times=2)
    begin = {"subject": subject, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY"}
    without = v1.post("/v1/attempts/begin", begin).json()
    assert (without["verdict"], without["counted"]) == ("challenge", False) and "attempt" not in without
    begun = v1.post("/v1/attempts/begin", {**begin, "challenge": "passed"}).json()
    assert begun["verdict"] == "allow"
    done = v1.post("/v1/attempts/finish", {"attempt": begun["attempt"], "outcome": "success"}).json()
    assert done["verdict"] == "allow"
    assert check(v1, subject, "PASSWORD_ENTRY").json()["verdict"] == "allow"


# ---- many locks at once ----


# What is told of a lock takes room, too; and more of it if it was begun, and is told of later.
@pytest.mark.parametrize("step, fits, events", [("/v1/attempts", 10, "events: {types: []}"), ("/v1/attempts", 8, ""),
                                                ("/v1/attempts/begin", 10, "events: {types: []}"), ("/v1/attempts/begin", 7, "")])
def test_the_attempt_at_the_maximum_sets_as_many_locks_as_fit_and_more_are_refused_from_the_first_try(server, step, fits, events):
    v1 = server(["FITS: {max: 2, life: 60, sets: [%s]}" % ", ".join(f"L{i}" for i in range(fits)),
                 "TOO_MANY: {max: 2, life: 60, sets: [%s]}" % ", ".join(f"L{i}" for i in range(fits + 1))], more=events)
    outcome = {} if step.endswith("begin") else {"outcome": "failure"}

    def fail(kind, subjects):
        return v1.post(step, {"subjects": subjects, "journey": "SIGN_IN", "type": kind, **outcome},
                       idempotency_key=uuid.uuid4().hex)

    eight = [f"subject-{i}" for i in range(8)]
    answers = [fail("FITS", eight) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert check(v1, eight[7], "FITS").json()["verdict"] == "locked"
    refused = fail("TOO_MANY", [f"other-{i}" for i in range(8)])
    assert (refused.status, refused.json()["field"]) == (422, "subjects")
    assert fail("TOO_MANY", [f"other-{i}" for i in range(7)]).status == 200
    if step.endswith("begin"):
        finish = {"attempt": answers[1].json()["attempt"], "outcome": "failure"}
        assert v1.post("/v1/attempts/finish", finish, idempotency_key=uuid.uuid4().hex).json()["verdict"] == "locked"
