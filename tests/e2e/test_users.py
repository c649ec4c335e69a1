"""Users and their addresses over HTTP: what docs/users.md promises, races over real connections, and bad input field by field."""
import http.client
import json
import os
import random
import threading
import time
import uuid

import boto3
import pytest

from conftest import CREDENTIALS
from test_access import CONFIG, REGION
from v1 import Crowd, Server, generous, request_bytes

pytestmark = pytest.mark.gatehouse_only
ROUGH = "GATEHOUSE_ROUGH" in os.environ  # where a request takes a hundred times as long
ADD_ROUNDS = int(os.environ.get("GATEHOUSE_ADD_ROUNDS", 30 if ROUGH else 1000))
PRIMARY_ROUNDS = int(os.environ.get("GATEHOUSE_PRIMARY_ROUNDS", 15))
KILL_ROUNDS = int(os.environ.get("GATEHOUSE_KILL_ROUNDS", 4))
WAIT_S = 60


@pytest.fixture(scope="module")
def server():
    made = generous(Server("--email-claims", "added"))  # an address is taken at once: test_codes.py has the default
    yield made
    made.close()


def call(server, method, path, body=None, **headers):
    """(status, answer, headers)"""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = server.v1.send(method, path, b"" if body is None else json.dumps(body).encode(), named)
    return reply.status, reply.json(), reply.headers


def ok(server, method, path, body=None, **headers):
    status, answer, _ = call(server, method, path, body, **headers)
    assert status in (200, 201), (status, answer)
    return answer


def new_id():
    return "u-" + uuid.uuid4().hex


def new_user(server, **fields):
    return ok(server, "POST", "/v1/users", {"id": new_id(), **fields})


def own(server, user, email):
    """Adds and verifies; the address's id."""
    claim = ok(server, "POST", f"/v1/users/{user}/emails", {"email": email})
    assert ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]})["verified"]
    return claim["id"]


def emails(server, user):
    return ok(server, "GET", f"/v1/users/{user}/emails")["emails"]


def rows(server):
    client = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name=REGION, config=CONFIG,
                          aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"], aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    found = {}
    for table in client.list_tables()["TableNames"]:
        items = []
        for page in client.get_paginator("scan").paginate(TableName=table):
            items += page["Items"]
        found[table] = sorted(json.dumps(item, sort_keys=True) for item in items)
    return found


# ---- versions ----


def test_a_patch_names_the_version_it_changes(server):
    user = new_user(server, firstName="Ann")["id"]
    path = f"/v1/users/{user}"
    status, answer, headers = call(server, "GET", path)
    assert (status, answer["version"]) == (200, 1)
    etag = next(value for name, value in headers.items() if name.lower() == "etag")
    assert etag == '"1"'
    assert call(server, "PATCH", path, {"lastName": "Lee"})[0] == 428
    status, answer, _ = call(server, "PATCH", path, {"lastName": "Lee"}, If_Match=etag)
    assert (status, answer["version"], answer["firstName"], answer["lastName"]) == (200, 2, "Ann", "Lee")
    assert call(server, "PATCH", path, {"lastName": "X"}, If_Match=etag)[0] == 412
    status, answer, _ = call(server, "PATCH", path, {"lastName": "X", "version": 1})
    assert (status, answer["detail"]) == (409, "Resource modified, please refresh")
    assert call(server, "PATCH", path, {"lastName": "X", "version": 1}, If_Match='"2"')[0] == 409
    assert call(server, "PATCH", path, {"lastName": "X", "version": 2}, If_Match='"1"')[0] == 412
    status, answer, _ = call(server, "PATCH", path, {"lastName": None, "version": 2}, If_Match='"2"')
    assert status == 200 and "lastName" not in answer and answer["version"] == 3


