"""Targets of events: webhooks that real receivers take, with signatures that the npm package `standardwebhooks` judges; retries, dead letters and
redriving; what targets show and refuse. Faults are in test_target_faults.py."""

import json
import ssl
import subprocess
import threading
import time
import uuid
from pathlib import Path

import boto3
import pytest

from certificates import Certificates
from conftest import stop
from test_access import Guarded
from test_clock import Moved
from test_users import call, new_user, ok
from test_v1_access import EVERYTHING, policy
from test_v1_access import call as keyed
from v1 import V1, Server
from webhooks import WAIT_S, Sink, assert_in_order, wait_for

pytestmark = pytest.mark.gatehouse_only
JS = Path(__file__).resolve().parent / "js"


@pytest.fixture(scope="module")
def server():
    made = Server("--private-targets")
    yield made
    made.close()


@pytest.fixture
def sink():
    made = Sink()
    yield made
    made.close()


def name():
    return "t-" + uuid.uuid4().hex[:12]


class Target:
    """A webhook target, deleted at the end."""

    def __init__(self, server, url, **more):
        self.server, self.name = server, name()
        self.path = f"/v1/targets/{self.name}"
        status, self.made, _ = call(server, "PUT", self.path, {"type": "webhook", "url": url, **more})
        assert status == 201, self.made

    def now(self):
        return ok(self.server, "GET", self.path)

    def letters(self, **query):
        asked = "&".join(f"{key}={value}" for key, value in {"target": self.name, **query}.items())
        return ok(self.server, "GET", f"/v1/dead-letters?{asked}")["deadLetters"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert call(self.server, "DELETE", self.path)[0] == 200


def judged(messages, secret):
    """What the npm package says of each."""
    asked = "".join(json.dumps({"secret": secret, "headers": each["headers"], "body": each["body"]}) + "\n" for each in messages)
    done = subprocess.run(["node", "webhook.mjs"], cwd=JS, input=asked, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_events_are_delivered_signed_as_cloudevents_in_order(server, sink):
    with Target(server, sink.url) as target:
        assert target.made["secret"].startswith("whsec_") and "secret" not in target.now()
        users = [new_user(server)["id"] for _ in range(5)]
        for user in users:
            for _ in range(3):
                ok(server, "POST", f"/v1/users/{user}/suspend")
                ok(server, "POST", f"/v1/users/{user}/reactivate")
        trace = "0af7651916cd43dd8448eb211c80319c"
        ok(server, "POST", f"/v1/users/{users[0]}/suspend", traceparent=f"00-{trace}-b7ad6b7169203331-01")
        events = wait_for(lambda: len(found := [e for e in sink.events() if e["subject"] in users]) >= 36 and found)
        assert_in_order(events)
        last = next(seen for seen in sink.taken if seen["event"].get("correlationid") == trace)
        assert last["headers"]["traceparent"].split("-")[1] == trace
        assert last["headers"]["content-type"] == "application/cloudevents+json"
        assert last["headers"]["webhook-id"] == last["event"]["id"] and last["path"] == "/hook"
        event = last["event"]
        assert (event["specversion"], event["type"], event["subject"]) == ("1.0", "user.suspended", users[0])
        assert event["dataschema"] == "urn:gatehouse:event:user.suspended:1" and event["position"] > 0
        assert set(judged(sink.taken[:10] + [last], target.made["secret"])) == {"good"}
        shown = wait_for(lambda: (now := target.now())["lagEvents"] == 0 and now)
        assert shown["sent"] >= 36 and shown["waiting"] == shown["deadLetters"] == 0 and shown["state"] == "well"
        assert shown["lastErrors"] == [] and shown["lagSeconds"] == 0


def test_a_target_has_only_the_types_that_it_asks_for_and_begins_where_it_is_told(server, sink):
    user = new_user(server)["id"]
    ok(server, "POST", f"/v1/users/{user}/suspend")
    with Target(server, sink.url, types=["user.suspended", "email.*"], **{"from": "first"}):
        sink.wait_for(1, subject=user)
        ok(server, "POST", f"/v1/users/{user}/reactivate")
        ok(server, "POST", f"/v1/users/{user}/suspend")
        sink.wait_for(2, subject=user)
        assert {event["type"] for event in sink.events()} == {"user.suspended"}
    later = Sink()
    try:
        with Target(server, later.url):
            new_user(server)
            later.wait_for(1)
            assert not later.events(subject=user)
    finally:
        later.close()


def signed_with(sink, server, count):
    """The last message, once there is one with so many signatures. The sender notices a change within a moment."""
    def look():
        before = len(sink.taken)
        new_user(server)
        wait_for(lambda: len(sink.taken) > before)
        return len(sink.taken[-1]["headers"]["webhook-signature"].split()) == count and sink.taken[-1]
    return wait_for(look)


def test_a_rotated_secret_signs_beside_the_new_one_until_it_ends(sink):
    server = Moved("--private-targets")
    try:
        with Target(server, sink.url) as target:
            old = target.made["secret"]
            new = ok(server, "POST", f"{target.path}/rotate-secret", {"keepOld": 60})["secret"]
            assert new != old and "previousSecretUntil" in target.now()
            both = signed_with(sink, server, 2)
            assert judged([both], new) == judged([both], old) == ["good"]
            server.clock.passes(61)  # less than the five minutes that receivers tolerate
            alone = signed_with(sink, server, 1)
            assert judged([alone], new) == ["good"] and judged([alone], old) != ["good"]
            own = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
            assert "secret" not in ok(server, "POST", f"{target.path}/rotate-secret", {"secret": own, "keepOld": 0})
            wait_for(lambda: judged([signed_with(sink, server, 1)], own) == ["good"])
            assert call(server, "POST", f"{target.path}/rotate-secret", {"secret": "whsec_"})[1]["field"] == "secret"
    finally:
        server.close()


@pytest.fixture(scope="module")
def certificates():
    made = Certificates()
    made.make("receiver", by="ca")
    made.make("elsewhere", by="ca", hosts="subjectAltName=DNS:elsewhere.example")
    made.make("stranger", by="stranger-ca")
    yield made
    made.release()


def secure_sink(certificates, name):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates.crt(name), certificates.key(name))
    return Sink(tls=tls)


def test_certificates_of_targets_are_checked_against_the_ca_that_is_given(certificates):
    sinks = {name: secure_sink(certificates, name) for name in ("receiver", "elsewhere", "stranger")}
    server = Server("--private-targets", "--targets-ca", str(certificates.crt("ca")))
    try:
        for name, sink in sinks.items():
            ok(server, "PUT", f"/v1/targets/{name}", {"type": "webhook", "url": sink.url})
        user = new_user(server)["id"]
        sinks["receiver"].wait_for(1, subject=user)
        for name in ("elsewhere", "stranger"):
            shown = wait_for(lambda name=name: (now := ok(server, "GET", f"/v1/targets/{name}"))["state"] == "failing" and now)
            assert "certificate" in shown["lastErrors"][0]["error"].lower(), shown
            tested = ok(server, "POST", f"/v1/targets/{name}/test")
            assert tested["sent"] is False and "certificate" in tested["error"].lower()
            assert not sinks[name].tries
        restart(server, "--private-targets")  # the system's: it does not know ours
        ok(server, "POST", f"/v1/users/{user}/suspend")
        wait_for(lambda: ok(server, "GET", "/v1/targets/receiver")["state"] == "failing")
        assert len(sinks["receiver"].events(subject=user)) == 1
        restart(server, "--private-targets", "--targets-ca", str(certificates.crt("ca")))
        sinks["receiver"].wait_for(2, subject=user)
    finally:
        server.close()
        for sink in sinks.values():
            sink.close()


def restart(server, *words):
    """With other options."""
    server.v1.close()
    stop(server.process)
    server.process.stdout.close()
    server.words = words
    server.start()


def metric(server, name):
    text = server.v1.send("GET", "/metrics", b"", {}).body.decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def test_a_target_whose_sender_cannot_be_opened_says_so(sink):
    """It was made while private addresses were allowed. What waits for it is delivered once they are again."""
    server = Server("--private-targets")
    try:
        ok(server, "PUT", "/v1/targets/inside", {"type": "webhook", "url": sink.url})
        user = new_user(server)["id"]
        sink.wait_for(1, subject=user)
        assert ok(server, "GET", "/v1/targets/inside")["state"] == "well"
        restart(server)
        shown = wait_for(lambda: (now := ok(server, "GET", "/v1/targets/inside"))["state"] == "failing" and now)
        assert "failingSince" in shown and shown["enabled"] is True
        said = shown["lastErrors"][0]
        assert said["error"].startswith("url: must begin with https://") and "--private-targets" in said["error"]
        assert "status" not in said and said.get("event", "") == ""
        assert len(shown["lastErrors"]) == 1
        tested = ok(server, "POST", "/v1/targets/inside/test")
        assert tested["sent"] is False and "--private-targets" in tested["error"]
        assert metric(server, 'gatehouse_target_state{target="inside"}') == 1
        ok(server, "POST", f"/v1/users/{user}/suspend")
        restart(server, "--private-targets")
        sink.wait_for(2, subject=user)
        wait_for(lambda: ok(server, "GET", "/v1/targets/inside")["state"] == "well")
        assert len(sink.events(subject=user)) == 2
    finally:
        server.close()


def test_a_target_that_hangs_does_not_delay_the_test_of_another(server, sink):
    over = threading.Event()
    stuck = Sink(answer=lambda event: over.wait(60) and 204)
    try:
        with Target(server, stuck.url) as hangs, Target(server, sink.url) as well:
            first = threading.Thread(target=lambda: V1(server.endpoint).send("POST", f"{hangs.path}/test", b"", {}))
            first.start()
            wait_for(lambda: stuck.tries)
            assert ok(server, "POST", f"{well.path}/test")["sent"] is True and not over.is_set()
            status, problem, _ = call(server, "POST", f"{hangs.path}/test")
            assert status == 503 and "under way" in problem["detail"]
            over.set()
            first.join()
            assert ok(server, "POST", f"{hangs.path}/test")["sent"] is True
    finally:
        over.set()
        stuck.close()


def test_a_server_stops_soon_though_a_test_hangs():
    server, over = Server("--private-targets"), threading.Event()
    stuck = Sink(answer=lambda event: over.wait(60) and 204)
    try:
        ok(server, "PUT", "/v1/targets/hangs", {"type": "webhook", "url": stuck.url, "enabled": False})
        asked = V1(server.endpoint)
        asked.connection.request("POST", "/v1/targets/hangs/test")
        wait_for(lambda: stuck.tries)
        began = time.monotonic()
        server.process.terminate()
        assert server.process.wait(60) == 0 and time.monotonic() - began < 10  # the call itself may take 15 seconds
    finally:
        over.set()
        server.close()
        stuck.close()


def test_a_target_is_tested_with_one_call(server, sink):
    with Target(server, sink.url) as target:
        answer = ok(server, "POST", f"{target.path}/test")
        assert (answer["sent"], answer["status"]) == (True, 204) and answer["milliseconds"] >= 0
        assert sink.taken[-1]["event"]["type"] == "test.ping" and sink.taken[-1]["event"]["data"] == {"target": target.name}
        assert judged(sink.taken[-1:], target.made["secret"]) == ["good"]
        sink.answer = lambda event: 503
        answer = ok(server, "POST", f"{target.path}/test")
        assert (answer["sent"], answer["status"]) == (False, 503) and answer["error"] == "the receiver answered 503"
        sink.close()
        answer = ok(server, "POST", f"{target.path}/test")
        assert answer["sent"] is False and "status" not in answer and answer["error"]
        sink.open(sink.port)
    assert call(server, "POST", "/v1/targets/none/test")[0] == 404


@pytest.mark.parametrize("body, field", [
    ({}, "type"),
    ({"type": "pigeon", "url": "https://example.org"}, "type"),
    ({"type": "webhook"}, "url"),
    ({"type": "webhook", "url": "ftp://example.org"}, "url"),
    ({"type": "webhook", "url": "https://ann:hush@example.org"}, "url"),
    ({"type": "webhook", "url": "https://example.org", "secret": "whsec_short"}, "secret"),
    ({"type": "webhook", "url": "https://example.org", "types": ["cake.*"]}, "types"),
    ({"type": "webhook", "url": "https://example.org", "types": "user.created"}, "types"),
    ({"type": "webhook", "url": "https://example.org", "lanes": 0}, "lanes"),
    ({"type": "webhook", "url": "https://example.org", "lanes": 17}, "lanes"),
    ({"type": "webhook", "url": "https://example.org", "tries": 101}, "tries"),
    ({"type": "webhook", "url": "https://example.org", "disableAfter": 59}, "disableAfter"),
    ({"type": "webhook", "url": "https://example.org", "from": "yesterday"}, "from"),
    ({"type": "webhook", "url": "https://example.org", "queueUrl": "https://example.org"}, "queueUrl"),
])
def test_what_is_wrong_with_a_target_is_said_by_field(server, body, field):
    status, problem, _ = call(server, "PUT", f"/v1/targets/{name()}", body)
    assert status in (400, 422) and problem["field"] == field, problem
    assert "hush" not in json.dumps(problem)


def test_names_types_and_places_of_targets_are_checked(server, sink):
    assert call(server, "PUT", "/v1/targets/a%23b", {"type": "webhook", "url": sink.url})[1]["field"] == "name"
    with Target(server, sink.url) as target:
        status, problem, _ = call(server, "PUT", target.path, {"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/q",
                                                               "accessKeyId": "a", "secretAccessKey": "b"})
        assert (status, problem["field"]) == (409, "type")
        moved = {"type": "webhook", "url": sink.url + "2", "lanes": 1, "enabled": False}
        status, problem, _ = call(server, "PUT", target.path, moved)
        assert (status, problem["field"]) == (422, "secret") and target.now()["url"] == sink.url
        changed = ok(server, "PUT", target.path, {**moved, "secret": target.made["secret"]})
        assert (changed["url"], changed["lanes"], changed["enabled"], changed["state"]) == (sink.url + "2", 1, False, "disabled")
        assert "secret" not in changed
        assert [each["name"] for each in ok(server, "GET", "/v1/targets")["targets"]] == [target.name]
    assert call(server, "GET", target.path)[0] == 404 and call(server, "DELETE", target.path)[0] == 404


def test_private_addresses_and_plain_http_are_refused_unless_allowed(sink):
    server = Server()
    try:
        status, problem, _ = call(server, "PUT", "/v1/targets/a", {"type": "webhook", "url": sink.url})
        assert (status, problem["field"]) == (422, "url")
        for number, url in enumerate(("https://127.0.0.1:1/", "https://localhost:1/", "https://169.254.169.254/", "https://[::1]/", "https://10.0.0.1/")):
            ok(server, "PUT", f"/v1/targets/t{number}", {"type": "webhook", "url": url})
            answer = ok(server, "POST", f"/v1/targets/t{number}/test")
            assert answer["sent"] is False and "status" not in answer, (url, answer)
    finally:
        server.close()


def test_a_target_that_is_not_allowed_any_more_is_logged_once(sink):
    server = Server("--private-targets")
    try:
        ok(server, "PUT", "/v1/targets/inside", {"type": "webhook", "url": sink.url})
        server.kill()
        server.words = ()
        server.start()
        wait_for(lambda: b"target inside cannot be delivered to" in server.logged())
        time.sleep(2.5)  # it is tried again every second
        assert server.logged().count(b"target inside") == 1
    finally:
        server.close()


def test_redirects_are_not_followed(server, sink):
    other = Sink()
    sink.answer = lambda event: (302, {"Location": other.url})
    try:
        with Target(server, sink.url) as target:
            answer = ok(server, "POST", f"{target.path}/test")
            assert (answer["sent"], answer["status"]) == (False, 302) and not other.tries
    finally:
        other.close()


def test_a_disabled_target_keeps_its_place(server, sink):
    user = new_user(server)["id"]
    with Target(server, sink.url) as target:
        ok(server, "POST", f"/v1/users/{user}/suspend")
        sink.wait_for(1, subject=user)
        assert ok(server, "POST", f"{target.path}/disable")["state"] == "disabled"
        wait_for(lambda: not ok(server, "GET", target.path)["enabled"])
        tried = len(sink.tries)
        ok(server, "POST", f"/v1/users/{user}/reactivate")
        assert ok(server, "POST", f"{target.path}/enable")["enabled"]
        events = sink.wait_for(2, subject=user)
        assert [event["type"] for event in events] == ["user.suspended", "user.reactivated"] and len(sink.tries) > tried


# ---- what fails ----


def poison(user):
    """The receiver refuses what is about this user."""
    return lambda event: 422 if event["subject"] == user else 204


def test_a_refused_event_goes_to_the_dead_letters_delays_only_its_subject_and_comes_back_by_redrive(server, sink):
    bad, good = new_user(server)["id"], new_user(server)["id"]
    sink.answer = poison(bad)
    with Target(server, sink.url, tries=1) as target:
        ok(server, "POST", f"/v1/users/{bad}/suspend")
        ok(server, "POST", f"/v1/users/{bad}/reactivate")
        ok(server, "POST", f"/v1/users/{good}/suspend")
        sink.wait_for(1, subject=good)
        letters = wait_for(lambda: len(found := target.letters()) == 2 and found)
        assert [each["type"] for each in letters] == ["user.suspended", "user.reactivated"]
        assert all((each["status"], each["tries"], each["error"]) == (422, 1, "the receiver answered 422") for each in letters)
        assert target.letters(subject=good) == [] and len(target.letters(subject=bad)) == 2 and target.letters(type="user.created") == []
        one = ok(server, "GET", f"/v1/dead-letters/{target.name}/{letters[0]['id']}")
        assert one["event"]["id"] == letters[0]["eventId"] and one["event"]["subject"] == bad
        shown = target.now()
        assert shown["deadLetters"] == 2 and shown["lastErrors"][0]["status"] == 422 and shown["lastErrors"][0]["event"]
        sink.answer = lambda event: 204
        assert ok(server, "POST", f"/v1/dead-letters/{target.name}/{letters[0]['id']}/redrive") == {"redriven": True}
        assert sink.wait_for(1, subject=bad)[0]["type"] == "user.suspended"
        assert call(server, "POST", f"/v1/dead-letters/{target.name}/{letters[0]['id']}/redrive")[0] == 404
        dry = ok_job(server, {"target": target.name, "dryRun": True})
        assert dry["progress"]["letters"] == 1 and len(target.letters()) == 1
        done = ok_job(server, {"target": target.name, "type": "user.reactivated", "subject": bad})
        assert done["progress"]["redriven"] == 1 and bad not in json.dumps(done)
        assert [event["type"] for event in sink.wait_for(2, subject=bad)] == ["user.suspended", "user.reactivated"]
        wait_for(lambda: (now := target.now())["deadLetters"] == now["waiting"] == 0)


def ok_job(server, body):
    status, job, _ = call(server, "POST", "/v1/dead-letters/redrive", body)
    assert status in (200, 202), job
    return wait_for(lambda: (now := ok(server, "GET", f"/v1/jobs/{job['id']}"))["state"] == "done" and now)


def test_dead_letters_are_paged_deleted_and_their_parameters_checked(server, sink):
    users = [new_user(server)["id"] for _ in range(5)]
    sink.answer = lambda event: 400 if event["subject"] in users else 204
    with Target(server, sink.url, tries=1) as target:
        for user in users:
            ok(server, "POST", f"/v1/users/{user}/suspend")
        wait_for(lambda: len(target.letters()) == 5)
        seen, cursor = [], ""
        while True:
            page = ok(server, "GET", f"/v1/dead-letters?limit=2&target={target.name}{cursor}")
            seen += [each["id"] for each in page["deadLetters"]]
            if not page["more"]:
                break
            cursor = f"&cursor={page['cursor']}"
        assert len(seen) == len(set(seen)) == 5
        for each in seen:
            assert ok(server, "DELETE", f"/v1/dead-letters/{target.name}/{each}") == {"deleted": True}
        assert target.letters() == [] and target.now()["deadLetters"] == 0
    for query, field in (("limit=0", "limit"), ("limit=501", "limit"), ("cursor=x", "cursor"), ("target=a%23", "target"), ("type=cake", "type"),
                         ("subject=ann%40example.org", "subject"), ("subject=", "subject")):
        assert call(server, "GET", f"/v1/dead-letters?{query}")[1]["field"] == field
    assert call(server, "GET", "/v1/dead-letters/none/0-1")[0] == 404
    assert call(server, "GET", "/v1/dead-letters/none/x")[1]["field"] == "id"


def test_dead_letters_of_an_address_are_redriven_by_the_address(server, sink):
    sink.answer = lambda event: 422
    address = f"{uuid.uuid4().hex}@example.org"
    with Target(server, sink.url, types=["lock.set"], tries=1) as target:
        for _ in range(6):
            server.v1.record({"email": address})
            server.v1.record(f"u-{address[:32]}")
        wait_for(lambda: len(target.letters()) == 2)
        hashed, = (each["subject"] for each in target.letters() if each["subject"].startswith("email:"))
        assert len(target.letters(subject=hashed)) == 1
        done = ok_job(server, {"target": target.name, "subject": {"email": address}, "dryRun": True})
        assert done["progress"]["letters"] == 1
        status, problem, _ = call(server, "POST", "/v1/dead-letters/redrive", {"target": target.name, "subject": address})
        assert (status, problem["field"]) == (422, "subject")


def test_a_receiver_that_is_gone_disables_its_target_with_an_event_about_it(server, sink):
    other = Sink()
    sink.answer = lambda event: 410
    try:
        with Target(server, other.url, types=["target.disabled"]), Target(server, sink.url) as target:
            new_user(server)
            shown = wait_for(lambda: not (now := target.now())["enabled"] and now)
            assert "410" in shown["disabledReason"]
            event = other.wait_for(1, subject=f"target:{target.name}")[0]
            assert event["data"]["target"] == target.name and "410" in event["data"]["reason"]
    finally:
        other.close()


def test_keys_see_and_change_only_the_targets_that_they_may(sink):
    server = Guarded("--private-targets")
    try:
        all_of_them = server.make("all", policy(EVERYTHING))
        one = server.make("one", policy({"Effect": "Allow", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:target/a"},
                                        {"Effect": "Allow", "Action": ["gatehouse:ListTargets", "gatehouse:ListDeadLetters"], "Resource": "*"},
                                        {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:target/b"}))
        body = {"type": "webhook", "url": sink.url}
        for each in "ab":
            assert keyed(server, all_of_them, "PUT", f"/v1/targets/{each}", body)[0] == 201
        assert keyed(server, one, "GET", "/v1/targets/a")[0] == 200 and keyed(server, one, "PUT", "/v1/targets/a", body)[0] == 200
        for method, path in (("GET", ""), ("DELETE", ""), ("PUT", ""), ("POST", "/enable"), ("POST", "/disable"), ("POST", "/test"), ("POST", "/rotate-secret")):
            status, _ = keyed(server, one, method, f"/v1/targets/b{path}", body if method == "PUT" else None)
            assert status == 403, (method, path)
        for method, path in (("GET", "0-1"), ("DELETE", "0-1"), ("POST", "0-1/redrive")):
            assert keyed(server, one, method, f"/v1/dead-letters/b/{path}")[0] == 403
        assert keyed(server, one, "POST", "/v1/dead-letters/redrive", {"target": "b"})[0] == 403
        assert keyed(server, one, "POST", "/v1/dead-letters/redrive", {})[0] == 403
        assert [each["name"] for each in keyed(server, one, "GET", "/v1/targets")[1]["targets"]] == ["a"]
        blind = server.make("blind", policy(EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:event/user.*"}))
        for types in ([], ["*"], ["lock.*", "user.created"]):
            assert keyed(server, blind, "PUT", "/v1/targets/c", {**body, "types": types})[0] == 403, types
        assert keyed(server, blind, "GET", "/v1/targets/c")[0] == 404
        assert keyed(server, blind, "PUT", "/v1/targets/c", {**body, "types": ["lock.*"]})[0] == 201
        for types in (["lock.*"], ["device.*"]):  # events of users may wait for it
            status, problem = keyed(server, blind, "PUT", "/v1/targets/a", {**body, "types": types})
            assert status == 403 and "event/user." in problem["detail"]
    finally:
        stop(server.process)


def test_a_target_that_is_mistyped_is_not_one_without_dead_letters(server):
    for method, path, body in (("GET", "/v1/dead-letters?target=nobody", None), ("POST", "/v1/dead-letters/redrive", {"target": "nobody"})):
        status, problem, _ = call(server, method, path, body)
        assert (status, problem["field"]) == (404, "target"), problem


def test_a_key_does_not_get_events_of_types_that_are_denied_to_it_by_way_of_dead_letters_or_consumers():
    server, sink = Guarded("--private-targets"), Sink(answer=lambda event: 422)
    try:
        everything = server.make("all", policy(EVERYTHING))
        blind = server.make("blind", policy(EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:event/user.*"}))
        assert keyed(server, everything, "PUT", "/v1/targets/a", {"type": "webhook", "url": sink.url, "tries": 1})[0] == 201
        assert keyed(server, everything, "POST", "/v1/users", {"id": "ann"})[0] == 201
        assert keyed(server, everything, "PUT", "/v1/subjects/bob/locks/SIGN_IN/PASSWORD_ENTRY", {"kind": "STANDARD"})[0] == 200
        letters = wait_for(lambda: len(found := keyed(server, everything, "GET", "/v1/dead-letters")[1]["deadLetters"]) == 2 and found)
        hidden, shown = sorted(letters, key=lambda each: each["type"], reverse=True)
        assert (hidden["type"], shown["type"]) == ("user.created", "lock.set")
        assert keyed(server, blind, "GET", "/v1/dead-letters")[1]["deadLetters"] == [shown]
        for method, end in (("GET", ""), ("DELETE", ""), ("POST", "/redrive")):
            status, problem = keyed(server, blind, method, f"/v1/dead-letters/a/{hidden['id']}{end}")
            assert (status, problem) == keyed(server, blind, method, f"/v1/dead-letters/a/0-99999{end}") and status == 404, problem
        for body in ({"target": "a"}, {"target": "a", "type": "user.created"}, {}):
            assert keyed(server, blind, "POST", "/v1/dead-letters/redrive", body)[0] == 403, body
        assert keyed(server, blind, "POST", "/v1/dead-letters/redrive", {"target": "a", "type": "lock.set", "dryRun": True})[0] == 202
        assert keyed(server, blind, "GET", f"/v1/dead-letters/a/{shown['id']}")[1]["event"]["type"] == "lock.set"
        assert keyed(server, everything, "PUT", "/v1/consumers/c", {"from": "first"})[0] == 201
        status, problem = keyed(server, blind, "POST", "/v1/consumers/c/poll", {"member": "m"})
        assert status == 403 and "event/user." in problem["detail"]
        assert keyed(server, everything, "GET", "/v1/consumers/c")[1]["members"] == []  # nor has it taken a share
        assert keyed(server, everything, "PUT", "/v1/consumers/c", {"types": ["lock.*"]})[0] == 200
        assert [each["type"] for each in keyed(server, blind, "POST", "/v1/consumers/c/poll", {"member": "m"})[1]["events"]] == ["lock.set"]
    finally:
        stop(server.process)
        sink.close()


def test_what_waits_for_a_target_while_its_user_is_erased_is_sent_without_the_user(server, sink):
    well, users = [], []
    sink.answer = lambda event: 204 if well and (event["subject"] not in users or event["type"] == "user.erased") else 503
    with Target(server, sink.url):
        user = new_user(server)["id"]
        users.append(user)
        first = wait_for(lambda: next((seen["event"] for seen in list(sink.tries) if seen["event"]["subject"] == user), None))
        status, job, _ = call(server, "POST", f"/v1/users/{user}/erase")
        assert status == 202, job
        wait_for(lambda: ok(server, "GET", f"/v1/jobs/{job['id']}")["state"] == "done")
        well.append(True)
        sink.wait_for(1, type="user.erased", subject=user)
        assert [event["type"] for event in sink.events(subject=user)] == ["user.erased"]
        late = next(event for event in sink.events() if event["id"] == first["id"])
        assert late["erased"] and late["subject"].startswith("erased:") and "data" not in late


def test_metrics_tell_of_each_target(server, sink):
    with Target(server, sink.url) as target:
        new_user(server)
        sink.wait_for(1)

        def shown():
            text = server.v1.send("GET", "/metrics", b"", {}).body.decode()
            found = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if f'target="{target.name}"' in line}
            return found.get(f'gatehouse_target_deliveries_total{{target="{target.name}",result="sent"}}', 0) >= 1 and found

        found = wait_for(shown)
        assert found[f'gatehouse_target_state{{target="{target.name}"}}'] == 0
        for metric in ("lag_events", "lag_seconds", "waiting", "dead_letters"):
            assert f'gatehouse_target_{metric}{{target="{target.name}"}}' in found


def gauge(server, target, metric):
    text = server.v1.send("GET", "/metrics", b"", {}).body.decode()
    found = [line for line in text.splitlines() if line.startswith(f'gatehouse_target_{metric}{{target="{target.name}"}}')]
    return float(found[0].rsplit(" ", 1)[1]) if found else None


def test_metrics_follow_a_target_after_a_restart_while_it_is_disabled_and_when_letters_are_deleted(sink):
    server = Server("--private-targets")
    try:
        sink.answer = lambda event: 422
        with Target(server, sink.url, tries=1) as target:
            new_user(server)
            wait_for(lambda: len(target.letters()) == 1)
            server.kill()
            server.start()
            wait_for(lambda: gauge(server, target, "dead_letters") == 1)
            ok(server, "DELETE", f"/v1/dead-letters/{target.name}/{target.letters()[0]['id']}")
            wait_for(lambda: gauge(server, target, "dead_letters") == 0)
            ok(server, "POST", target.path + "/disable")
            new_user(server)
            wait_for(lambda: gauge(server, target, "lag_events") == 1 and gauge(server, target, "lag_seconds") >= 1)
            assert gauge(server, target, "state") == 2
            server.kill()
            server.start()
            wait_for(lambda: gauge(server, target, "lag_events") == 1 and gauge(server, target, "state") == 2)
    finally:
        server.close()


# ---- headers, rate and time-out ----

SECRET = "Bearer hush-hush"


def ddb(server):
    return boto3.client("dynamodb", endpoint_url=server.endpoint, region_name="local", aws_access_key_id="a", aws_secret_access_key="b")


def test_a_webhook_carries_headers_of_its_own_and_secret_ones_are_neither_shown_nor_stored_as_they_are(server, sink):
    headers = [{"name": "X-Tenant", "value": "acme, inc"}, {"name": "Authorization", "value": SECRET, "secret": True}]
    with Target(server, sink.url, headers=headers) as target:
        shown = [headers[0], {"name": "Authorization", "secret": True}]
        assert target.made["headers"] == target.now()["headers"] == shown
        new_user(server)
        sink.wait_for(1)
        seen = sink.taken[-1]["headers"]
        assert (seen["x-tenant"], seen["authorization"]) == ("acme, inc", SECRET) and seen["host"] == f"127.0.0.1:{sink.port}"
        rows = ddb(server).query(TableName="gatehouse-events", KeyConditionExpression="PK = :p", ExpressionAttributeValues={":p": {"S": "TARGET"}})
        assert "hush" not in json.dumps(rows["Items"]) and "header:authorization" in json.dumps(rows["Items"])
        listed = ok(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "headers": shown, "tries": 3})
        assert listed["headers"] == shown
        assert ok(server, "POST", f"{target.path}/test")["sent"] and sink.taken[-1]["headers"]["authorization"] == SECRET
        assert "headers" not in ok(server, "PUT", target.path, {"type": "webhook", "url": sink.url})
        assert ok(server, "POST", f"{target.path}/test")["sent"] and "authorization" not in sink.taken[-1]["headers"]
        again = call(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "headers": shown})
        assert (again[0], again[1]["field"]) == (422, "headers") and "none is stored" in again[1]["detail"]


def test_a_secret_header_is_not_sent_to_another_url(server, sink):
    header = {"name": "Authorization", "value": SECRET, "secret": True}
    with Target(server, sink.url, headers=[header]) as target:
        moved = {"type": "webhook", "url": sink.url + "2", "secret": target.made["secret"]}
        status, problem, _ = call(server, "PUT", target.path, {**moved, "headers": [{"name": "authorization", "secret": True}]})
        assert (status, problem["field"]) == (422, "headers") and "Bearer" not in json.dumps(problem) and target.now()["url"] == sink.url
        assert ok(server, "PUT", target.path, {**moved, "headers": [header]})["url"] == sink.url + "2"


@pytest.mark.parametrize("headers", [
    {"X-Tenant": "acme"}, ["X-Tenant: acme"], [{"name": "X-Tenant"}], [{"value": "acme"}], [{"name": "", "value": "a"}],
    [{"name": "X Tenant", "value": "a"}], [{"name": "X-Tenant:", "value": "a"}], [{"name": "X\r\nHost", "value": "a"}], [{"name": "Ä", "value": "a"}],
    [{"name": "X-T", "value": "a\r\nX-Other: b"}], [{"name": "X-T", "value": "a\nb"}], [{"name": "X-T", "value": "a\0"}], [{"name": "X-T", "value": " a"}],
    [{"name": "X-T", "value": "ä"}], [{"name": "X-T", "value": "v" * 2049}], [{"name": "X" * 65, "value": "a"}], [{"name": "X-T", "value": "a", "hidden": True}],
    [{"name": f"X-{i}", "value": "a"} for i in range(11)], [{"name": "X-T", "value": "a"}, {"name": "x-t", "value": "b"}],
    [{"name": "Authorization", "value": "a"}], [{"name": "cookie", "value": "a"}], [{"name": "X-T", "secret": True}],
    *([{"name": name, "value": "a"}] for name in ("Host", "content-type", "Content-Length", "webhook-id", "User-Agent", "Transfer-Encoding", "Connection",
                                                  "traceparent", "Expect", "Proxy-Authorization", "X-Forwarded-For", "TE")),
])
def test_headers_that_a_webhook_may_not_have_are_refused(server, sink, headers):
    status, problem, _ = call(server, "PUT", f"/v1/targets/{name()}", {"type": "webhook", "url": sink.url, "headers": headers})
    assert status in (400, 422) and problem["field"].startswith("headers"), problem


def test_only_webhooks_take_headers_and_a_timeout_and_both_limits_are_bounded(server, sink):
    queue = {"type": "sqs", "queueUrl": "https://sqs.eu-west-1.amazonaws.com/1/q", "accessKeyId": "a", "secretAccessKey": "b"}
    for more, field in (({"headers": []}, "headers"), ({"timeout": 5}, "timeout"), ({"rate": 0}, "rate")):
        assert call(server, "PUT", f"/v1/targets/{name()}", {**queue, **more})[1]["field"] == field
    for more in ({"rate": 0}, {"rate": 10001}, {"rate": 1.5}, {"timeout": 0}, {"timeout": 31}):
        assert call(server, "PUT", f"/v1/targets/{name()}", {"type": "webhook", "url": sink.url, **more})[1]["field"] == next(iter(more))
    with Target(server, sink.url, enabled=False) as target:
        assert (target.made["timeout"], target.made.get("rate")) == (15, None)
        changed = ok(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "rate": 10000, "timeout": 30, "enabled": False})
        assert (changed["rate"], changed["timeout"]) == (10000, 30)


def test_a_rate_holds_for_all_lanes_together(server, sink):
    for _ in range(8):
        new_user(server)
    began = time.monotonic()
    with Target(server, sink.url, rate=5, lanes=8, **{"from": "first"}) as target:
        sink.wait_for(8)
        took = time.monotonic() - began
        assert took > 1.2 and len(sink.tries) <= 5 * (time.monotonic() - began) + 2, took
        assert target.now()["rate"] == 5


def test_a_call_ends_after_the_timeout_of_its_target(server, sink):
    ends = threading.Event()
    sink.answer = lambda event: ends.wait(WAIT_S) and 204
    with Target(server, sink.url, timeout=1, enabled=False) as target:
        answer = ok(server, "POST", f"{target.path}/test")
        ends.set()
        assert answer["sent"] is False and 900 <= answer["milliseconds"] < 8000


@pytest.mark.parametrize("status", [200, 503])
def test_a_long_answer_counts_by_its_status(server, sink, status):
    sink.answer = lambda event: status
    with Target(server, sink.url, enabled=False) as target:
        for size in (65536, 65537, 1 << 20):
            sink.body = b"z" * size
            answer = ok(server, "POST", f"{target.path}/test")
            assert (answer["sent"], answer["status"]) == (status == 200, status), answer


# ---- the last tries ----

def tries(target):
    return ok(target.server, "GET", f"{target.path}/tries")["tries"]


def test_the_last_tries_of_a_target_are_told_with_status_and_time_and_survive_a_kill(sink):
    server = Server("--private-targets")
    try:
        said = iter([500, 422])
        sink.answer, sink.body = lambda event: next(said, 200), b"an answer that nobody keeps"
        with Target(server, sink.url, types=["user.created"], lanes=1, headers=[{"name": "X-Key", "value": "hush-hush", "secret": True}]) as target:
            assert tries(target) == []
            user = new_user(server)["id"]
            wait_for(lambda: len(tries(target)) >= 2)  # 500, and a second later 422
            sink.answer = lambda event: 200
            others = [new_user(server)["id"] for _ in range(25)]
            sink.wait_for(25)
            found = wait_for(lambda: (now := tries(target)) and len(now) == 20 and now[0]["event"] == sink.taken[-1]["event"]["id"] and now)
            assert all((each["outcome"], each["status"], each["type"]) == ("sent", 200, "user.created") and "error" not in each for each in found)
            assert [each["at"] for each in found] == sorted((each["at"] for each in found), reverse=True)
            assert all(0 <= each["milliseconds"] < 60000 for each in found)
            assert not any(text in json.dumps(found) for text in ("hush", "an answer", user, *others))
            server.kill()
            server.start()
            assert tries(target) == found
            sink.close()
            new_user(server)
            failed = wait_for(lambda: (now := tries(target)) and now[0]["outcome"] == "later" and now)
            assert "status" not in failed[0] and failed[0]["error"] and len(failed) == 20 and found[0] in failed
            sink.open(sink.port)
        rows = ddb(server).scan(TableName="gatehouse-events")["Items"]
        assert not [row for row in rows if row["PK"]["S"].startswith("TARGET")]
    finally:
        server.close()


def test_a_refused_try_says_so(server, sink):
    sink.answer = lambda event: 422
    with Target(server, sink.url, tries=1) as target:
        new_user(server)
        found = wait_for(lambda: tries(target))
        assert (found[-1]["outcome"], found[-1]["status"], found[-1]["error"]) == ("refused", 422, "the receiver answered 422")
    assert call(server, "GET", "/v1/targets/none/tries")[0] == 404


# ---- moving a target ----

def seek(target, body):
    return call(target.server, "POST", f"{target.path}/seek", body)


def test_from_of_a_target_that_exists_is_refused_and_names_the_call_that_moves_it(server, sink):
    with Target(server, sink.url) as target:
        status, problem, _ = call(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "from": "first"})
        assert (status, problem["field"]) == (409, "from") and f"{target.path}/seek" in problem["detail"], problem
        assert call(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "from": "last"})[0] == 409
        assert ok(server, "PUT", target.path, {"type": "webhook", "url": sink.url, "lanes": 2})["lanes"] == 2


def test_a_target_is_moved_back_and_ahead_and_says_what_that_means(server, sink):
    with Target(server, sink.url, types=["user.created"]) as target:
        users = [new_user(server)["id"] for _ in range(5)]
        sink.wait_for(5)
        done = wait_for(lambda: (now := target.now())["lagEvents"] == 0 and now)
        place = next(seen["event"]["position"] for seen in sink.taken if seen["event"]["subject"] == users[2])
        moved = seek(target, {"after": str(place)})[1]
        assert (moved["skips"], moved["redelivers"], moved["position"]) == (0, int(done["position"]) - place, str(place))
        wait_for(lambda: len(sink.taken) == 7)
        assert {seen["event"]["subject"] for seen in sink.taken[5:]} == set(users[3:])  # subjects go side by side
        wait_for(lambda: target.now()["lagEvents"] == 0)
        ok(server, "POST", f"{target.path}/disable")
        later = [new_user(server)["id"] for _ in range(3)]
        moved = seek(target, {"from": "last"})[1]
        assert moved["redelivers"] == 0 and moved["skips"] >= 3 and moved["lagEvents"] == 0
        ok(server, "POST", f"{target.path}/enable")
        new = new_user(server)["id"]
        sink.wait_for(1, subject=new)
        assert not any(sink.events(subject=each) for each in later)
        assert seek(target, {"from": "first"})[1]["redelivers"] > 0
        wait_for(lambda: all(sink.events(subject=each) for each in later))
        wait_for(lambda: target.now()["lagEvents"] == 0)
        moved = seek(target, {"from": "2020-01-01T00:00:00Z"})[1]
        assert moved["redelivers"] > 0 == moved["skips"]


def test_what_is_under_way_when_a_target_is_moved_does_not_undo_the_move(server, sink):
    """A call that ends after it is written down, but not the place that its sender had."""
    held = threading.Event()
    with Target(server, sink.url, types=["user.created"]) as target:
        users = [new_user(server)["id"] for _ in range(3)]
        sink.wait_for(3)
        before = wait_for(lambda: (now := target.now())["sent"] == 3 and now["lagEvents"] == 0 and now)["position"]
        sink.answer = lambda event: held.wait(WAIT_S) and 204
        users.append(new_user(server)["id"])
        wait_for(lambda: len(sink.tries) == 4)
        place = next(seen["event"]["position"] for seen in sink.taken if seen["event"]["subject"] == users[0])
        assert seek(target, {"after": str(place)})[1]["redelivers"] == int(before) - place
        held.set()
        wait_for(lambda: [seen["event"]["subject"] for seen in sink.taken].count(users[2]) == 2)
        assert [seen["event"]["subject"] for seen in sink.taken].count(users[0]) == 1
        assert wait_for(lambda: (now := target.now())["lagEvents"] == 0 and now)["waiting"] == 0


def test_what_was_put_aside_and_dead_letters_outlive_a_move_and_are_not_doubled(server, sink):
    bad = new_user(server)["id"]
    sink.answer = lambda event: 422 if event["subject"] == bad else 204
    with Target(server, sink.url, types=["user.*"], tries=2) as target:
        ok(server, "POST", f"/v1/users/{bad}/suspend")
        ok(server, "POST", f"/v1/users/{bad}/reactivate")
        new_user(server)
        wait_for(lambda: target.now()["waiting"] == 2 and target.now()["lagEvents"] == 0)
        moved = seek(target, {"from": "last"})[1]
        assert moved["waiting"] == 2
        back = seek(target, {"after": str(int(moved["position"]) - 3)})[1]
        assert (back["redelivers"], back["waiting"]) == (3, 2)
        wait_for(lambda: len(target.letters()) == 1)  # after its second try
        assert target.now()["waiting"] == 1
        sink.answer = lambda event: 204
        seek(target, {"after": str(int(moved["position"]) - 3)})
        sink.wait_for(1, subject=bad)
        assert len(target.letters()) == 1  # until somebody redrives or deletes it


@pytest.mark.parametrize("body, status, field", [
    ({}, 422, "from"), ({"from": "first", "after": "1"}, 422, "from"), ({"from": "yesterday"}, 422, "from"), ({"after": "x"}, 422, "after"),
    ({"after": "1-1"}, 422, "after"), ({"after": "999999"}, 422, "after"), ({"from": "first", "to": "last"}, 422, "to"),
])
def test_a_mistake_in_a_move_is_named(server, sink, body, status, field):
    with Target(server, sink.url, enabled=False) as target:
        found, problem, _ = seek(target, body)
        assert (found, problem["field"]) == (status, field), problem
    assert call(server, "POST", "/v1/targets/none/seek", {"from": "first"})[0] == 404
