"""Codes that prove addresses: counted and locked, sent to a webhook by a real receiver's word, and neutral to callers who must not learn
who has an account.

The npm package `standardwebhooks` judges the signatures. GATEHOUSE_NEUTRAL_SAMPLES sets how many requests of each kind are timed, GATEHOUSE_VERIFY_ROUNDS how often 32 verify one
address at once."""
import base64
import http.server
import json
import os
import random
import secrets
import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest

from conftest import program, stop
from test_access import Guarded
from test_users import call, check_invariants, emails, new_id, new_user, ok, rows
from test_v1_access import EVERYTHING, policy
from test_v1_access import call as keyed
from v1 import Crowd, Server, generous, request_bytes
from wire import Wire

pytestmark = pytest.mark.gatehouse_only
JS = Path(__file__).resolve().parent / "js"
WAIT_S = 90
VERIFY_ROUNDS = int(os.environ.get("GATEHOUSE_VERIFY_ROUNDS", 5))
SAMPLES = int(os.environ.get("GATEHOUSE_NEUTRAL_SAMPLES", 200))


def wait_for(what):
    """Polls until it is true, and returns it."""
    end = time.monotonic() + WAIT_S
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.001)
    return found


def address():
    return f"{new_id()}@example.org"


# ---- counting ----


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


def without_versions(found):
    """Rows, but for those that a store of its own does not have."""
    return {table: [row for row in items if '"#VERSION"' not in row] for table, items in found.items()}


def test_the_sixth_code_for_a_mailbox_is_a_verdict_and_changes_nothing_else(server):
    user, box = new_user(server)["id"], address()
    path = f"/v1/users/{user}/emails"
    for _ in range(5):
        assert "code" in ok(server, "POST", path, {"email": box})
    before = without_versions(rows(server))["users"]
    status, answer, _ = call(server, "POST", path, {"email": box})
    assert (status, answer["verdict"], answer["reason"], answer["lock"]["name"]) == (200, "locked", "lock", "CODE_REQUEST")
    assert 0 < answer["retry_after"] <= 900 and "until" in answer and "code" not in answer
    assert without_versions(rows(server))["users"] == before
    before = without_versions(rows(server))
    status, answer, headers = call(server, "POST", path + "?enforce=status", {"email": box})
    assert (status, answer["verdict"]) == (423, "locked")
    assert int(next(value for name, value in headers.items() if name.lower() == "retry-after")) > 0
    other = new_id()
    assert call(server, "POST", "/v1/users", {"id": other, "email": address()})[0] == 201
    before = without_versions(rows(server))
    status, answer, _ = call(server, "POST", "/v1/users", {"id": other + "x", "email": box.upper()})
    assert (status, answer["verdict"]) == (200, "locked")
    assert call(server, "POST", "/v1/users?enforce=status", {"id": other + "x", "email": box})[0] == 423
    assert without_versions(rows(server)) == before
    assert call(server, "GET", f"/v1/users/{other}x")[0] == 404


def test_the_tenth_wrong_entry_locks_and_the_right_code_is_then_not_looked_at(server):
    user = new_user(server)["id"]
    path = f"/v1/users/{user}/emails"
    for n in range(10):
        if n % 5 == 0:
            claim = ok(server, "POST", path, {"email": address()})
        answer = ok(server, "POST", f"{path}/{claim['id']}/verify", {"code": "UUUUUUUU"})
        assert not answer["verified"] and answer["triesLeft"] == 4 - n % 5
        assert ("verdict" in answer) == (n == 9)
    claim = ok(server, "POST", path, {"email": address()})
    before = without_versions(rows(server))
    for query, status in (("", 200), ("?enforce=status", 423)):
        got, answer, _ = call(server, "POST", f"{path}/{claim['id']}/verify{query}", {"code": claim["code"]})
        assert (got, answer["verified"], answer["verdict"], answer["reason"]) == (status, False, "locked", "lock")
        assert answer["retry_after"] > 0 and "triesLeft" not in answer
    assert without_versions(rows(server)) == before