def test_status_moves_as_drawn(server):
    user = new_user(server)["id"]
    path = f"/v1/users/{user}"
    assert ok(server, "POST", path + "/suspend")["status"] == "suspended"
    assert ok(server, "POST", path + "/suspend")["version"] == 2
    assert call(server, "POST", path + "/reactivate", If_Match='"1"')[0] == 412
    assert ok(server, "POST", path + "/reactivate")["status"] == "active"
    assert ok(server, "DELETE", path)["status"] == "deleted"
    assert call(server, "POST", path + "/reactivate")[0] == 409
    assert call(server, "PATCH", path, {"firstName": "A", "version": 4})[0] == 409
    assert ok(server, "GET", path)["status"] == "deleted"
    assert call(server, "GET", "/v1/users/nobody")[0] == 404


def test_a_list_holds_every_user_once(server):
    made = {new_user(server)["id"] for _ in range(7)}
    listed, query = [], "?limit=3"
    while True:
        page = ok(server, "GET", "/v1/users" + query)
        listed += [user["id"] for user in page["users"]]
        if not page["more"]:
            break
        query = f"?limit=3&cursor={page['cursor']}"
    assert len(listed) == len(set(listed)) and made <= set(listed)


# ---- addresses ----


def test_a_sign_up_and_a_change_of_address(server):
    first, second = f"{new_id()}@example.org", f"{new_id()}@example.org"
    made = new_user(server, email=first.upper())
    user, claim = made["id"], made["claim"]
    assert claim["email"] == first and "email" not in made
    wrong = ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": "UUUUUUUU"})
    assert (wrong["verified"], wrong["reason"], wrong["triesLeft"]) == (False, "wrong_code", 4)
    assert not ok(server, "POST", "/v1/users/lookup", {"email": first})["isVerified"]
    assert ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"].lower()})["email"]["isPrimary"]
    again = ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]})
    assert (again["verified"], again["reason"]) == (False, "no_code")
    other = own(server, user, second)
    assert call(server, "DELETE", f"/v1/users/{user}/emails/{claim['id']}")[0] == 409
    changed = ok(server, "PUT", f"/v1/users/{user}/primary-email", {"emailId": other})
    assert (changed["email"], changed["primaryEmailId"], changed["version"]) == (second, other, 3)
    assert ok(server, "DELETE", f"/v1/users/{user}/emails/{claim['id']}") == {"removed": True}
    assert call(server, "POST", "/v1/users/lookup", {"email": first})[0] == 404
    assert [(e["email"], e["isPrimary"]) for e in emails(server, user)] == [(second, True)]


def test_an_address_is_found_in_the_index_as_the_document_draws_it(server):
    email = f"{new_id()}@example.org"
    user = new_user(server, email=email)["id"]
    ddb = boto3.client("dynamodb", endpoint_url=server.endpoint, region_name=REGION, config=CONFIG, aws_access_key_id="a", aws_secret_access_key="b")
    found = ddb.query(TableName="users", IndexName="GSI1", KeyConditionExpression="GSI1PK = :e",
                      ExpressionAttributeValues={":e": {"S": f"EMAIL#{email}"}})["Items"]
    assert [(item["PK"]["S"], item["SK"]["S"][:6], item["GSI1SK"]["S"]) for item in found] == [(f"USER#{user}", "EMAIL#", f"USER#{user}")]


def test_a_retry_creates_nothing_twice_and_is_not_told_the_code(server):
    body = {"email": f"{new_id()}@example.org"}
    first = ok(server, "POST", "/v1/users", body, Idempotency_Key="sign-up-1")
    again = ok(server, "POST", "/v1/users", body, Idempotency_Key="sign-up-1")
    assert again["id"] == first["id"] and "code" in first["claim"]
    del first["claim"]["code"]
    assert again == first


def test_a_user_has_at_most_20_addresses(server):
    user = new_user(server)["id"]
    for _ in range(20):
        ok(server, "POST", f"/v1/users/{user}/emails", {"email": f"{new_id()}@example.org"})
    status, answer, _ = call(server, "POST", f"/v1/users/{user}/emails", {"email": f"{new_id()}@example.org"})
    assert (status, answer["type"]) == (409, "urn:gatehouse:problem:limit-exceeded")


