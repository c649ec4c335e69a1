"""Searching and counting users: what docs/users.md promises, on the embedded engine and at a DynamoDB endpoint. Pages while others change users, rows that other code wrote,
bad input field by field."""
import contextlib
import json
import time
import uuid

import boto3
import pytest

from conftest import CREDENTIALS
from test_access import CONFIG, REGION
from test_engine_dynamodb import dynoxide, gatehouse  # noqa: F401
from test_users import call, new_id, ok, own
from v1 import V1, Server, generous

pytestmark = pytest.mark.gatehouse_only
WAIT_S = 30
USERS = 60
STRANGERS = 2500  # rows; a page looks at 2000


class One:
    """A process at an endpoint, as the words of test_users know a server."""

    def __init__(self, endpoint):
        self.endpoint, self.v1 = endpoint, V1(endpoint)


@pytest.fixture(scope="module", params=["embedded", "endpoint"])
def server(request):
    if request.param == "embedded":
        made = generous(Server())
        yield made
        made.close()
        return
    with gatehouse(request.getfixturevalue("dynoxide"), "--table-prefix", "search-") as endpoint:
        made = generous(One(endpoint))
        yield made
        made.v1.close()


def search_pages(server, **terms):
    while True:
        page = ok(server, "POST", "/v1/users/search", terms)
        assert page["count"] == len(page["users"]) <= terms.get("limit", 100)
        yield page["users"]
        if not page["more"]:
            assert "cursor" not in page
            return
        terms["cursor"] = page["cursor"]


def search(server, **terms):
    found = [user["id"] for page in search_pages(server, **terms) for user in page]
    assert len(found) == len(set(found))
    counted, more = 0, {}
    while more is not None:
        page = ok(server, "POST", "/v1/users/search", {**terms, "countOnly": True, **more})
        assert "users" not in page
        counted, more = counted + page["count"], {"cursor": page["cursor"]} if page["more"] else None
    assert counted == len(found)
    return sorted(found)


def listed(server, **terms):
    found, cursor = [], None
    while True:
        query = "&".join(f"{name}={value}" for name, value in {"limit": 500, **terms, **({"cursor": cursor} if cursor else {})}.items())
        page = ok(server, "GET", "/v1/users?" + query)
        found += [user["id"] for user in page["users"]]
        if not page["more"]:
            return sorted(found)
        cursor = page["cursor"]


@pytest.fixture(scope="module")
def people(server):
    """{name: id}. The tag keeps them apart from users of other tests."""
    tag = "t" + uuid.uuid4().hex[:8]

    def create(name, **fields):
        return ok(server, "POST", "/v1/users", {"id": f"{tag}-{name}", **fields})["id"]

    made = {"tag": tag, "ann": create("ann", firstName="Ann" + tag, lastName="Straße" + tag), "bob": create("bob", firstName="Bob" + tag, lastName="ANNE" + tag),
            "eve": create("eve", firstName="Ève" + tag), "out": create("out", firstName="Out" + tag), "gone": create("gone", firstName="Gone" + tag)}
    own(server, made["ann"], f"{tag}.Ann@Example.org")
    own(server, made["ann"], f"{tag}.second@example.org")
    own(server, made["ann"], f"{tag}.secondly@example.org")
    own(server, made["bob"], f"{tag}.Bob@Example.com")
    claim = ok(server, "POST", f"/v1/users/{made['eve']}/emails", {"email": f"{tag}.claimed@example.org"})
    assert not claim["isVerified"]
    ok(server, "POST", f"/v1/users/{made['out']}/suspend")
    ok(server, "DELETE", f"/v1/users/{made['gone']}")
    made["synced"] = f"{tag}-synced"
    ok(server, "POST", "/v1/sync/users", {"provider": tag, "id": made["synced"], "firstName": "Synced" + tag})
    return made


def ids(people, *names):
    return sorted(people[name] for name in names)