def test_codes_are_counted_by_source_if_a_call_says_where_it_comes_from(server):
    """As shipped: 50 wrong entries of a source, 10 of a user."""
    here = {"context": {"ip": "192.0.2.77"}}
    verdicts = []
    for _ in range(6):
        user = ok(server, "POST", "/v1/users", {"id": new_id(), "email": address(), **here})
        path = f"/v1/users/{user['id']}/emails/{user['claim']['id']}/verify"
        verdicts += [ok(server, "POST", path, {"code": "UUUUUUUU", **here}).get("verdict") for _ in range(9)]
    assert verdicts[:49] == [None] * 49 and verdicts[49:] == ["locked"] * 5
    assert "verdict" not in ok(server, "POST", path, {"code": "UUUUUUUU"})
    answer = ok(server, "POST", f"/v1/users/{user['id']}/emails", {"email": address(), **here})
    assert (answer["verdict"], answer["lock"]["name"]) == ("locked", "SOURCE")  # a source's lock stops its whole journey
    status, problem, _ = call(server, "POST", path, {"code": "UUUUUUUU", "context": {"ip": "here"}})
    assert (status, problem["field"]) == (422, "context.ip")


def test_the_policies_of_users_change_without_a_restart(server):
    status, shown, headers = call(server, "GET", "/v1/policies/users")
    assert (status, shown["document"]["emails"], shown["document"]["codes"]["tries"]) == (200, 20, 5)
    etag = next(value for name, value in headers.items() if name.lower() == "etag")
    try:
        assert call(server, "PUT", "/v1/policies/users", {"emails": 1, "codes": {"length": 12}}, If_Match=etag)[0] == 200
        user = new_user(server)["id"]
        assert len(ok(server, "POST", f"/v1/users/{user}/emails", {"email": address()})["code"]) == 12
        assert call(server, "POST", f"/v1/users/{user}/emails", {"email": address()})[0] == 409
        status, problem, _ = call(server, "PUT", "/v1/policies/users", {"codes": {"length": 5}}, If_Match='"1"')
        assert (status, problem["field"]) == (422, "codes.length")
    finally:
        now = call(server, "GET", "/v1/policies/users")[1]["version"]
        assert call(server, "DELETE", "/v1/policies/users", If_Match=f'"{now}"')[0] == 200


def test_a_suspended_user_gets_no_code_and_proves_nothing(server):
    user = new_user(server)["id"]
    path = f"/v1/users/{user}/emails"
    claim = ok(server, "POST", path, {"email": address()})
    ok(server, "POST", f"/v1/users/{user}/suspend")
    before = without_versions(rows(server))
    for where, body in ((path, {"email": address()}), (f"{path}/{claim['id']}/verify", {"code": claim["code"]})):
        status, answer, _ = call(server, "POST", where, body)
        assert (status, answer["verdict"], answer["reason"]) == (200, "blocked", "user_suspended")
        assert call(server, "POST", where + "?enforce=status", body)[0] == 403
    assert without_versions(rows(server)) == before
    ok(server, "POST", f"/v1/users/{user}/reactivate")
    assert ok(server, "POST", f"{path}/{claim['id']}/verify", {"code": claim["code"]})["verified"]


def test_what_asks_wrongly_is_told_the_field_and_changes_nothing(server):
    user = new_user(server)["id"]
    path = f"/v1/users/{user}/emails"
    claim = ok(server, "POST", path, {"email": address()})
    before = rows(server)
    for where, body in (("/v1/users", {"id": new_id(), "email": address()}), (path, {"email": address()}), (f"{path}/{claim['id']}/verify", {"code": "U"})):
        for query, field in (("?enforce=yes", "enforce"), ("?enforced=status", "enforced"), ("?enforce=status&enforce=status", "enforce")):
            status, problem, _ = call(server, "POST", where + query, body)
            assert (status, problem["field"]) == (422, field)
        status, problem, _ = call(server, "POST", where, {**body, "challenge": "passed"})
        assert (status, problem["field"]) == (422, "challenge")
    assert call(server, "PUT", "/v1/policies/users", {"emails": 1})[0] == 428
    assert rows(server) == before


# ---- email-claims: verified ----


def at_once(server, requests):
    """(status, answer) of each: all under way at the same moment."""
    crowd = Crowd(server.endpoint, len(requests))
    try:
        for peer, (path, body) in zip(crowd.peers, requests):
            peer.sendall(request_bytes(path, body))
        return [(int(head.split()[1]), json.loads(body)) for head, body in crowd.answers()]
    finally:
        crowd.close()