def test_neither_log_nor_audit_nor_disk_holds_a_code_and_the_log_no_address():
    server = Server("--log-requests", "--email-claims", "added")
    try:
        made = ok(server, "POST", "/v1/users", {"id": "ann", "email": "secret-ann@example.org"})
        own(server, "ann", "second-ann@example.org")
        ok(server, "POST", "/v1/users/ann/suspend")
        call(server, "POST", "/v1/users", {"id": "eve", "email": "secret-ann@example.org"})
        assert made["claim"]["code"].encode() not in b"".join(server.stored())
        server.v1.close()
        server.process.terminate()
        server.process.wait()
        audit = open(f"{server.data}/audit.log", "rb").read()
        assert b"example.org" not in audit and b"example.org" not in server.logged()
        lines = [json.loads(line) for line in audit.splitlines()]
        told = [(line["operation"], line.get("subject")) for line in lines if line["act"] == "identity.change"]
        assert told == [(name, "ann") for name in ("CreateUser", "AddEmail", "VerifyEmail", "SuspendUser")]
    finally:
        server.close()


# ---- races over real connections ----


def test_of_32_who_add_one_address_at_once_one_wins(server):
    users = [new_user(server)["id"] for _ in range(32)]
    crowd = Crowd(server.endpoint, len(users))
    try:
        for _ in range(ADD_ROUNDS):
            email = f"{new_id()}@example.org"
            for peer, user in zip(crowd.peers, users):
                peer.sendall(request_bytes(f"/v1/users/{user}/emails", {"email": email}))
            answers = [(int(head.split()[1]), json.loads(body)) for head, body in crowd.answers()]
            assert sorted(status for status, _ in answers) == [201] + [409] * 31
            assert {answer["detail"] for status, answer in answers if status == 409} == {"Email not available"}
            winner = next(i for i, (status, _) in enumerate(answers) if status == 201)
            ok(server, "DELETE", f"/v1/users/{users[winner]}/emails/{answers[winner][1]['id']}")
    finally:
        crowd.close()


def together(*works):
    """Each in a thread of its own, with a connection of its own."""
    failed = []

    def run(work):
        try:
            work()
        except Exception as error:  # noqa: BLE001: told below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed


class Peer:
    def __init__(self, server):
        self.v1 = type(server.v1)(server.endpoint)


def test_set_primary_against_remove_leaves_exactly_one_verified_primary(server):
    user = new_user(server)["id"]
    own(server, user, f"{new_id()}@example.org")
    peers = [Peer(server) for _ in range(4)]
    for _ in range(PRIMARY_ROUNDS):
        ids = [own(server, user, f"{new_id()}@example.org") for _ in range(2)]

        def prefer(peer, email_id):
            assert call(peer, "PUT", f"/v1/users/{user}/primary-email", {"emailId": email_id})[0] in (200, 404)

        def remove(peer, email_id):
            assert call(peer, "DELETE", f"/v1/users/{user}/emails/{email_id}")[0] in (200, 409)

        together(*[lambda p=peers[i], e=ids[i]: prefer(p, e) for i in (0, 1)],
                 *[lambda p=peers[2 + i], e=ids[i]: remove(p, e) for i in (0, 1)])
        left = emails(server, user)
        primary = [each for each in left if each["isPrimary"]]
        assert len(primary) == 1 and primary[0]["isVerified"]
        assert ok(server, "GET", f"/v1/users/{user}")["email"] == primary[0]["email"]
        for each in left:
            if not each["isPrimary"]:
                ok(server, "DELETE", f"/v1/users/{user}/emails/{each['id']}")


def test_no_patch_is_lost(server):
    user = new_user(server, attributes={"n": 0})["id"]
    path = f"/v1/users/{user}"

    def work(peer):
        done = 0
        while done < 20:
            now = ok(peer, "GET", path)
            status, answer, _ = call(peer, "PATCH", path, {"version": now["version"], "attributes": {"n": now["attributes"]["n"] + 1}})
            assert status in (200, 409), answer
            done += status == 200

    together(*[lambda p=Peer(server): work(p) for _ in range(4)])
    final = ok(server, "GET", path)
    assert (final["attributes"]["n"], final["version"]) == (80, 81)


