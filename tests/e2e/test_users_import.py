"""Users that move in: POST /v1/users/import, POST /v1/users/export, `gatehouse user import` and `export`, and rows that old code wrote without markers.

GATEHOUSE_IMPORT_USERS=100000 GATEHOUSE_IMPORT_KILLS=8 is the long version of the import that is killed."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import boto3
import pytest

from conftest import line_with_endpoint, program, stop
from test_access import CONFIG, REGION, Guarded
from test_cli_remote import Cli
from test_engine_dynamodb import command, dynoxide, environment, gatehouse, give_key  # noqa: F401
from test_users import call, new_id, ok, own
from v1 import V1, Server, generous

pytestmark = pytest.mark.gatehouse_only
USERS = int(os.environ.get("GATEHOUSE_IMPORT_USERS", "2000"))
KILLS = int(os.environ.get("GATEHOUSE_IMPORT_KILLS", "2"))
WAIT_S = 60


@pytest.fixture(scope="module")
def server():
    server = generous(Server())
    yield server
    server.close()


@pytest.fixture(scope="module")
def added():
    """One where an address is taken when it is added."""
    server = generous(Server("--email-claims", "added"))
    yield server
    server.close()


def address(email, verified=True, **more):
    return {"email": email, "isVerified": verified, **more}


def imported(server, *users, **more):
    """The results, without what is the same in all."""
    return ok(server, "POST", "/v1/users/import", {"users": list(users), **more})["results"]


def outcomes(server, *users, **more):
    return [result["outcome"] for result in imported(server, *users, **more)]


def refusal(server, *users, **more):
    last = imported(server, *users, **more)[-1]
    assert last["outcome"] == "refused", last
    return last["type"].removeprefix("urn:gatehouse:problem:"), last.get("field")


def exported(server):
    users, body = [], {"limit": 500}
    while True:
        page = ok(server, "POST", "/v1/users/export", body)
        users += page["users"]
        if not page["more"]:
            return {user["id"]: user for user in users}
        body["cursor"] = page["cursor"]


def read_events(server, query=""):
    """All of them: a page that is read just after a write may lack the newest events, and says so."""
    found, after = [], "from=first"
    while True:
        page = ok(server, "GET", f"/v1/events?limit=1000&{after}{query}")
        found += page["events"]
        after = f"after={page['after']}"
        if not page["more"]:
            return found


def events(server, user):
    return [event["type"] for event in read_events(server, f"&subject={user}")]


def tables(endpoint):
    return boto3.client("dynamodb", endpoint_url=endpoint, region_name=REGION, config=CONFIG, aws_access_key_id="a", aws_secret_access_key="b")


# ---- a line ----


def test_a_line_becomes_a_user_with_its_addresses_and_their_events_in_order(server):
    user, first, second, third = new_id(), new_id(), new_id(), new_id()
    line = {"id": user, "status": "active", "firstName": "Ann", "phone": "+442071838750", "attributes": {"plan": "gold", "seats": 4}, "createdAt": "2019-05-01T10:00:00Z",
            "provider": "pool", "username": "ann-1",
            "emails": [address(f"{second}@example.org", createdAt="2019-05-02T10:00:00Z"), address(f"{third}@example.org", False),
                       address(f"{first}@Example.org", id="e-1", isPrimary=True, verifiedAt=1556704800)]}
    assert outcomes(server, line) == ["created"]
    shown = exported(server)[user]
    emails = {email["email"]: email for email in shown.pop("emails")}
    assert {**shown, "updatedAt": 0} == {**{name: line[name] for name in line if name != "emails"}, "updatedAt": 0}
    assert emails[f"{first}@example.org"] == {"id": "e-1", "email": f"{first}@example.org", "emailAsTyped": f"{first}@Example.org", "isVerified": True, "isPrimary": True,
                                              "createdAt": emails[f"{first}@example.org"]["createdAt"], "verifiedAt": "2019-05-01T10:00:00Z"}
    assert emails[f"{second}@example.org"]["createdAt"] == "2019-05-02T10:00:00Z" and not emails[f"{second}@example.org"]["isPrimary"]
    assert "expiresAt" in emails[f"{third}@example.org"]
    assert ok(server, "POST", "/v1/users/lookup", {"email": f"{first}@example.org"})["user"]["email"] == f"{first}@example.org"
    assert events(server, user) == ["user.created", "email.added", "email.verified", "email.primary.changed", "email.added", "email.verified", "email.added"]


def test_a_line_that_says_the_same_changes_nothing_and_one_that_differs_only_what_it_has(server):
    user, mail = new_id(), f"{new_id()}@example.org"
    line = {"id": user, "firstName": "Ann", "lastName": "Lee", "attributes": {"a": 1, "b": 2}, "emails": [address(mail)]}
    assert outcomes(server, line) == ["created"]
    assert outcomes(server, line) == ["unchanged"]
    assert ok(server, "GET", f"/v1/users/{user}")["version"] == 1
    assert outcomes(server, {"id": user, "firstName": "Eve", "lastName": None, "attributes": {"a": None}}) == ["updated"]
    now = ok(server, "GET", f"/v1/users/{user}")
    assert (now["firstName"], now.get("lastName"), now["attributes"], now["email"], now["version"]) == ("Eve", None, {"b": 2}, mail, 2)
    other = f"{new_id()}@example.org"
    assert outcomes(server, {"id": user, "emails": [address(other, isPrimary=True)]}) == ["updated"]
    assert ok(server, "GET", f"/v1/users/{user}")["email"] == other
    assert [email["isPrimary"] for email in sorted(ok(server, "GET", f"/v1/users/{user}/emails")["emails"], key=lambda each: each["email"] == other)] == [False, True]
    assert events(server, user)[-4:] == ["user.updated", "email.added", "email.verified", "email.primary.changed"]


def test_a_line_that_is_refused_refuses_no_other_and_leaves_nothing(server):
    users, mail = [new_id() for _ in range(5)], f"{new_id()}@example.org"
    results = imported(server, {"id": users[0], "emails": [address(mail)]}, {"id": users[1], "emails": [address(f"{new_id()}@example.org"), address(mail.upper())]},
                       {"id": users[2], "phone": "12"}, {"id": users[3], "first_name": "x"}, 7, {"id": users[4]}, line=11)
    assert [(each["line"], each["outcome"], each.get("field")) for each in results] == [
        (11, "created", None), (12, "refused", "emails[1].email"), (13, "refused", "phone"), (14, "refused", "first_name"), (15, "refused", None), (16, "created", None)]
    assert [call(server, "GET", f"/v1/users/{user}")[0] for user in users] == [200, 404, 404, 404, 200]
    assert events(server, users[1]) == [] and mail not in json.dumps(results)


def test_what_is_wrong_with_a_line_is_told_by_its_field(server):
    def wrong(**line):
        return refusal(server, {"id": new_id(), **line})

    mail = f"{new_id()}@example.org"
    assert refusal(server, {"firstName": "x"}) == ("invalid-value", "id")
    assert refusal(server, {"id": mail}) == ("invalid-value", "id") and "id" not in imported(server, {"id": mail})[0]
    assert wrong(status="erasing") == ("invalid-value", "status")
    assert wrong(createdAt="2999-01-01T00:00:00Z") == ("invalid-value", "createdAt")
    assert wrong(username="x") == ("invalid-value", "username")
    assert wrong(emails=[address("a@b@c")]) == ("invalid-value", "emails[0].email")
    assert wrong(emails=[address(mail), address(mail)]) == ("invalid-value", "emails")
    assert wrong(emails=[address(mail, False, isPrimary=True)]) == ("invalid-value", "emails[0].isPrimary")
    assert wrong(emails=[address(mail, isPrimary=True), address("x" + mail, isPrimary=True)]) == ("invalid-value", "emails")
    assert wrong(emails=[address(mail, emailAsTyped="x" + mail)]) == ("invalid-value", "emails[0].emailAsTyped")
    assert wrong(emails=[address(f"{i}{mail}", False) for i in range(21)]) == ("limit-exceeded", "emails")


def test_the_call_itself_is_bounded_and_checked(server):
    for body, field in (({}, "users"), ({"users": []}, "users"), ({"users": [{"id": "x"}] * 101}, "users"), ({"users": [{"id": "x"}], "run": "a b"}, "run"),
                        ({"users": [{"id": "x"}], "line": 0}, "line"), ({"users": [{"id": "x"}], "events": "some"}, "events")):
        status, answer, _ = call(server, "POST", "/v1/users/import", body)
        assert status in (400, 422) and answer["field"] == field, answer
    assert call(server, "POST", "/v1/users/import", {"users": [{"id": "x", "firstName": "y" * 1024 * 1024}]})[0] == 413
    assert call(server, "POST", "/v1/users/export", {"cursor": "x"})[1]["field"] == "cursor"


def test_one_address_may_stand_in_the_line_itself(server):
    proved, claimed = new_id(), new_id()
    assert outcomes(server, {"id": proved, "email": f"{proved}@example.org", "emailVerified": True}, {"id": claimed, "email": f"{claimed}@example.org"}) == ["created"] * 2
    assert ok(server, "GET", f"/v1/users/{proved}")["email"] == f"{proved}@example.org"
    assert [email["isVerified"] for email in ok(server, "GET", f"/v1/users/{claimed}/emails")["emails"]] == [False]
    assert outcomes(server, {**ok(server, "GET", f"/v1/users/{proved}"), **ok(server, "GET", f"/v1/users/{proved}/emails")}) == ["unchanged"]


# ---- whose an address is ----


@pytest.mark.parametrize("which", ["server", "added"])
def test_an_imported_verified_address_beats_a_claim_and_never_a_proof(request, which):
    server = request.getfixturevalue(which)
    stranger, user, mail = new_id(), new_id(), f"{new_id()}@example.org"
    ok(server, "POST", "/v1/users", {"id": stranger, "email": mail})
    assert outcomes(server, {"id": user, "emails": [address(mail)]}) == ["created"]
    assert ok(server, "POST", "/v1/users/lookup", {"email": mail})["user"]["id"] == user
    assert refusal(server, {"id": new_id(), "emails": [address(mail)]}) == ("email-not-available", "emails[0].email")
    loser, run = new_id(), new_id()
    for _ in range(2):  # a claim that holds nothing
        assert imported(server, {"id": loser, "emails": [address(f"{loser}@example.org"), address(mail, False)]}, run=run) == [
            {"line": 1, "id": loser, "outcome": "created", "leftOut": "emails[1]"}]
    assert [email["email"] for email in ok(server, "GET", f"/v1/users/{loser}/emails")["emails"]] == [f"{loser}@example.org"]


def test_a_claim_that_was_imported_is_proved_with_a_code_like_any_other(server):
    user, mail = new_id(), f"{new_id()}@example.org"
    assert outcomes(server, {"id": user, "emails": [address(mail, False)]}) == ["created"]
    own(server, user, mail)
    assert ok(server, "GET", f"/v1/users/{user}")["email"] == mail


# ---- status ----


def test_a_line_suspends_and_deletes_and_never_leads_back(server):
    suspended, deleted, active = new_id(), new_id(), new_id()
    lines = [{"id": suspended, "status": "suspended", "suspendedBy": "provider_disabled"}, {"id": deleted, "status": "deleted"}, {"id": active}]
    assert outcomes(server, *lines) == ["created"] * 3
    assert [exported(server)[user]["status"] for user in (suspended, deleted)] == ["suspended", "deleted"]
    assert events(server, suspended) == ["user.created", "user.suspended"] and events(server, deleted) == ["user.created", "user.deleted"]
    assert outcomes(server, *lines) == ["unchanged"] * 3
    assert refusal(server, {"id": suspended, "status": "active"}) == ("wrong-state", "status")
    assert refusal(server, {"id": deleted, "firstName": "x"}) == ("wrong-state", "status")
    assert outcomes(server, {"id": suspended, "firstName": "x"}, {"id": active, "status": "suspended"}) == ["updated"] * 2
    assert events(server, active) == ["user.created", "user.suspended"]


def test_an_erased_user_stays_erased(server):
    user = new_id()
    assert outcomes(server, {"id": user}, run="r") == ["created"]
    job = call(server, "POST", f"/v1/users/{user}/erase")[1]
    end = time.monotonic() + WAIT_S
    while ok(server, "GET", f"/v1/jobs/{job['id']}")["state"] != "done":
        assert time.monotonic() < end
    assert refusal(server, {"id": user}, run="r") == ("wrong-state", "id")


def test_a_user_of_another_provider_is_refused(server):
    user = new_id()
    ok(server, "POST", "/v1/sync/users", {"provider": "pool", "id": user})
    assert refusal(server, {"id": user, "provider": "other"}) == ("user-exists", "provider")
    assert outcomes(server, {"id": user, "firstName": "x"}) == ["updated"]


# ---- again ----


def test_a_line_of_a_run_is_answered_the_same_each_time(server):
    user, run = new_id(), new_id()
    assert outcomes(server, {"id": user, "firstName": "a"}, run=run) == ["created"]
    ok(server, "PATCH", f"/v1/users/{user}", {"version": 1, "firstName": "b"})
    assert outcomes(server, {"id": user, "firstName": "a"}, run=run) == ["created"]
    assert ok(server, "GET", f"/v1/users/{user}")["firstName"] == "b"  # what happened since stands
    assert refusal(server, {"id": user, "firstName": "c"}, run=run, line=2) == ("user-exists", "id")
    assert outcomes(server, {"id": user, "firstName": "c"}, run=run + "2") == ["updated"]


def test_an_import_publishes_nothing_if_asked(server):
    user = new_id()
    assert outcomes(server, {"id": user, "emails": [address(f"{user}@example.org")]}, events="none") == ["created"]
    assert events(server, user) == []


# ---- the commands ----


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def lines_of_text(file):
    return [line for line in file.read_text().splitlines() if line.strip()]


def test_an_export_is_imported_elsewhere_as_it_was(server, added, tmp_path):
    outcomes(server, {"id": new_id(), "status": "suspended", "emails": [address(f"{new_id()}@Example.org"), address(f"{new_id()}@example.org", False)]})
    file = tmp_path / "users.jsonl"
    file.write_text("\n" + Cli(server.endpoint).ok("user", "export"))
    done = Cli(added.endpoint).run("user", "import", str(file))
    results = lines_of(tmp_path / "users.jsonl.report")[1:]
    assert len(results) == len(lines_of_text(file)) and all(each["outcome"] == "created" for each in results), done.stderr
    here, there = exported(server), exported(added)
    for user, shown in here.items():
        for each in (shown, there[user]):
            each["emails"] = sorted((email for email in each["emails"] if email["isVerified"]), key=lambda email: email["id"])  # a proof that came later took some claims
            each.pop("updatedAt")
        assert there[user] == shown
    # Again: there is nothing to do, and the report is the same. Without it: the server says the same.
    before = (tmp_path / "users.jsonl.report").read_text()
    assert Cli(added.endpoint).ok("user", "import", str(file)) == done.stdout
    (tmp_path / "users.jsonl.report").unlink()
    assert Cli(added.endpoint).ok("user", "import", str(file)) == done.stdout
    assert (tmp_path / "users.jsonl.report").read_text() == before


def test_a_report_names_lines_that_are_no_users_and_belongs_to_its_file(server, tmp_path):
    file, report = tmp_path / "users.jsonl", tmp_path / "report"
    good = new_id()
    file.write_text(f'{{"id": "{good}"}}\n{{"id": \n\n{{"id": "x", "attributes": {{"a": "{"y" * 300000}"}}}}\n[]\n{{"id": "{new_id()}"}}')
    done = Cli(server.endpoint).run("user", "import", str(file), "--report", str(report))
    assert done.returncode == 1 and done.stdout == "5 users: 2 created, 0 updated, 0 unchanged, 3 refused\n" and str(report) in done.stderr
    assert [(each["line"], each["outcome"], each.get("type", "")[22:]) for each in lines_of(report)[1:]] == [
        (1, "created", ""), (2, "refused", "malformed-request"), (4, "refused", "too-large"), (5, "refused", "malformed-request"), (6, "created", "")]
    file.write_text('{"id": "another"}')
    assert "another file" in Cli(server.endpoint).refused("user", "import", str(file), "--report", str(report), status=2)
    assert "no-such" in Cli(server.endpoint).refused("user", "import", str(tmp_path / "no-such"), status=2)


class Killed:
    """An import of a file, whose server and whose client are killed by turns."""

    def __init__(self, folder, count, server):
        self.file, self.report = folder / "many.jsonl", folder / "many.jsonl.report"
        self.count = count
        with self.file.open("w") as out:
            for i in range(count):
                out.write(json.dumps(self.line(i)) + "\n")
        self.server = server

    def line(self, i):
        """Every 100th wants the address of the one before it; every 50th is suspended."""
        mail = f"user-{i - 1 if i % 100 == 99 else i}@example.org"
        status = {"status": "suspended"} if i % 50 == 10 else {}
        return {"id": f"user-{i}", "firstName": "First", "lastName": "Last", "attributes": {"plan": "gold"}, **status, "emails": [address(mail), address(f"second-{i}@example.org", False)]}

    def start(self):
        return subprocess.Popen([program(), "user", "import", str(self.file), "--endpoint", self.server.endpoint], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self):
        self.server.v1.close()
        stop(self.server.process)

    def reported(self):
        return self.report.read_bytes().count(b"\n") - 1 if self.report.exists() else 0

    def until(self, lines, client):
        end = time.monotonic() + 600
        while self.reported() < lines and client.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.002)  # the report is looked at, not the clock

    def run(self, kills):
        """Kills at points that are spread over the file: the client, the server, or the server and then the client."""
        choose = random.Random(kills)
        for i in range(kills):
            client = self.start()
            self.until((i + choose.random()) * self.count / kills, client)
            if i % 2 == 0:
                client.send_signal(signal.SIGKILL)
            else:
                self.server.kill()
                self.server.start()
                client.send_signal(signal.SIGKILL)
            client.communicate()
        client = self.start()
        return client.communicate(timeout=600)[0]

    def agree(self):
        """The report has each line once, and says what the table has."""
        results = lines_of(self.report)[1:]
        assert [each["line"] for each in results] == list(range(1, self.count + 1))
        users = exported(self.server)
        for i, result in enumerate(results):
            user = users.pop(f"user-{i}", None)
            assert result["outcome"] == ("refused" if i % 100 == 99 else "created"), result
            assert (user is None) == (result["outcome"] == "refused"), (user, result)
            if user is not None:
                assert user["status"] == self.line(i).get("status", "active") and len(user["emails"]) == 2
        assert users == {}


def numbered(server):
    """The events of each subject."""
    subjects = {}
    for event in read_events(server):
        subjects.setdefault(event["subject"], []).append((event["seq"], event["type"]))
    return subjects


def test_an_import_that_is_killed_goes_on_to_a_report_that_agrees_with_the_table(tmp_path):
    killed = Killed(tmp_path, USERS, Server())
    try:
        began = time.monotonic()
        said = killed.run(KILLS)
        took = time.monotonic() - began
        assert said == f"{USERS} users: {USERS - USERS // 100} created, 0 updated, 0 unchanged, {USERS // 100} refused\n"
        killed.agree()
        for told in numbered(killed.server).values():
            assert [seq for seq, _ in told] == list(range(1, len(told) + 1)) and told[0][1] == "user.created"
        print(f"{USERS} users with {KILLS} kills: {took:.1f} s")
        killed.stop()
        done = subprocess.run([program(), "check", "--data", killed.server.data], text=True, capture_output=True, timeout=600)
        assert done.returncode == 0, done.stderr
        killed.server.start()
    finally:
        killed.server.close()


# ---- tables elsewhere ----


def test_users_move_in_where_the_tables_are_at_an_endpoint(dynoxide, tmp_path):  # noqa: F811
    with gatehouse(dynoxide) as endpoint:
        class Elsewhere:
            v1 = V1(endpoint)

        run, users = new_id(), [new_id() for _ in range(4)]
        lines = [{"id": user, "emails": [address(f"{user}@example.org"), address(f"{user}.2@example.org"), address(f"{user}.3@example.org", False)]} for user in users]
        lines.append({"id": new_id(), "emails": [address(f"{users[0]}@example.org")]})
        results = imported(Elsewhere, *lines, run=run)
        assert [each["outcome"] for each in results] == ["created"] * 4 + ["refused"]
        assert imported(Elsewhere, *lines, run=run) == results
        assert outcomes(Elsewhere, *lines[:4]) == ["unchanged"] * 4
        shown = exported(Elsewhere)
        assert sorted(shown) == sorted(users) and all(sum(email["isPrimary"] for email in user["emails"]) == 1 for user in shown.values())
        assert events(Elsewhere, users[0])[:3] == ["user.created", "email.added", "email.verified"]


class Process(Server):
    """A server without data of its own, which are at an endpoint."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        give_key(folder)
        self.start()

    def start(self):
        self.process = subprocess.Popen(command(self.folder, "--table-prefix", "killed-"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(self.url))
        self.endpoint = line_with_endpoint(self.process)
        self.v1 = V1(self.endpoint)


def test_an_import_that_is_killed_goes_on_where_each_line_is_a_transaction_at_an_endpoint(dynoxide, tmp_path):  # noqa: F811
    killed = Killed(tmp_path, 200, Process(dynoxide, str(tmp_path / "data")))
    try:
        assert killed.run(2) == "200 users: 198 created, 0 updated, 0 unchanged, 2 refused\n"
        killed.agree()
        for told in numbered(killed.server).values():
            assert [seq for seq, _ in told] == list(range(1, len(told) + 1)) and told[0][1] == "user.created"
    finally:
        killed.server.kill()


# ---- rows that old code wrote ----


def old_row(endpoint, user, email_id, email, **more):
    """The literal addEmail of a user service on DynamoDB: in the index, without a marker."""
    item = {"PK": f"USER#{user}", "SK": f"EMAIL#{email_id}", "GSI1PK": f"EMAIL#{email}", "GSI1SK": f"USER#{user}", "email": email}
    tables(endpoint).put_item(TableName="users", Item={**{name: {"S": text} for name, text in item.items()}, **{name: {"BOOL": truth} for name, truth in more.items()}},
                              ConditionExpression="attribute_not_exists(PK)")


@pytest.mark.parametrize("which", ["server", "added"])
@pytest.mark.parametrize("said", [{}, {"isVerified": True, "isPrimary": True}], ids=["literal", "verified"])
def test_the_address_of_a_row_that_old_code_wrote_is_not_given_to_another_user(request, which, said):
    server = request.getfixturevalue(which)
    old, other = new_id(), new_id()
    mail = f"{new_id()}@example.org"
    for user in (old, other):
        ok(server, "POST", "/v1/users", {"id": user})
    old_row(server.endpoint, old, "e-1", mail, **said)
    assert ok(server, "POST", "/v1/users/lookup", {"email": mail})["user"]["id"] == old
    assert call(server, "POST", "/v1/users", {"id": new_id(), "email": mail})[0] == 409
    assert call(server, "POST", f"/v1/users/{other}/emails", {"email": mail})[0] == 409
    assert call(server, "POST", "/v1/sync/users", {"provider": "p", "id": other, "email": mail, "emailVerified": True})[0] == 409
    assert refusal(server, {"id": other, "emails": [address(mail)]}) == ("email-not-available", "emails[0].email")
    assert outcomes(server, {"id": old, "emails": [address(mail, isPrimary=True)]}) == ["updated"] if not said else True


def test_an_address_that_old_code_verified_wins_against_a_claim_that_came_before(server):
    """A stranger claims it, then the old code's row arrives: the stranger's code no longer helps, and adopt takes the claim away."""
    old, stranger, mail = new_id(), new_id(), f"{new_id()}@example.org"
    ok(server, "POST", "/v1/users", {"id": old})
    claim = ok(server, "POST", "/v1/users", {"id": stranger, "email": mail})["claim"]
    old_row(server.endpoint, old, "e-1", mail, isVerified=True, isPrimary=True)
    assert call(server, "POST", f"/v1/users/{stranger}/emails/{claim['id']}/verify", {"code": claim["code"]})[0] == 409
    assert ok(server, "POST", "/v1/users/lookup", {"email": mail})["user"]["id"] == old


# ---- rights ----


def test_a_deny_on_a_user_refuses_its_line_and_hides_it_from_an_export(tmp_path):
    guarded = Guarded()
    try:
        allowed = {"Effect": "Allow", "Action": ["gatehouse:ImportUsers", "gatehouse:ExportUsers", "gatehouse:LookupUser"], "Resource": "*"}
        denied = {"Effect": "Deny", "Action": "gatehouse:*", "Resource": "arn:aws:gatehouse:*:*:user/ann"}
        blind = {"Effect": "Allow", "Action": "gatehouse:ImportUsers", "Resource": "*"}
        full = guarded.make("full", {"Version": "2012-10-17", "Statement": [allowed]})
        some = guarded.make("some", {"Version": "2012-10-17", "Statement": [allowed, {**denied, "Action": ["gatehouse:ImportUsers", "gatehouse:ExportUsers"]}]})
        less = guarded.make("less", {"Version": "2012-10-17", "Statement": [blind]})
        none = guarded.make("none", {"Version": "2012-10-17", "Statement": [{**allowed, "Action": "gatehouse:GetUser"}]})
        file = tmp_path / "users.jsonl"
        file.write_text('{"id": "ann", "email": "ann@example.org", "emailVerified": true}\n{"id": "bob"}\n')

        def run(name, key):
            Cli(guarded.endpoint, key).run("user", "import", str(file), "--run", name, "--report", str(tmp_path / name))
            return [(each["id"], each["outcome"], each.get("field"), each.get("type", "")[22:]) for each in lines_of(tmp_path / name)[1:]]

        assert run("some", some) == [("ann", "refused", None, "forbidden"), ("bob", "created", None, "")]
        assert run("less", less) == [("ann", "refused", "emails", "forbidden"), ("bob", "unchanged", None, "")]
        assert run("full", full) == [("ann", "created", None, ""), ("bob", "unchanged", None, "")]
        assert "bob" in Cli(guarded.endpoint, some).ok("user", "export") and '"ann"' not in Cli(guarded.endpoint, some).ok("user", "export")
        assert "403" in Cli(guarded.endpoint, none).refused("user", "import", str(file), "--report", str(tmp_path / "none"))
        with open(os.path.join(guarded.data, "audit.log")) as log:
            assert "@" not in log.read()
    finally:
        stop(guarded.process)
        shutil.rmtree(guarded.data, ignore_errors=True)
