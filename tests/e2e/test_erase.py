"""Erasing over HTTP: nothing of a user is left in any table, under load, and however often the server is killed meanwhile."""
import http.client
import json
import threading
import time

import pytest

from test_users import Peer, call, new_id, ok, own, rows, together
from v1 import Server, attempt, generous

pytestmark = pytest.mark.gatehouse_only

PHONE = "+442071838750"
END_S = 120


@pytest.fixture(scope="module")
def server():
    made = generous(Server())
    yield made
    made.close()


def known(server, user):
    """A user of whom there is something in every table that a caller can fill."""
    ok(server, "POST", "/v1/users", {"id": user, "firstName": f"name-{user}", "phone": PHONE, "attributes": {"plan": f"plan-{user}"}},
       Idempotency_Key=f"create-{user}")
    for i in range(2):
        own(server, user, f"{user}-{i}@example.org")
    ok(server, "POST", f"/v1/users/{user}/emails", {"email": f"{user}-claim@example.org"})
    for subject in (user, {"email": f"{user}-0@example.org"}, {"phone": PHONE}):
        for _ in range(3):
            ok(server, "POST", "/v1/attempts", attempt(subject))
        begun = {name: value for name, value in attempt(subject).items() if name != "outcome"}
        ok(server, "POST", "/v1/attempts/begin", begun, Idempotency_Key=f"begin-{user}-{json.dumps(subject)}")
    ok(server, "PUT", f"/v1/subjects/{user}/states/intervention", {"suspended": True, "applied_at": int(time.time())})


def erase(server, user):
    status, job, _ = call(server, "POST", f"/v1/users/{user}/erase")
    assert status == 202, job
    return job


def ended(server, job):
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        now = ok(server, "GET", f"/v1/jobs/{job['id']}")
        if now["state"] != "running":
            return now
        time.sleep(0.01)
    raise AssertionError(f"still running: {now}")


def metrics_with(server, *lines):
    """A job is counted just after it has ended."""
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        metrics = server.v1.send("GET", "/metrics", b"", {}).body.decode()
        if all(line in metrics for line in lines):
            return metrics
    raise AssertionError(metrics)


def assert_nothing_left(server, user):
    """The id stays in the row that keeps its tokens revoked, until they have expired, and in the event that tells others to erase theirs. (A store that others write to also has the
    version of the partition, for a day.)"""
    for table, found in rows(server).items():
        left = [row for row in found if user in row and '"user.erased"' not in row and '"#VERSION"' not in row]
        assert table == "gatehouse-revocations" or not left, (table, left)


def test_nothing_is_left_and_the_addresses_are_free(server):
    user, other = new_id(), new_id()
    known(server, user)
    ok(server, "POST", "/v1/users", {"id": other})
    receipt = ended(server, erase(server, user))
    assert (receipt["state"], receipt["kind"]) == ("done", "erase"), receipt
    assert receipt["progress"]["users"] >= 6 and receipt["progress"]["auth-state"] >= 3 and receipt["progress"]["gatehouse-idempotency"] >= 2
    assert list(receipt["args"]) == ["userHash"]
    metrics = metrics_with(server, 'gatehouse_jobs_ended_total{kind="erase",state="done"} 1', 'gatehouse_jobs_running{kind="erase"} 0')
    assert user not in metrics and user not in server.logged().decode()
    assert_nothing_left(server, user)
    assert call(server, "GET", f"/v1/users/{user}")[0] == 404
    own(server, other, f"{user}-0@example.org")
    ok(server, "POST", "/v1/users", {"id": user})


def test_erasing_who_has_claimed_an_address_and_not_proved_it_lifts_nothing_of_its_mailbox(server):
    """Else whoever signs up with somebody's address and has that account erased could guess the password for ever."""
    address = f"{new_id()}@example.org"
    for _ in range(5):
        ok(server, "POST", "/v1/attempts", attempt({"email": address}))
    thief = ok(server, "POST", "/v1/users", {"id": new_id(), "email": address})["id"]
    receipt = ended(server, erase(server, thief))
    assert receipt["state"] == "done"
    assert ok(server, "POST", "/v1/attempts", attempt({"email": address}))["verdict"] == "locked"
    other = new_id()
    ok(server, "POST", "/v1/users", {"id": other})
    own(server, other, address)  # it is free
    ended(server, erase(server, other))
    assert ok(server, "POST", "/v1/attempts", attempt({"email": address}))["verdict"] == "allow"  # its owner's is gone