# ---- a power cut ----


def check_invariants(server):
    """Every address has its marker and every marker its address, but for claims that take nothing (no GSI1PK); a user has no primary, or exactly one, verified, and the profile names it."""
    items = [json.loads(text) for text in rows(server)["users"]]
    addresses = {(i["PK"]["S"], i["SK"]["S"].removeprefix("EMAIL#")): i for i in items if i["SK"]["S"].startswith("EMAIL#")}
    markers = {("USER#" + i["userId"]["S"], i["emailId"]["S"]): i["PK"]["S"] for i in items if i["SK"]["S"] == "MARKER"}
    assert {key: "EMAIL#" + i["email"]["S"] for key, i in addresses.items() if "GSI1PK" in i} == markers
    assert not any(i["isVerified"]["BOOL"] for i in addresses.values() if "GSI1PK" not in i)
    for profile in (i for i in items if i["SK"]["S"] == "PROFILE"):
        own_rows = {key[1]: i for key, i in addresses.items() if key[0] == profile["PK"]["S"]}
        primary = [key for key, i in own_rows.items() if i["isPrimary"]["BOOL"]]
        assert primary == ([profile["primaryEmailId"]["S"]] if "primaryEmailId" in profile else [])
        assert all(own_rows[key]["isVerified"]["BOOL"] and own_rows[key]["email"] == profile["email"] for key in primary)
        assert bool(primary) == any(i["isVerified"]["BOOL"] for i in own_rows.values())
    return len(addresses)


class Load:
    """Users who change their addresses without a pause, until the server is killed in the middle of it."""

    def __init__(self, server, users):
        self.server, self.users = server, users

    def churn(self, user):
        peer = Peer(self.server)
        try:
            while True:
                email_id = own(peer, user, f"{new_id()}@example.org")
                call(peer, "PUT", f"/v1/users/{user}/primary-email", {"emailId": email_id})
                for each in emails(peer, user)[:-1]:
                    call(peer, "DELETE", f"/v1/users/{user}/emails/{each['id']}")
                self.changed += 1
        except (OSError, http.client.HTTPException):
            pass  # it was killed

    def kill(self):
        """Not before the load has begun to bite, however slow the machine is."""
        end = time.monotonic() + WAIT_S
        while self.changed < len(self.users) and time.monotonic() < end:
            time.sleep(0.001)
        time.sleep(random.random() / 10)
        self.server.kill()

    def until_killed(self, *others):
        self.changed = 0
        together(self.kill, *others, *[lambda user=user: self.churn(user) for user in self.users])


def test_a_kill_under_load_leaves_no_address_without_its_marker_and_never_two_primaries():
    server = generous(Server())
    try:
        load = Load(server, [new_user(server)["id"] for _ in range(6)])
        for _ in range(KILL_ROUNDS):
            load.until_killed()
            server.start()
            assert check_invariants(server) > 0
    finally:
        server.close()


# ---- bad input ----

TEXTS = [1, True, [], {}, "", "x" * 257, "a\nb"]
BAD = (
    [("firstName", value) for value in TEXTS] + [("lastName", value) for value in TEXTS]
    + [("phone", value) for value in [1, "", "442071838750", "+0442071838750", "+44 2071838750", "+123456", "+1234567890123456", "+44x071838750"]]
    + [("attributes", value) for value in [1, "x", [], {"a": 1.5}, {"a": []}, {"a": {}}, {"a": "x" * 2049}, {"": 1}, {"a b": 1}, {"x" * 65: 1},
                                           {f"n{i}": 1 for i in range(51)}, {f"n{i}": "x" * 2000 for i in range(17)}]]
    + [("nickname", "A"), ("Firstname", "A"), ("status", "deleted"), ("createdAt", "2026-11-17T02:00:00Z")]
)
BAD_NEW = BAD + [("attributes", {"a": None})] + [
    ("id", value) for value in [1, "", "a b", "a#b", "a/b", "ann@example.org", "+442071838750", "192.0.2.1", "x" * 129, "ä"]] + [
    ("email", value) for value in [1, "", "ann", "@example.org", "ann@", "a b@example.org", "x" * 320 + "@example.org"]]
