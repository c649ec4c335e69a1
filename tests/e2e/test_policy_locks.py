"""A change of policies never switches off a lock that holds; only removing its type does, and that is said first."""
import copy
import json
import time

import pytest

from v1 import Server, attempt
from wire import Wire

pytestmark = pytest.mark.gatehouse_only

LOOK_S = 15  # the file is looked at every second
ENDS = "urn:gatehouse:problem:locks-would-end"


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def types(**rules):
    return {"locks": {"STANDARD": {"duration": 900}, "PERMANENT": {"permanent": True}}, "journeys": {"SIGN_IN": {"types": rules}}}


LOCKS = {"max": 2, "life": 900}
BOTH = types(PASSWORD_ENTRY=LOCKS, EMAIL_CODE_ENTRY=LOCKS)
ONE = types(PASSWORD_ENTRY=LOCKS)


def policies(server):
    reply = server.v1.send("GET", "/v1/policies/attempts", b"", {})
    return reply.headers["etag"], reply.json()


def put(server, body, query="", method="PUT"):
    etag, _ = policies(server)
    raw = b"" if body is None else json.dumps(body).encode()
    return server.v1.send(method, "/v1/policies/attempts" + query, raw, {"If-Match": etag})


def lock(server, subject, name, method="PUT", query=""):
    body = json.dumps({"kind": "PERMANENT"}).encode() if method == "PUT" else b""
    return server.v1.send(method, f"/v1/subjects/{subject}/locks/{name}{query}", body, {})


def verdict(server, subject, kind, **more):
    return server.v1.attempts(attempt(subject, kind, "success", **more)).json()["verdict"]


def listed(server):
    return {(one["subject"], one["name"]): one["enforced"] for one in server.v1.send("GET", "/v1/locks", b"", {}).json()["locks"]}


def wait_until(condition):
    deadline = time.monotonic() + LOOK_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


@pytest.mark.parametrize("end", [{"at_max": "challenge"}, {"at_max": "sign_out"}, {"at_max": "reset"}, {"sets": ["OTHER"]}, {"shadow": True}])
def test_an_operators_lock_holds_whatever_the_rule_says_by_then(server, end):
    assert lock(server, "a", "SIGN_IN/EMAIL_CODE_ENTRY").status == 200
    _, shipped = policies(server)
    changed = copy.deepcopy(shipped["document"])
    changed["journeys"]["SIGN_IN"]["types"]["EMAIL_CODE_ENTRY"].update(end)
    reply = put(server, changed)
    assert reply.status == 200 and "locks_ended" not in reply.json(), reply.body
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked_permanent"
    assert listed(server) == {("a", "EMAIL_CODE_ENTRY"): True}
    assert [one["enforced"] for one in server.v1.send("GET", "/v1/subjects/a", b"", {}).json()["locks"]] == [True]
    server.kill()
    server.start()
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked_permanent"
    assert server.v1.post("/v1/check", {"subject": "a", "journey": "SIGN_IN", "actions": ["EMAIL_CODE_ENTRY"]}).json()["verdict"] == "locked_permanent"
    assert lock(server, "a", "SIGN_IN/EMAIL_CODE_ENTRY", "DELETE").json() == {"cleared": True}
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "allow"


def test_a_put_that_ends_locks_says_how_many_and_is_refused_unless_it_is_forced(server):
    assert put(server, BOTH).status == 200
    for subject in "abc":
        server.v1.record(subject, "EMAIL_CODE_ENTRY", times=2)
    reply = put(server, ONE)
    problem = reply.json()
    assert (reply.status, problem["type"], problem["locks"], problem["more"]) == (409, ENDS, 3, False)
    assert "3 locks that hold would end" in problem["detail"] and "SIGN_IN/EMAIL_CODE_ENTRY" in problem["detail"] and "?force=true" in problem["detail"]
    assert policies(server)[1]["document"] == BOTH
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"
    assert put(server, ONE, "?force=false").status == 409
    assert put(server, ONE, "?force=yes").json()["field"] == "force"
    reply = put(server, ONE, "?force=true")
    assert reply.status == 200, reply.body
    assert (reply.json()["locks_ended"], reply.json()["more_locks_ended"]) == (3, False)
    assert set(listed(server).values()) == {False}
    # Going back to what ships has the type again, and the locks hold to their end.
    assert put(server, None, method="DELETE").status == 200
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"