def test_erasing_twice_answers_with_one_job_and_it_cannot_be_cancelled(server):
    user = new_id()
    known(server, user)
    jobs = [erase(server, user) for _ in range(3)]
    first = ended(server, jobs[0])
    assert first["state"] == "done"
    assert {job["id"] for job in jobs[:2]} == {first["id"]} or first["steps"] > 0
    assert call(server, "POST", f"/v1/jobs/{first['id']}/cancel")[0] == 409
    assert call(server, "POST", f"/v1/jobs/{first['id']}/resume")[0] == 409
    for job in jobs:
        ended(server, job)
    assert_nothing_left(server, user)


def test_while_a_user_is_erased_every_call_refuses_it_and_nothing_is_left_behind(server):
    users = [new_id() for _ in range(4)]
    for user in users:
        known(server, user)
    stop = threading.Event()

    def churn(user):
        peer = Peer(server)
        while not stop.is_set():
            call(peer, "POST", "/v1/attempts", attempt(user))
            call(peer, "POST", f"/v1/users/{user}/emails", {"email": f"{user}-{new_id()}@example.org"})
            call(peer, "PATCH", f"/v1/users/{user}", {"lastName": f"late-{user}"}, If_Match='"3"')
            call(peer, "PUT", f"/v1/subjects/{user}/states/intervention", {"blocked": True, "applied_at": int(time.time())})

    def erasing():
        peer = Peer(server)
        try:
            for user in users:
                assert ended(peer, erase(peer, user))["state"] == "done"
        finally:
            stop.set()

    together(erasing, *[lambda user=user: churn(user) for user in users])
    for user in users:  # what was written once the id was free again is not of the user who was erased
        ended(server, erase(server, user))
        assert_nothing_left(server, user)


def test_kills_between_steps_over_and_over_and_nothing_is_left(rounds=12):
    server = generous(Server())
    users = [new_id() for _ in range(6)]
    try:
        for user in users:
            known(server, user)
        jobs = [erase(server, user) for user in users]
        for i in range(rounds):
            killer = threading.Timer(0.005 * i, server.kill)
            killer.start()
            try:
                while True:
                    ok(server, "GET", "/v1/jobs?state=running")
            except (OSError, http.client.HTTPException):
                pass
            killer.join()
            server.start()
        for job, user in zip(jobs, users):
            assert ended(server, job)["state"] == "done"
            assert_nothing_left(server, user)
        assert ok(server, "GET", "/v1/jobs?state=running")["jobs"] == []
    finally:
        server.close()


def test_nothing_can_happen_to_an_erased_subject_under_its_new_name_and_its_events_can_be_read(server):
    user = new_id()
    ok(server, "POST", "/v1/users", {"id": user})
    assert ended(server, erase(server, user))["state"] == "done"
    erased = next(event["subject"] for event in ok(server, "GET", "/v1/events?types=user.created&limit=1000")["events"]
                  if event["subject"].startswith("erased:"))
    before = ok(server, "GET", f"/v1/events?subject={erased}")["events"]
    assert before and {event["subject"] for event in before} == {erased}
    assert ok(server, "GET", f"/v1/dead-letters?subject={erased}")["deadLetters"] == []
    for subject in (erased, "erased:", "erased:anything"):
        for method, path, body, field in [
            ("POST", "/v1/attempts", attempt(subject), "subject"),
            ("POST", "/v1/attempts/begin", {**attempt(subject), "outcome": None}, "subject"),
            ("POST", "/v1/check", {"subjects": ["bob", subject], "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}, "subjects"),
            ("PUT", f"/v1/subjects/{subject}/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"}, "id"),
            ("PUT", f"/v1/subjects/{subject}/states/intervention", {"suspended": True, "applied_at": 1}, "id"),
            ("POST", f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD_RESET"}, "id"),
            ("POST", "/v1/users", {"id": subject}, "id"),
        ]:
            status, problem, _ = call(server, method, path, body)
            assert status in (400, 422) and problem["field"] == field, (path, problem)
            assert path == "/v1/users" or "must not begin with erased:" in problem["detail"], problem
    assert ok(server, "GET", f"/v1/events?subject={erased}")["events"] == before