BAD_PATCH = BAD + [("email", "ann@example.org"), ("id", "other"), ("version", -1), ("version", "1"), ("version", 1.5)]


def refused(server, method, path, body, field, **headers):
    status, answer, _ = call(server, method, path, body, **headers)
    assert status in (400, 422), (body, answer)
    assert answer["field"].split(".")[0] == field, (body, answer)


def test_bad_input_names_its_field_and_changes_nothing(server):
    user = new_user(server, email=f"{new_id()}@example.org")
    path = f"/v1/users/{user['id']}"
    before = rows(server)
    for name, value in BAD_NEW:
        refused(server, "POST", "/v1/users", {"id": new_id(), name: value}, name)
    for name, value in BAD_PATCH:
        refused(server, "PATCH", path, {name: value}, name, If_Match='"1"')
    for value in [None, 1, "", "ann", "@example.org", "x" * 321 + "@a"]:
        refused(server, "POST", path + "/emails", {"email": value}, "email")
        refused(server, "POST", "/v1/users/lookup", {"email": value}, "email")
    for value in [None, 1, "", "x" * 65]:
        refused(server, "POST", f"{path}/emails/{user['claim']['id']}/verify", {"code": value}, "code")
        refused(server, "PUT", path + "/primary-email", {"emailId": value}, "emailId")
    refused(server, "PUT", path + "/primary-email", {"emailId": "a b"}, "emailId")
    refused(server, "PUT", path + "/primary-email", {"emailId": user["claim"]["id"], "more": 1}, "more")
    refused(server, "POST", path + "/emails", {"email": "a@example.org", "primary": True}, "primary")
    refused(server, "DELETE", f"{path}/emails/a%20b", None, "email_id")
    for bad in ("a%20b", "ann@example.org", "a%23b", "x" * 129):
        refused(server, "GET", f"/v1/users/{bad}", None, "id")
    for query, field in (("limit=0", "limit"), ("limit=501", "limit"), ("limit=x", "limit"), ("cursor=x", "cursor"), ("page=1", "page")):
        refused(server, "GET", "/v1/users?" + query, None, field)
    assert call(server, "PATCH", path, {"version": 1})[0] == 422
    for tags in ("7", '"1" "2"', '"1",', "W/", '"1', '"9"', 'W/"1"', ", ".join(f'"{n}"' for n in range(2, 19))):
        assert call(server, "PATCH", path, {"lastName": "x"}, If_Match=tags)[0] == 412, tags
    refused(server, "POST", path + "/suspend", {"why": "x"}, "why")
    refused(server, "POST", path + "/suspend", {"reason": "a\nb"}, "reason")
    refused(server, "POST", path + "/suspend", {"reason": "x" * 257}, "reason")
    assert rows(server) == before


def test_if_match_takes_a_star_and_a_list(server):
    """RFC 9110, 13.1.1."""
    path = "/v1/users/" + new_user(server)["id"]
    assert ok(server, "PATCH", path, {"lastName": "a"}, If_Match="*")["version"] == 2
    assert ok(server, "PATCH", path, {"lastName": "b"}, If_Match='"1", W/"2","2"')["version"] == 3
    assert call(server, "PATCH", path, {"lastName": "c"}, If_Match='"1", "2"')[0] == 412
    assert call(server, "PATCH", "/v1/users/" + new_id(), {"lastName": "c"}, If_Match="*")[0] == 404


def test_attributes_that_are_null_go_all_at_once(server):
    path = "/v1/users/" + new_user(server, attributes={"plan": "gold", "seats": 4})["id"]
    assert "attributes" not in ok(server, "PATCH", path, {"attributes": None}, If_Match="*")
    assert "attributes" not in ok(server, "GET", path)