def test_users_are_found_by_names_whichever_way_they_are_written(server, people):
    tag = people["tag"]
    assert search(server, name="ANN" + tag) == ids(people, "ann")
    assert search(server, name="annE" + tag) == ids(people, "bob")  # a last name
    assert search(server, name="strasse" + tag) == search(server, name="STRASSE" + tag) == ids(people, "ann")
    assert search(server, name=f"ann{tag} straß") == ids(people, "ann")  # both names
    assert search(server, name="E\u0300ve" + tag) == search(server, name="ÈVE" + tag) == ids(people, "eve")
    assert search(server, name="nn" + tag) == []  # no beginning


def test_users_are_found_by_any_address_that_they_have_proved_and_once(server, people):
    tag = people["tag"]
    assert search(server, email=tag) == ids(people, "ann", "bob")
    assert search(server, email=f"{tag}.ANN@ex") == ids(people, "ann")
    assert search(server, email=f"{tag}.bob@Example.com") == ids(people, "bob")
    assert search(server, email=f"{tag}.second") == ids(people, "ann")  # two of hers, neither the primary one
    assert search(server, email=f"{tag}.claimed") == []  # as of a lookup


def test_terms_hold_together(server, people):
    tag = people["tag"]
    assert search(server, status="suspended", name="out" + tag) == ids(people, "out")
    assert search(server, status="active", name="out" + tag) == []
    assert search(server, status="deleted", name="gone" + tag) == ids(people, "gone")
    assert search(server, provider=tag) == search(server, provider=tag, status="active") == listed(server, provider=tag) == ids(people, "synced")
    assert search(server, email=tag, name="bob") == ids(people, "bob")
    assert set(ids(people, "out")) <= set(listed(server, status="suspended")) and not set(ids(people, "ann")) & set(listed(server, status="suspended"))


def test_users_are_found_by_when_they_were_created(server, people):
    created = ok(server, "GET", f"/v1/users/{people['ann']}")["createdAt"]
    assert people["ann"] in search(server, createdFrom=created) and people["ann"] in listed(server, created_from=created)
    assert people["ann"] not in search(server, createdBefore=created) and people["ann"] not in listed(server, created_before=created)
    assert search(server, createdFrom="2099-01-01T00:00:00Z") == listed(server, created_from=4070908800) == []
    assert people["ann"] in search(server, createdFrom=1, createdBefore="2099-01-01T00:00:00Z")


def test_whoever_is_there_all_the_time_is_found_exactly_once_while_others_come_change_and_go(server):
    tag = "c" + uuid.uuid4().hex[:8]
    stay = [ok(server, "POST", "/v1/users", {"id": f"{tag}-{n}", "firstName": f"{tag}-{n:03}"})["id"] for n in range(USERS)]
    go = [ok(server, "POST", "/v1/users", {"id": f"{tag}-go-{n}", "firstName": tag})["id"] for n in range(10)]
    found = []
    for page, users in enumerate(search_pages(server, name=tag, limit=7)):
        found += [user["id"] for user in users]
        for n in range(page, USERS, 10):  # they keep what is searched for, and nothing else
            who = ok(server, "GET", f"/v1/users/{stay[n]}")
            ok(server, "PATCH", f"/v1/users/{stay[n]}", {"version": who["version"], "firstName": f"{tag}-{999 - n:03}-{page}", "lastName": "L" * page or None})
        ok(server, "POST", "/v1/users", {"id": f"{tag}-new-{page}", "firstName": tag})
        if go:
            ok(server, "PATCH", f"/v1/users/{go[0]}", {"version": ok(server, "GET", f"/v1/users/{go[0]}")["version"], "firstName": "else"})
            ok(server, "DELETE", f"/v1/users/{go.pop(0)}")
    assert len(found) == len(set(found)) and set(stay) <= set(found)


@pytest.fixture(scope="module")
def embedded():
    made = generous(Server())
    yield made
    made.close()