def test_a_delete_of_the_policies_is_as_careful(server):
    assert put(server, types(PASSWORD_ENTRY=LOCKS, PIN_ENTRY=LOCKS), "?force=true").status == 200
    server.v1.record("a", "PIN_ENTRY", times=2)
    reply = put(server, None, method="DELETE")
    assert (reply.status, reply.json()["locks"]) == (409, 1)
    assert "1 lock that holds would end" in reply.json()["detail"]
    assert put(server, None, "?force=true", method="DELETE").json()["locks_ended"] == 1


def test_any_lock_row_that_exists_can_be_deleted(server):
    assert put(server, BOTH).status == 200
    server.v1.record("a", "EMAIL_CODE_ENTRY", times=2)
    assert put(server, ONE, "?force=true").status == 200
    assert lock(server, "a", "SIGN_IN/EMAIL_CODE_ENTRY", "DELETE").json() == {"cleared": True}
    row = {"PK": {"S": "a"}, "SK": {"S": "GONE#LOCK#OTHER#device-1"}, "count": {"N": "1"}}
    assert server.v1.call("PutItem", {"TableName": "auth-state", "Item": row}).status == 200
    assert lock(server, "a", "GONE/OTHER", "DELETE").status == 422  # without the qualifier there is none
    assert lock(server, "a", "GONE/OTHER", "DELETE", "?qualifier=device-1").json() == {"cleared": True}
    problem = lock(server, "a", "GONE/OTHER", "DELETE", "?qualifier=device-1")
    assert (problem.status, problem.json()["field"]) == (422, "journey")
    assert lock(server, "a", "SIGN_IN%23ERROR_COUNT/PASSWORD_ENTRY", "DELETE").status == 422


def unlock(server, **where):
    return server.v1.post("/v1/unlock", {"where": where})


def names(reply):
    assert reply.status == 200, reply.body
    return sorted((one["subject"], one["journey"], one["name"]) for one in reply.json().get("locks", reply.json().get("unlocked")))


@pytest.mark.parametrize("left, force", [(types(PASSWORD_ENTRY={**LOCKS, "sets": ["OTHER"]}), ""), (types(PIN_ENTRY=LOCKS), "?force=true"),
                                         ({**ONE, "journeys": {"PAYMENT": {"types": {"PIN_ENTRY": LOCKS}}}}, "?force=true")])
def test_locks_whose_name_left_the_policies_are_listed_and_lifted_by_it(server, left, force):
    assert put(server, ONE, "?force=true").status == 200
    for subject in "abc":
        server.v1.record(subject, "PASSWORD_ENTRY", times=2)
    lock(server, "c", "SIGN_IN/PASSWORD_ENTRY")  # by a person, too
    changed = {**left, "locks": {"SHORT": {"duration": 9}, "STANDARD": {"duration": 900}}}
    assert put(server, changed, force).status == 200
    held = [(subject, "SIGN_IN", "PASSWORD_ENTRY") for subject in "abc"]
    for query in ("journey=SIGN_IN&name=PASSWORD_ENTRY", "name=PASSWORD_ENTRY", "journey=SIGN_IN"):
        assert names(server.v1.send("GET", f"/v1/locks?{query}", b"", {})) == held
    assert names(unlock(server, journey="SIGN_IN", name="PASSWORD_ENTRY")) == held[:2]
    assert unlock(server, journey="SIGN_IN", name="PASSWORD_ENTRY").json()["operator_locks_kept"] == 1
    assert names(unlock(server, kind="PERMANENT")) == held[2:]  # a kind that left, too
    if force:  # now there is none: a slip of the pen
        assert unlock(server, journey="SIGN_IN", name="PASSWORD_ENTRY").status == 422
        assert server.v1.send("GET", "/v1/locks?name=PASSWORD_ENTRY", b"", {}).status == 422
    assert unlock(server, kind="PERMANENT").json()["field"] == "where.kind"