@pytest.mark.parametrize("bad", [".", ".."])
def test_an_id_that_no_path_can_name_is_refused(server, bad):
    assert call(server, "POST", "/v1/users", {"id": bad})[0] == 422
    assert call(server, "POST", "/v1/sync/users", {"provider": "pool", "id": bad})[0] == 422


def test_by_default_a_proof_beats_a_claim(request):
    """A stranger could hold an address for ever, by claiming it daily."""
    server = generous(Server())
    request.addfinalizer(server.close)
    box, stranger, owner = f"{uuid.uuid4().hex}@example.org", new_user(server)["id"], new_user(server)["id"]
    claimed = ok(server, "POST", f"/v1/users/{stranger}/emails", {"email": box})
    own(server, owner, box)
    assert ok(server, "POST", "/v1/users/lookup", {"email": box})["user"]["id"] == owner
    assert call(server, "POST", f"/v1/users/{stranger}/emails/{claimed['id']}/verify", {"code": claimed["code"]})[0] in (404, 409)


def test_suspending_takes_a_reason_and_an_empty_body(server):
    path = "/v1/users/" + new_user(server)["id"]
    assert ok(server, "POST", path + "/suspend", {})["status"] == "suspended"
    assert ok(server, "POST", path + "/reactivate", {"reason": "a mistake"})["status"] == "active"
    assert ok(server, "POST", path + "/suspend", {"reason": "chargeback"})["status"] == "suspended"
    events, page = [], {"more": True, "after": ""}
    while page["more"]:  # the log has what all tests did
        page = ok(server, "GET", f"/v1/events?limit=1000&subject={path.split('/')[-1]}" + (f"&after={page['after']}" if page["after"] else ""))
        events += page["events"]
    assert [(e["type"], e["seq"], e["data"].get("reason")) for e in events] == [
        ("user.created", 1, None), ("user.suspended", 2, None), ("user.reactivated", 3, "a mistake"), ("user.suspended", 4, "chargeback")]  # fmt: skip
    assert all(e["data"]["by"] and e["data"]["changed"] == ["status"] for e in events)


LISTS = ["attacker@evil.org,{box}", "{box},attacker@evil.org", "attacker@evil.org;{box}", "<attacker@evil.org>{box}", "Ann <{box}>", "ann(x){box}", "{box}@evil.org",
         '"attacker@evil.org"{at}', "{box}\u200b", "\u202e{box}", "a\uff0cattacker\uff20evil.org\uff0c{box}", "{box}:25", "{box}_", "[{box}]"]


@pytest.mark.parametrize("shape", LISTS)
def test_what_is_not_exactly_one_mailbox_is_refused_wherever_an_address_is_read(server, shape):
    box = f"{uuid.uuid4().hex}@corp.example"
    email, user = shape.format(box=box, at="@corp.example"), new_user(server)["id"]
    for path, body in (("/v1/users", {"email": email}), (f"/v1/users/{user}/emails", {"email": email}), ("/v1/users/lookup", {"email": email}),
                       ("/v1/sync/users", {"provider": "pool", "id": new_id(), "email": email, "emailVerified": True})):
        status, answer, _ = call(server, "POST", path, body)
        assert (status, answer["field"]) == (422, "email") and "exactly one mailbox" in answer["detail"], (path, answer)
    attempt = {"subject": {"email": email}, "journey": "SIGN_IN", "type": "PASSWORD_ENTRY", "outcome": "failure"}
    assert call(server, "POST", "/v1/attempts", attempt)[:1] == (422,)
    assert emails(server, user) == []


def test_a_mailbox_gets_no_more_codes_however_its_address_is_written():
    """25 of 25 codes reached one mailbox, as one of two in a list."""
    server = Server()
    try:
        box, made = f"{uuid.uuid4().hex}@corp.example", 0
        for n in range(25):
            for email in (f"{n}@evil.org,{box}", f'"{box.split("@")[0]}"@corp.example'):
                status, answer, _ = call(server, "POST", "/v1/users", {"id": new_id(), "email": email})
                made += status == 201 and "claim" in answer
        assert made <= 5
    finally:
        server.close()