@pytest.fixture(scope="module")
def table(embedded):
    ok(embedded, "POST", "/v1/users", {"id": "first"})
    client = boto3.resource("dynamodb", endpoint_url=embedded.endpoint, region_name=REGION, config=CONFIG, aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"], aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
    return client.Table("users")


def test_a_search_looks_at_a_bounded_part_of_the_table_and_goes_on(embedded, table):
    with table.batch_writer() as rows:  # as other code writes them
        for n in range(STRANGERS):
            rows.put_item({"PK": f"USER#stranger-{n}", "SK": "PROFILE", "status": "active", "createdAt": "2020-01-01T00:00:00.123Z", "firstName": f"Stranger {n}"})
    first = ok(embedded, "POST", "/v1/users/search", {"name": "nobody is called so"})
    assert first["users"] == [] and first["more"]
    assert search(embedded, name="stranger 77") == sorted(f"stranger-{n}" for n in (77, *range(770, 780)))
    assert len(search(embedded, createdBefore="2021-01-01T00:00:00Z")) == STRANGERS
    assert search(embedded, email="stranger") == []


def test_a_user_that_is_being_erased_is_neither_found_nor_counted(embedded, table):
    table.put_item(Item={"PK": "USER#half-gone", "SK": "PROFILE", "status": "erasing", "firstName": "Halfgone", "version": 1})
    assert search(embedded, name="halfgone") == [] and "half-gone" not in search(embedded)
    ok(embedded, "POST", "/v1/users", {"id": "whole", "firstName": "Halfgone"})
    assert search(embedded, name="halfgone") == ["whole"]
    assert "half-gone" not in listed(embedded, status="suspended") and counted(embedded)["users"] == len(search(embedded))
    table.delete_item(Key={"PK": "USER#half-gone", "SK": "PROFILE"})


def counted(server):
    status, job, _ = call(server, "POST", "/v1/user-counts", {"rate": 1000000})
    assert status == 202 and job["kind"] == "count-users"
    until = time.monotonic() + WAIT_S
    while ok(server, "GET", f"/v1/jobs/{job['id']}")["state"] == "running":
        assert time.monotonic() < until
    counts = ok(server, "GET", "/v1/user-counts")
    assert counts["job"] == job["id"] and counts["startedAt"] <= counts["endedAt"]
    return counts


def test_counts_are_those_of_a_search(server, people):
    counts = counted(server)
    assert counts["users"] == len(search(server)) == sum(counts["byStatus"].values()) == sum(counts["byProvider"].values())
    assert counts["byStatus"] == {status: len(search(server, status=status)) for status in ("active", "deleted", "suspended")}
    assert counts["byProvider"][people["tag"]] == 1 and counts["byProvider"]["(none)"] > 0


def test_who_was_never_counted_is_told_how(embedded, tmp_path_factory):
    made = Server()
    try:
        status, problem, _ = call(made, "GET", "/v1/user-counts")
        assert status == 404 and "POST /v1/user-counts" in problem["detail"]
        assert counted(made) | {"startedAt": "", "endedAt": "", "job": ""} == {"users": 0, "byStatus": {}, "byProvider": {}, "startedAt": "", "endedAt": "", "job": ""}
    finally:
        made.close()


BAD = [({"status": "erasing"}, "status"), ({"status": ""}, "status"), ({"status": 1}, "status"), ({"provider": "a b"}, "provider"), ({"provider": "p" * 65}, "provider"),
       ({"createdFrom": "yesterday"}, "createdFrom"), ({"createdBefore": -1}, "createdBefore"), ({"name": "a\nb"}, "name"), ({"name": ""}, "name"), ({"name": "n" * 321}, "name"),
       ({"email": "a@straße"}, "email"), ({"email": "a\x00"}, "email"), ({"limit": 0}, "limit"), ({"limit": 501}, "limit"), ({"cursor": "abc"}, "cursor"), ({"countOnly": 1}, "countOnly"),
       ({"mail": "a"}, "mail")]


@pytest.mark.parametrize("body, field", BAD, ids=lambda value: json.dumps(value)[:40])
def test_bad_input_names_its_field(embedded, body, field):
    status, problem, _ = call(embedded, "POST", "/v1/users/search", body)
    assert status in (400, 422) and problem["field"] == field, problem


@pytest.mark.parametrize("query, field", [("status=erasing", "status"), ("provider=a%20b", "provider"), ("created_from=x", "created_from"), ("created_before=2026", None), ("name=ann", "name")])
def test_bad_input_of_the_list_names_its_field(embedded, query, field):
    status, problem, _ = call(embedded, "GET", "/v1/users?" + query)
    assert (status, problem.get("field")) == ((422, field) if field else (200, None)), problem