def test_of_32_who_verify_one_address_at_once_one_wins():
    server = generous(Server("--email-claims", "verified"))
    try:
        for n in range(VERIFY_ROUNDS):
            if n % 16 == 0:  # whoever wins has one address more, of 20 at most
                users = [new_user(server)["id"] for _ in range(32)]
            box = address()
            claims = [ok(server, "POST", f"/v1/users/{user}/emails", {"email": box}) for user in users]
            assert call(server, "POST", "/v1/users/lookup", {"email": box})[0] == 404
            answers = at_once(server, [(f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]})
                                       for user, claim in zip(users, claims)])
            assert sorted(status for status, _ in answers) == [200] + [409] * 31
            assert {answer["detail"] for status, answer in answers if status == 409} == {"Email not available"}
            winner = next(i for i, (status, _) in enumerate(answers) if status == 200)
            assert answers[winner][1]["verified"]
            assert ok(server, "POST", "/v1/users/lookup", {"email": box})["user"]["id"] == users[winner]
            assert [user for user in users if box in [each["email"] for each in emails(server, user)]] == [users[winner]]
            loser = (winner + 1) % 32
            assert call(server, "POST", f"/v1/users/{users[loser]}/emails/{claims[loser]['id']}/verify", {"code": claims[loser]["code"]})[0] == 404
            check_invariants(server)
    finally:
        server.close()


def test_a_proof_that_came_too_late_is_the_same_problem_when_it_is_replayed():
    server = generous(Server("--email-claims", "verified"))
    try:
        first, second = (new_user(server)["id"] for _ in range(2))
        box = address()
        claims = {user: ok(server, "POST", f"/v1/users/{user}/emails", {"email": box}) for user in (first, second)}
        path = f"/v1/users/{second}/emails/{claims[second]['id']}/verify"
        ok(server, "POST", f"/v1/users/{first}/emails/{claims[first]['id']}/verify", {"code": claims[first]["code"]})
        told = []
        for _ in range(2):
            status, problem, headers = call(server, "POST", path, {"code": claims[second]["code"]}, Idempotency_Key="too-late")
            told.append((status, problem, {name.lower(): value for name, value in headers.items()}["content-type"]))
        assert told[0] == told[1] and told[0][0] == 409 and told[0][2] == "application/problem+json"
    finally:
        server.close()


def test_the_setting_may_change_at_every_restart():
    server = generous(Server("--email-claims", "added"))

    def restart(*words):
        server.kill()
        server.words = words
        server.start()
        check_invariants(server)

    def claim(user, box):
        return ok(server, "POST", f"/v1/users/{user}/emails", {"email": box})

    def verify(user, claimed):
        return call(server, "POST", f"/v1/users/{user}/emails/{claimed['id']}/verify", {"code": claimed["code"]})[0]

    try:
        ann, bob = (new_user(server)["id"] for _ in range(2))
        boxes = [address() for _ in range(4)]
        old = [claim(ann, box) for box in boxes[:2]]
        assert ok(server, "POST", "/v1/users/lookup", {"email": boxes[0]})["isVerified"] is False
        restart("--email-claims", "verified")
        assert call(server, "POST", "/v1/users/lookup", {"email": boxes[0]})[0] == 404  # it holds nothing any more
        mine = [claim(bob, box) for box in boxes]
        assert verify(bob, mine[0]) == 200 and verify(ann, old[0]) == 404  # a proof takes the place of an old claim
        assert verify(ann, old[1]) == 200 and verify(bob, mine[1]) == 409  # which could still be proved
        check_invariants(server)
        restart("--email-claims", "added")
        taken = claim(ann, boxes[2])  # bob's claim from before holds nothing
        assert verify(bob, mine[2]) == 409 and verify(ann, taken) == 200
        assert verify(bob, mine[3]) == 200  # nobody else wanted it
        check_invariants(server)
        assert call(server, "POST", f"/v1/users/{ann}/emails", {"email": boxes[3]})[0] == 409
        restart("--email-claims", "verified")
        for user in (ann, bob):
            claim(user, address())
        server.kill()
        checked = subprocess.run([program(), "check", "--data", server.data], capture_output=True, text=True, timeout=WAIT_S)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        server.start()
    finally:
        server.close()


# ---- the webhook ----