def test_a_lock_of_a_subject_from_one_source_can_be_deleted(server):
    assert put(server, types(PASSWORD_ENTRY={"max_from_source": 2, "life": 900})).status == 200
    context = {"context": {"ip": "192.0.2.1"}}
    server.v1.record("a", times=2, **context)
    (held,) = server.v1.send("GET", "/v1/subjects/a", b"", {}).json()["locks"]
    assert lock(server, "a", "SIGN_IN/PASSWORD_ENTRY", "DELETE", "?qualifier=" + held["qualifier"]).json() == {"cleared": True}
    assert verdict(server, "a", "PASSWORD_ENTRY", **context) == "allow"


def test_locks_are_counted_over_many_pages_while_others_write(server):
    """More rows than one turn reads: the call takes as many turns as it needs."""
    assert put(server, BOTH).status == 200
    for subject in "abcdefg":
        server.v1.record(subject, "EMAIL_CODE_ENTRY", times=2)
    for n in range(0, 4500, 25):
        items = [{"PutRequest": {"Item": {"PK": {"S": f"s{n + i}"}, "SK": {"S": "SIGN_IN#ERROR_COUNT#PASSWORD_ENTRY"}, "count": {"N": "1"}}}} for i in range(25)]
        assert server.v1.call("BatchWriteItem", {"RequestItems": {"auth-state": items}}).status == 200
    reply = put(server, ONE)
    assert (reply.status, reply.json()["locks"], reply.json()["more"]) == (409, 7, False)


# ---- files ----


def write(file, document):
    file.write_text(json.dumps({"attempts": document}))


def refused(server):
    wire = Wire(server.endpoint)
    lines = wire.send("GET", "/metrics").body.decode().splitlines()
    wire.close()
    return "gatehouse_policies_refused 1" in lines


def test_a_file_that_would_end_locks_is_not_reloaded_and_is_accepted_at_a_start_with_a_warning(tmp_path):
    file = tmp_path / "policies.yaml"
    write(file, BOTH)
    server = Server("--policies", str(file))
    for subject in "ab":
        server.v1.record(subject, "EMAIL_CODE_ENTRY", times=2)
    write(file, ONE)
    wait_until(lambda: refused(server))
    assert b"2 locks that hold would end" in server.logged() and b"SIGN_IN/EMAIL_CODE_ENTRY" in server.logged()
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"
    server.kill()
    server.start()
    assert b"end 2 locks that hold" in server.logged()
    assert policies(server)[1]["document"] == ONE
    assert listed(server) == {("a", "EMAIL_CODE_ENTRY"): False, ("b", "EMAIL_CODE_ENTRY"): False}
    server.close()


@pytest.mark.parametrize("how", ["reload", "start"])
def test_locks_hold_when_a_file_changes_what_its_rule_does(tmp_path, how):
    file = tmp_path / "policies.yaml"
    write(file, BOTH)
    server = Server("--policies", str(file))
    server.v1.record("a", "EMAIL_CODE_ENTRY", times=2)
    wait_until(lambda: "gatehouse-policies" in server.v1.call("ListTables", {}).json()["TableNames"])
    changed = types(PASSWORD_ENTRY=LOCKS, EMAIL_CODE_ENTRY={**LOCKS, "at_max": "challenge"})
    if how == "start":
        server.kill()
    write(file, changed)
    if how == "start":
        server.start()
    wait_until(lambda: policies(server)[1]["document"] == changed)
    version = policies(server)[1]["version"]
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"
    wait_until(lambda: server.v1.call("GetItem", {"TableName": "gatehouse-policies", "Key": {"PK": {"S": "POLICY#attempts#FILE"}}})
               .json()["Item"]["version"]["N"] == str(version))
    server.kill()
    server.start()
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"
    assert b"locks that hold" not in server.logged()
    server.close()


def test_locks_hold_when_a_server_goes_from_stored_policies_to_a_file_and_back(tmp_path):
    challenges = types(PASSWORD_ENTRY=LOCKS, EMAIL_CODE_ENTRY={**LOCKS, "at_max": "challenge"})
    file = tmp_path / "policies.yaml"
    server = Server()
    assert put(server, BOTH).status == 200
    server.v1.record("a", "EMAIL_CODE_ENTRY", times=2)
    server.kill()
    write(file, challenges)
    server.words = ("--policies", str(file))
    server.start()
    assert verdict(server, "a", "EMAIL_CODE_ENTRY") == "locked"
    server.close()


