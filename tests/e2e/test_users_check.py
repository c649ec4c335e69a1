"""`gatehouse check` on users: what it says of rows that others wrote, and that a kill under load never leaves such rows."""
import http.client
import subprocess
import time

import boto3
import pytest

from conftest import program
from test_access import CONFIG, REGION
from test_users import KILL_ROUNDS, WAIT_S, Load, Peer, call, new_id, new_user, ok, own
from v1 import Server, generous

pytestmark = pytest.mark.gatehouse_only


def check(server, *words):
    return subprocess.run([program(), "check", "--data", server.data, *words], text=True, capture_output=True, timeout=120)


def tables(server):
    return boto3.client("dynamodb", endpoint_url=server.endpoint, region_name=REGION, config=CONFIG, aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture()
def stopped():
    """A server to fill and to stop; its data stays."""
    server = generous(Server())
    yield server
    server.close()


def put(server, pk, sk, **more):
    item = {"PK": {"S": pk}, "SK": {"S": sk}}
    for name, value in more.items():
        item[name] = {"BOOL": value} if isinstance(value, bool) else {"S": value}
    tables(server).put_item(TableName="users", Item=item)


def test_users_as_they_should_be_are_counted(stopped):
    user = ok(stopped, "POST", "/v1/users", {"id": "u-1"})["id"]
    own(stopped, user, "a@example.org")
    own(stopped, user, "b@example.org")
    ok(stopped, "POST", f"/v1/users/{user}/emails", {"email": "claim@example.org"})
    stopped.kill()  # what is in the journal alone is read too
    done = check(stopped)
    assert done.returncode == 0, done.stderr
    assert "1 users, 3 addresses and 2 markers agree" in done.stdout
    assert check(stopped, "--table-users", "nobody").stdout.count("\n") == 1
    stopped.start()


PLANTED = {
    "u-nomark: address e-1 has no marker": [
        ("USER#u-nomark", "EMAIL#e-1", dict(email="nomark@example.org", isVerified=False, isPrimary=False,
                                            GSI1PK="EMAIL#nomark@example.org", GSI1SK="USER#u-nomark"))],
    "u-taken: address e-1 has a marker that names another": [
        ("USER#u-taken", "EMAIL#e-1", dict(email="own@example.org", isVerified=False, isPrimary=False,
                                           GSI1PK="EMAIL#own@example.org", GSI1SK="USER#u-taken"))],
    "u-stray: a marker names its address e-9, which is not there": [
        ("EMAIL#stray@example.org", "MARKER", dict(userId="u-stray", emailId="e-9"))],
    "u-case: address e-1 is not normalised": [
        ("USER#u-case", "EMAIL#e-1", dict(email="Case@Example.org", isVerified=False, isPrimary=False))],
    "u-index: address e-1 is not in the index as it should be": [
        ("USER#u-index", "EMAIL#e-1", dict(email="index@example.org", isVerified=False, isPrimary=False,
                                           GSI1PK="EMAIL#other@example.org", GSI1SK="USER#u-index")),
        ("EMAIL#index@example.org", "MARKER", dict(userId="u-index", emailId="e-1"))],
    "u-two: 2 addresses are primary": [
        part for i in "12" for part in (
            ("USER#u-two", f"EMAIL#e-{i}", dict(email=f"two{i}@example.org", isVerified=True, isPrimary=True,
                                                GSI1PK=f"EMAIL#two{i}@example.org", GSI1SK="USER#u-two")),
            (f"EMAIL#two{i}@example.org", "MARKER", dict(userId="u-two", emailId=f"e-{i}")))],
    "u-unproved: a primary address is not verified": [
        ("USER#u-unproved", "EMAIL#e-1", dict(email="unproved@example.org", isVerified=False, isPrimary=True))],
    "u-none: an address is verified, and none is primary": [
        ("USER#u-none", "EMAIL#e-1", dict(email="none@example.org", isVerified=True, isPrimary=False,
                                          GSI1PK="EMAIL#none@example.org", GSI1SK="USER#u-none")),
        ("EMAIL#none@example.org", "MARKER", dict(userId="u-none", emailId="e-1"))],
    "u-names: the profile names a primary address, and there is none": [
        ("USER#u-names", "PROFILE", dict(status="active", email="names@example.org"))],
    "u-gone: address e-1 belongs to no user": [
        ("USER#u-gone", "EMAIL#e-1", dict(email="gone@example.org", isVerified=False, isPrimary=False))],
    "user (not shown): address e-1 belongs to no user": [
        ("USER#ann@example.org", "EMAIL#e-1", dict(email="ann@example.org", isVerified=False, isPrimary=False))],
}


def test_each_row_that_others_wrote_wrongly_is_named_by_ids_and_never_by_an_address(stopped):
    ok(stopped, "POST", "/v1/users", {"id": "u-own"})
    own(stopped, "u-own", "own@example.org")
    for text, planted in PLANTED.items():
        user = text.split(":")[0]
        if user.startswith("u-") and user not in ("u-stray", "u-names", "u-gone"):
            ok(stopped, "POST", "/v1/users", {"id": user})
        for pk, sk, more in planted:
            put(stopped, pk, sk, **more)
    stopped.kill()
    done = check(stopped)
    assert done.returncode == 1
    for text in PLANTED:
        assert text in done.stderr, (text, done.stderr)
    assert "@" not in done.stdout + done.stderr
    assert "is not damaged, but" in done.stderr.splitlines()[-1]
    stopped.start()


def erase_some(server, users):
    peer = Peer(server)
    try:
        for user in users:
            ok(peer, "POST", "/v1/users", {"id": user})
            own(peer, user, f"{user}@example.org")
            call(peer, "POST", f"/v1/users/{user}/erase")
    except (OSError, http.client.HTTPException):
        pass


def test_after_every_kill_under_load_the_rows_of_users_agree():
    """GATEHOUSE_KILL_ROUNDS=100 is the long campaign."""
    server = generous(Server())
    try:
        load = Load(server, [ok(server, "POST", "/v1/users", {"id": new_id()})["id"] for _ in range(6)])
        for _ in range(KILL_ROUNDS):
            load.until_killed(lambda: erase_some(server, [new_id() for _ in range(1000)]))
            done = check(server)
            assert done.returncode == 0, done.stderr
            server.start()
    finally:
        server.close()


def adopted(server, **terms):
    status, job, _ = call(server, "POST", "/v1/users/adopt", terms)
    assert status == 202, job
    end = time.monotonic() + WAIT_S
    while job["state"] == "running":
        assert time.monotonic() < end, job
        job = ok(server, "GET", f"/v1/jobs/{job['id']}")
    assert job["state"] == "done", job
    return job


def test_adoption_repairs_what_others_wrote_without_markers_and_reports_what_it_cannot(stopped):
    for user in ("u-own", "u-old", "u-taken"):
        ok(stopped, "POST", "/v1/users", {"id": user})
    own(stopped, "u-own", "own@example.org")
    put(stopped, "USER#u-old", "EMAIL#e-1", email="Old@Example.org", isVerified=True, isPrimary=True, GSI1PK="EMAIL#Old@Example.org", GSI1SK="USER#u-old")
    put(stopped, "USER#u-taken", "EMAIL#e-1", email="own@example.org", isVerified=True, isPrimary=True, GSI1PK="EMAIL#own@example.org",
        GSI1SK="USER#u-taken")
    tried = adopted(stopped, dryRun=True)
    assert (tried["progress"]["adopted"], tried["progress"]["conflicts"]) == (1, 1)
    assert call(stopped, "POST", "/v1/users/lookup", {"email": "old@example.org"})[0] == 404
    done = adopted(stopped)
    assert (done["progress"]["adopted"], done["progress"]["conflicts"], done["args"]["conflicts"]) == (1, 1, ["u-taken/e-1"])
    assert ok(stopped, "POST", "/v1/users/lookup", {"email": "old@example.org"})["user"]["email"] == "old@example.org"
    assert call(stopped, "POST", "/v1/users/u-own/emails", {"email": "OLD@example.org"})[0] == 409
    tables(stopped).delete_item(TableName="users", Key={"PK": {"S": "USER#u-taken"}, "SK": {"S": "EMAIL#e-1"}})
    stopped.kill()
    assert check(stopped).returncode == 0
    stopped.start()


def test_a_number_that_others_wrote_at_its_end_gives_no_more_tries():
    server = Server()
    try:
        last = {":n": {"N": str(2**63 - 1)}}
        user = new_user(server)["id"]
        claim = ok(server, "POST", f"/v1/users/{user}/emails", {"email": f"{user}@example.org"})
        table = tables(server)
        key = {"PK": {"S": f"USER#{user}"}}
        table.update_item(TableName="users", Key={**key, "SK": {"S": "PROFILE"}}, UpdateExpression="SET version = :n, emailsVersion = :n",
                          ExpressionAttributeValues=last)
        table.update_item(TableName="users", Key={**key, "SK": {"S": f"EMAIL#{claim['id']}"}}, UpdateExpression="SET codeTries = :n",
                          ExpressionAttributeValues=last)
        wrong = ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": "UUUUUUUU"})
        assert (wrong["reason"], wrong["triesLeft"]) == ("wrong_code", 0)
        assert ok(server, "POST", f"/v1/users/{user}/emails/{claim['id']}/verify", {"code": claim["code"]})["reason"] == "no_code"
        ok(server, "POST", f"/v1/users/{user}/emails", {"email": f"{user}-2@example.org"})
        assert ok(server, "POST", f"/v1/users/{user}/suspend")["version"] > 1
    finally:
        server.close()


def test_the_terms_of_an_adoption_are_checked_by_name(stopped):
    for body, field in (({"dryRun": 1}, "dryRun"), ({"rate": 0}, "rate"), ({"rate": 1000001}, "rate"), ({"dry_run": True}, "dry_run")):
        status, answer, _ = call(stopped, "POST", "/v1/users/adopt", body)
        assert status in (400, 422) and answer["field"] == field