class Receiver:
    """Takes messages, after it has answered with each of `statuses` once."""

    def __init__(self):
        self.statuses, self.headers, self.tries, self.taken = [], {}, [], []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                seen = {"headers": {name.lower(): value for name, value in self.headers.items()}, "body": body, "path": self.path}
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                receiver.tries.append(seen)
                self.send_response(status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", "0")
                self.end_headers()
                if status < 300:
                    receiver.taken.append(seen)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/codes?from=gatehouse"

    def message(self, email):
        """The last one for that address."""
        return wait_for(lambda: next((data for data in map(self.data, reversed(list(self.taken))) if data["email"] == email), None))

    @staticmethod
    def data(seen):
        return json.loads(seen["body"])["data"]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def new_secret():
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def identity(folder, receiver, *secret):
    (folder / "codes.secret").write_text("".join(each + "\n" for each in secret))
    (folder / "identity.yaml").write_text(f"codes: {{webhook: '{receiver.url}', secret_file: codes.secret, allow_private: true}}\n")
    return str(folder / "identity.yaml")


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


def judged(messages, secret):
    """What the npm package says of each."""
    asked = "".join(json.dumps({"secret": secret, "headers": each["headers"], "body": each["body"]}) + "\n" for each in messages)
    done = subprocess.run(["node", "webhook.mjs"], cwd=JS, input=asked, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def metric(server, name):
    text = server.v1.send("GET", "/metrics", b"", {}).body.decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def test_a_code_goes_to_the_webhook_signed_and_nowhere_else(receiver, tmp_path):
    secret, box = new_secret(), address()
    server = Server("--identity", identity(tmp_path, receiver, secret), "--log-requests")
    try:
        made = ok(server, "POST", "/v1/users", {"id": "ann", "email": box}, traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
        assert "code" not in made["claim"] and "codeExpiresAt" in made["claim"]
        data = receiver.message(box)
        assert (data["kind"], data["userId"], data["emailId"]) == ("verify_email", "ann", made["claim"]["id"])
        assert data["codeExpiresAt"] == made["claim"]["codeExpiresAt"]
        sent = receiver.taken[0]
        assert json.loads(sent["body"])["type"] == "code.verify_email" and sent["path"] == "/codes?from=gatehouse"
        assert sent["headers"]["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c-")
        assert judged([sent], secret) == ["good"]
        assert judged([sent], new_secret()) != ["good"]
        assert judged([{**sent, "body": sent["body"].replace("verify", "verifi")}], secret) != ["good"]
        again = ok(server, "POST", "/v1/users/ann/emails", {"email": box})
        assert "code" not in again
        newer = wait_for(lambda: len(receiver.taken) == 2 and receiver.data(receiver.taken[1]))
        assert not ok(server, "POST", f"/v1/users/ann/emails/{made['claim']['id']}/verify", {"code": data["code"]})["verified"]
        assert ok(server, "POST", f"/v1/users/ann/emails/{made['claim']['id']}/verify", {"code": newer["code"]})["verified"]
        wait_for(lambda: metric(server, 'gatehouse_code_messages_total{outcome="sent"}') == 2)  # counted once the answer has come
        wait_for(lambda: metric(server, "gatehouse_code_queue") == 0)
        for code in (data["code"], newer["code"]):
            assert code.encode() not in b"".join(server.stored()) and code.encode() not in server.logged()
        assert b"example.org" not in server.logged()
    finally:
        server.close()


def test_a_retry_of_a_request_sends_no_second_code(receiver, tmp_path):
    server = Server("--identity", identity(tmp_path, receiver, new_secret()))
    try:
        body = {"id": "ann", "email": address()}
        first = ok(server, "POST", "/v1/users", body, Idempotency_Key="one")
        assert ok(server, "POST", "/v1/users", body, Idempotency_Key="one") == first
        own = address()
        ok(server, "POST", "/v1/users/ann/emails", {"email": own})
        for email in (body["email"], own):  # in any order: several senders work side by side
            receiver.message(email)
        wait_for(lambda: metric(server, "gatehouse_code_queue") == 0)
        assert len(receiver.taken) == 2
    finally:
        server.close()


def test_a_message_is_tried_again_with_the_same_id_and_a_new_signature(receiver, tmp_path):
    secret, box = new_secret(), address()
    receiver.statuses = [500, 302, 429]
    server = Server("--identity", identity(tmp_path, receiver, secret))
    try:
        ok(server, "POST", "/v1/users", {"id": "ann", "email": box})
        receiver.message(box)
        assert len(receiver.tries) == 4 and len({each["headers"]["webhook-id"] for each in receiver.tries}) == 1
        assert judged(receiver.tries, secret) == ["good"] * 4
        receiver.statuses = [410]
        ok(server, "POST", "/v1/users/ann/emails", {"email": address()})
        wait_for(lambda: metric(server, 'gatehouse_code_messages_total{outcome="failed"}') == 1)  # it wants none
    finally:
        server.close()


def test_a_newer_code_takes_the_place_of_one_that_could_not_be_sent(receiver, tmp_path):
    box = address()
    receiver.statuses, receiver.headers = [503], {"Retry-After": "60"}  # far longer than the test: the newer one does not wait
    server = Server("--identity", identity(tmp_path, receiver, new_secret()))
    try:
        made = ok(server, "POST", "/v1/users", {"id": "ann", "email": box})
        wait_for(lambda: len(receiver.tries) == 1)
        receiver.headers = {}
        ok(server, "POST", "/v1/users/ann/emails", {"email": box})
        data = receiver.message(box)
        assert data["code"] != receiver.data(receiver.tries[0])["code"]
        assert ok(server, "POST", f"/v1/users/ann/emails/{made['claim']['id']}/verify", {"code": data["code"]})["verified"]
        wait_for(lambda: metric(server, 'gatehouse_code_messages_total{outcome="replaced"}') == 1)
        assert [receiver.data(each)["code"] for each in receiver.taken] == [data["code"]]
    finally:
        server.close()


def test_secrets_are_rotated_without_a_restart(receiver, tmp_path):
    old, new = new_secret(), new_secret()
    server = Server("--identity", identity(tmp_path, receiver, old))

    def asked():
        box = address()
        new_user(server, email=box)
        receiver.message(box)
        return receiver.taken[-1]

    try:
        assert judged([asked()], old) == ["good"]
        identity(tmp_path, receiver, old, new)
        both = wait_for(lambda: (lambda seen: seen if " " in seen["headers"]["webhook-signature"] else None)(asked()))
        assert judged([both], old) == judged([both], new) == ["good"]
        (tmp_path / "codes.secret").write_text("whsec_short\n")  # refused: the old ones stay
        wait_for(lambda: b"codes.secret_file" in server.logged())
        assert judged([asked()], new) == ["good"]
        (tmp_path / "identity.yaml").write_text("{}\n")  # off: the code is in the answer again
        wait_for(lambda: "code" in ok(server, "POST", f"/v1/users/{new_user(server)['id']}/emails", {"email": address()}))
    finally:
        server.close()


@pytest.mark.parametrize("section, field", [
    ("{secret_file: s}", "codes.webhook"), ("{webhook: 'https://example.org/'}", "codes.secret_file"),
    ("{webhook: 'http://example.org/', secret_file: s}", "codes.webhook"), ("{webhook: 'https://example.org/', secret_file: none}", "codes.secret_file"),
    ("{webhook: 'https://example.org/', secret_file: bad}", "codes.secret_file"), ("{webhook: 1, secret_file: s}", "codes.webhook"),
    ("{webhook: 'https://example.org/', secret_file: s, allow_private: 1}", "codes.allow_private"),
    ("{webhook: 'https://example.org/', secret_file: s, ca_file: none}", "codes.ca_file"),
    ("{webhook: 'https://example.org/', secret_file: s, url: x}", "codes.url"), ("7", "codes")])
def test_a_wrong_section_is_refused_by_its_field(section, field, tmp_path):
    secret = new_secret()
    (tmp_path / "s").write_text(secret)
    (tmp_path / "bad").write_text(secret[:-20])
    (tmp_path / "identity.yaml").write_text(f"codes: {section}\n")
    done = subprocess.run([program(), "serve", "--check-config", "--identity", str(tmp_path / "identity.yaml")], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and f"line 1: {field}:" in done.stderr, done.stderr
    assert secret[6:20] not in done.stderr


def test_at_a_stop_codes_that_are_due_are_still_sent(receiver, tmp_path):
    server = generous(Server("--identity", identity(tmp_path, receiver, new_secret())))
    try:
        boxes = [address() for _ in range(50)]
        for box in boxes:
            new_user(server, email=box)
    finally:
        server.close()
    assert sorted(receiver.data(each)["email"] for each in receiver.taken) == sorted(boxes)


# ---- callers who must not learn who has an account ----

SIGN_UP = {"Effect": "Allow", "Action": ["gatehouse:CreateUser", "gatehouse:AddEmail", "gatehouse:VerifyEmail", "gatehouse:ListEmails"], "Resource": "*"}


class House(Guarded):
    """With authentication, a webhook, and two callers: one that may look users up, and one that may not."""

    def __init__(self, folder, receiver, *words):
        super().__init__("--identity", identity(folder, receiver, new_secret()), *words)
        self.receiver = receiver
        self.root = self.make("root", policy(EVERYTHING))
        self.page = self.make("sign-up-page", policy(SIGN_UP))
        self.v1 = self  # for generous
        generous(self)

    def send(self, method, path, body, headers):
        wire = Wire(self.endpoint)
        try:
            return wire.send(method, path, body, {"Authorization": f"Bearer {self.root[0]}.{self.root[1]}", **headers})
        finally:
            wire.close()

    def proved(self, user, box):
        claim = keyed(self, self.root, "POST", f"/v1/users/{user}/emails", {"email": box})[1]
        code = self.receiver.message(box)["code"]
        assert keyed(self, self.root, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": code})[1]["verified"]
        return claim["id"]

    def taken(self, owner=None):
        """An address that somebody has verified."""
        box, owner = address(), owner or new_id()
        assert keyed(self, self.root, "POST", "/v1/users", {"id": owner})[0] in (201, 409)
        self.proved(owner, box)
        return box

    def freed(self, owner):
        """One that somebody had verified and gave up: the server has seen it as often as one that is taken. The owner has another one."""
        box = address()
        email_id = self.proved(owner, box)
        assert keyed(self, self.root, "DELETE", f"/v1/users/{owner}/emails/{email_id}")[0] == 200
        return box

    def close(self):
        stop(self.process)
        shutil.rmtree(self.data, ignore_errors=True)


@pytest.fixture(params=["added", "verified"])
def house(request, receiver, tmp_path):
    made = House(tmp_path, receiver, "--email-claims", request.param)
    yield made
    made.close()


def shape(answer):
    """Names and types, without values."""
    return {name: shape(value) if isinstance(value, dict) else type(value).__name__ for name, value in answer.items()}


def test_a_key_that_may_not_look_up_users_is_answered_the_same_whether_or_not_an_address_is_taken(house):
    taken, free = house.taken(), address()
    answers = {}
    for box in (taken, free):
        create = keyed(house, house.page, "POST", "/v1/users", {"id": new_id(), "email": box})
        user = new_id()
        assert keyed(house, house.page, "POST", "/v1/users", {"id": user})[0] == 201
        add = keyed(house, house.page, "POST", f"/v1/users/{user}/emails", {"email": box})
        again = keyed(house, house.page, "POST", f"/v1/users/{user}/emails", {"email": box})
        wrong = keyed(house, house.page, "POST", f"/v1/users/{user}/emails/{add[1]['id']}/verify", {"code": "UUUUUUUU"})
        listed = keyed(house, house.page, "GET", f"/v1/users/{user}/emails")
        assert [each["email"] for each in listed[1]["emails"]] == [box]
        answers[box] = [(status, shape(answer)) for status, answer in (create, add, again, wrong)] + [shape(listed[1]["emails"][0])]
        assert wrong[1]["triesLeft"] == 4
    assert answers[taken] == answers[free]
    assert [status for status, _ in answers[free][:4]] == [201, 201, 200, 200]
    data = house.receiver.message(free)
    assert data["kind"] == "verify_email"
    notice = wait_for(lambda: [d for d in map(house.receiver.data, list(house.receiver.taken)) if d["email"] == taken and d["kind"] == "address_in_use"])[0]
    assert "code" not in notice and "emailId" not in notice and "userId" in notice
    assert keyed(house, house.root, "POST", "/v1/users", {"email": taken})[0] == 409  # who may know is told


def test_mail_goes_to_the_address_as_it_was_typed_and_a_notice_to_its_owner_as_the_owner_typed_it(house):
    """`Straße@` and `strasse@` are one address here, and may be two mailboxes at their host."""
    name, user, other = new_id(), new_id(), new_id()
    typed, folded = f"Straße-{name}@Example.org", f"strasse-{name}@example.org"
    made = keyed(house, house.root, "POST", "/v1/users", {"id": user, "email": f" {typed} "})[1]["claim"]
    assert (made["email"], made["emailAsTyped"]) == (folded, typed)
    code = house.receiver.message(typed)["code"]
    assert keyed(house, house.root, "POST", f"/v1/users/{user}/emails/{made['id']}/verify", {"code": code})[1]["verified"]
    found = keyed(house, house.root, "POST", "/v1/users/lookup", {"email": folded})[1]
    assert (found["email"], found["emailAsTyped"], found["user"]["emailAsTyped"]) == (folded, typed, typed)
    assert keyed(house, house.page, "POST", "/v1/users", {"id": other, "email": folded})[0] == 201  # a stranger, who typed it otherwise
    wait_for(lambda: house.receiver.message(typed)["kind"] == "address_in_use")
    assert not [d for d in map(house.receiver.data, list(house.receiver.taken)) if d["email"] == folded]


def test_what_a_neutral_caller_is_sent_proves_the_address(house):
    box, user = address(), new_id()
    claim = keyed(house, house.page, "POST", "/v1/users", {"id": user, "email": box})[1]["claim"]
    code = house.receiver.message(box)["code"]
    status, answer = keyed(house, house.page, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": code})
    assert (status, answer["verified"], answer["email"]["isPrimary"]) == (200, True, True)


def test_a_key_with_a_deny_for_single_users_is_neutral_too(house):
    some = house.make("some", policy(EVERYTHING, {"Effect": "Deny", "Action": "gatehouse:LookupUser", "Resource": "arn:aws:gatehouse:*:*:user/vip"}))
    taken = house.taken()
    assert keyed(house, some, "POST", "/v1/users", {"email": taken})[0] == 201


def test_without_a_webhook_a_neutral_caller_is_refused_in_either_case():
    server = Guarded()
    try:
        root, page = server.make("root", policy(EVERYTHING)), server.make("page", policy(SIGN_UP))
        taken = address()
        assert keyed(server, root, "POST", "/v1/users", {"id": "ann", "email": taken})[0] == 201
        answers = [keyed(server, page, "POST", path, {"email": box}) for box in (taken, address()) for path in ("/v1/users", "/v1/users/ann/emails")]
        assert all(status == 403 and "LookupUser" in problem["detail"] for status, problem in answers)
        assert keyed(server, page, "POST", "/v1/users", {"id": "bob"})[0] == 201
    finally:
        stop(server.process)
        shutil.rmtree(server.data, ignore_errors=True)


def distance(one, other):
    """Kolmogorov and Smirnov's: how far the two distributions are apart at most, from 0 to 1."""
    far, i, j = 0.0, 0, 0
    one, other = sorted(one), sorted(other)
    while i < len(one) and j < len(other):
        value = min(one[i], other[j])
        while i < len(one) and one[i] == value:
            i += 1
        while j < len(other) and other[j] == value:
            j += 1
        far = max(far, abs(i / len(one) - j / len(other)))
    return far


def test_the_time_of_an_answer_does_not_tell_whether_the_address_is_taken(receiver, tmp_path):
    """Taken and free addresses that the server has seen equally often, each asked for once, in random order, and nothing else under way. The bound is the distance that two samples of one
    distribution exceed once in 10,000 times; the control, callers who are told, is far beyond it."""
    house = House(tmp_path, receiver)
    bound = 2.23 * (2 / SAMPLES) ** 0.5
    owner = new_id()
    house.taken(owner)
    taken, free = [house.taken() for _ in range(SAMPLES)], [house.freed(owner) for _ in range(SAMPLES)]
    asked = [("taken", house.page, box, 201) for box in taken] + [("free", house.page, box, 201) for box in free]
    asked += [("told", house.root, box, 409) for box in taken]
    random.shuffle(asked)
    times, sent = {}, len(receiver.taken)
    crowd = Crowd(house.endpoint, 1)
    try:
        for name, key, box, expected in asked:
            raw = request_bytes("/v1/users", {"email": box}, Authorization=f"Bearer {key[0]}.{key[1]}")
            start = time.perf_counter()
            crowd.peers[0].sendall(raw)
            head, _ = crowd.read(crowd.peers[0])
            times.setdefault(name, []).append(time.perf_counter() - start)
            assert int(head.split()[1]) == expected
            sent += expected == 201
            wait_for(lambda: len(receiver.taken) == sent)
        far, control = distance(times["taken"], times["free"]), distance(times["told"], times["free"])
        print(f"distance {far:.3f}, bound {bound:.3f}, control {control:.3f}; medians in us:",
              {name: round(1e6 * sorted(each)[len(each) // 2]) for name, each in times.items()})
        assert far <= bound, (far, bound)
        assert control > bound, (control, bound)
    finally:
        crowd.close()
        house.close()