# ---- counts that are at their maximum already ----


def test_a_lowered_maximum_stands_against_the_next_success_and_check_says_so_before(server):
    assert put(server, types(PASSWORD_ENTRY={"max": 6, "life": 900})).status == 200
    server.v1.record("a", times=4)
    assert put(server, types(PASSWORD_ENTRY={"max": 3, "life": 900})).status == 200
    check = server.v1.post("/v1/check", {"subject": "a", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"]}).json()
    assert check["verdict"] == "locked" and 895 <= check["retry_after"] <= 900
    (count,) = server.v1.send("GET", "/v1/subjects/a/explain", b"", {}).json()["counts"]
    assert (count["count"], count["max"], count["remaining"]) == (4, 3, 0)
    answer = server.v1.attempts(attempt("a", outcome="success")).json()
    assert (answer["verdict"], answer["first_time"], answer["counted"]) == ("locked", True, False)
    assert answer["lock"]["name"] == "PASSWORD_ENTRY" and 895 <= answer["retry_after"] <= 900
    explained = server.v1.send("GET", "/v1/subjects/a/explain", b"", {}).json()
    assert explained["counts"] == [] and len(explained["locks"][0]["attempts"]) == 4
    events = server.v1.send("GET", "/v1/events?types=lock.set", b"", {}).json()["events"]
    assert len([one for one in events if one["subject"] == "a"]) == 1


# ---- sources that are allowed since ----


def sources(*allowed):
    rule = {"max": 9, "life": 900, "max_of_source": 2, "max_of_network": 4, "without_source": "skip"}
    return {**types(PASSWORD_ENTRY=rule), "allow_sources": list(allowed)}


def from_ip(server, ip, outcome="success"):
    return server.v1.attempts(attempt("a", "PASSWORD_ENTRY", outcome, context={"ip": ip})).json()


def source_locks(server):
    return [one["enforced"] for one in server.v1.send("GET", "/v1/locks?journey=SIGN_IN&name=SOURCE", b"", {}).json()["locks"]]


@pytest.mark.parametrize("ip, wide, part", [("192.0.2.1", "192.0.2.0/24", None), ("2001:db8:1:1::1", "2001:db8:1:1::/64", "2001:db8:1:1::1")])
def test_a_source_that_is_allowed_since_it_was_locked_stays_locked_as_lists_say(server, ip, wide, part):
    assert put(server, sources(), "?force=true").status == 200
    assert [from_ip(server, ip, "failure")["verdict"] for _ in range(2)] == ["allow", "locked"]
    assert put(server, sources(wide)).status == 200
    assert (from_ip(server, ip)["verdict"], source_locks(server)) == ("locked", [True])
    if part is not None:  # what others of its network did stops others
        assert put(server, sources(part)).status == 200
        assert (from_ip(server, ip)["verdict"], source_locks(server)) == ("allow", [True])
        assert from_ip(server, ip[:-1] + "2")["verdict"] == "locked"
        assert put(server, sources(wide)).status == 200
    subject = server.v1.post("/v1/subjects/lookup", {"subject": {"ip": ip}}).json()["subject"]
    assert lock(server, subject, "SIGN_IN/SOURCE", "DELETE").json() == {"cleared": True}
    assert [from_ip(server, ip, "failure")["verdict"] for _ in range(4)] == ["allow"] * 4  # it is no longer counted
    assert source_locks(server) == []


def test_a_network_whose_source_is_allowed_stops_the_others(server):
    assert put(server, sources(), "?force=true").status == 200
    for i in range(4):
        verdict = from_ip(server, f"2001:db8:1:{i}::1", "failure")["verdict"]
    assert (verdict, source_locks(server)) == ("locked", [True])
    assert put(server, sources("2001:db8:1:7::/64")).status == 200
    assert [from_ip(server, f"2001:db8:1:{i}::1")["verdict"] for i in (7, 8)] == ["allow", "locked"]
    assert put(server, sources("2001:db8:1::/48")).status == 200
    assert [from_ip(server, f"2001:db8:1:{i}::1")["verdict"] for i in (7, 8)] == ["locked", "locked"]
    assert source_locks(server) == [True]
