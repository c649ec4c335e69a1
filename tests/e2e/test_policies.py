"""Policies over HTTP: going back to what ships, every version that an explanation cites, and what metrics say of them."""
import json
import re
import time

import pytest

from v1 import Server, attempt
from wire import Wire

pytestmark = pytest.mark.gatehouse_only

LOOK_S = 15  # the file is looked at every second


def document(most):
    return {"locks": {"STANDARD": {"duration": 900}}, "journeys": {"SIGN_IN": {"types": {"PASSWORD_ENTRY": {"max": most, "life": 900}}}}}


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


def send(server, method, version=None, body=None, query="", kind="attempts"):
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    return server.v1.send(method, f"/v1/policies/{kind}{query}", None if body is None else json.dumps(body).encode(), headers)


def put(server, version, most):
    reply = send(server, "PUT", version, document(most))
    assert (reply.status, reply.json()["version"]) == (200, version + 1), reply.body


def metrics(server):
    wire = Wire(server.endpoint)
    lines = wire.send("GET", "/metrics").body.decode().splitlines()
    wire.close()
    return {series: float(value) for series, value in (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))}


def wait_until(condition):
    deadline = time.monotonic() + LOOK_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


# ---- DELETE ----


def test_delete_goes_back_to_what_ships_and_versions_go_on_rising(server):
    shipped = send(server, "GET").json()
    put(server, 0, 3)
    reply = send(server, "DELETE", 1)
    assert reply.status == 200 and reply.headers["etag"] == '"2"'
    assert reply.json() == {**shipped, "version": 2}
    assert reply.json()["origin"] == "default"
    assert server.v1.record("a")["counts"]["PASSWORD_ENTRY"]["max"] == 6
    put(server, 2, 4)
    assert server.v1.record("a")["policy_version"] == 3


def test_delete_is_as_careful_as_put(server, tmp_path):
    assert send(server, "DELETE").status == 428
    assert send(server, "DELETE", 1).status == 412
    assert send(server, "DELETE", 0, kind="nothing").status == 404
    put(server, 0, 3)
    assert send(server, "DELETE", 0).status == 412
    assert send(server, "GET").json()["version"] == 1
    file = tmp_path / "policies.yaml"
    file.write_text("limits: {few: {limit: 5, per: day}}\n")
    other = Server("--policies", str(file))
    assert send(other, "DELETE", 0).json()["type"] == "urn:gatehouse:problem:policies-from-file"
    other.close()


def test_what_delete_put_back_is_in_force_after_a_restart(server):
    put(server, 0, 3)
    assert send(server, "DELETE", 1).status == 200
    server.kill()
    server.start()
    now = send(server, "GET").json()
    assert (now["version"], now["origin"]) == (2, "default")
    assert send(server, "GET", query="?version=1").json()["document"] == document(3)


# ---- versions ----


def test_every_version_that_an_explanation_cites_can_be_read(server):
    for version, most in enumerate((7, 8, 9)):
        server.v1.record("a")
        put(server, version, most)
    server.v1.record("a")
    (count,) = server.v1.send("GET", "/v1/subjects/a/explain").json()["counts"]
    cited = [one["policy_version"] for one in count["attempts"]]
    assert cited == [0, 1, 2, 3]
    read = [send(server, "GET", query=f"?version={version}") for version in cited]
    assert [r.json()["version"] for r in read] == cited
    assert [r.json()["document"]["journeys"]["SIGN_IN"]["types"]["PASSWORD_ENTRY"]["max"] for r in read] == [6, 7, 8, 9]
    assert [r.json()["in_force"] for r in read] == [False, False, False, True]
    assert ["etag" in r.headers for r in read] == [False, False, False, True]


@pytest.mark.parametrize("version, status, kind", [("4", 404, "not-found"), ("-1", 422, "invalid-value"), ("latest", 422, "invalid-value"),
                                                   ("", 422, "invalid-value"), ("99999999999999999999", 422, "invalid-value")])
def test_a_version_that_never_was_is_not_found(server, version, status, kind):
    reply = send(server, "GET", query=f"?version={version}")
    assert (reply.status, reply.json()["type"], reply.json()["field"]) == (status, "urn:gatehouse:problem:" + kind, "version")


def test_versions_of_a_file_can_be_read_when_it_has_changed_and_after_a_restart(tmp_path):
    file = tmp_path / "policies.yaml"
    file.write_text(json.dumps({"attempts": document(7)}))
    server = Server("--policies", str(file))
    first = server.v1.record("a")["policy_version"]
    wait_until(lambda: "gatehouse-policies" in server.v1.call("ListTables", {}).json()["TableNames"])
    file.write_text(json.dumps({"attempts": document(80)}))
    wait_until(lambda: send(server, "GET").json()["version"] != first)
    second = server.v1.record("a")["policy_version"]
    assert second > first
    wait_until(lambda: send(server, "GET", query=f"?version={first}").status == 200)
    server.kill()
    file.write_text("limits: {few: {limit: 5, per: day}}\n")
    server.start()
    for version, most in ((first, 7), (second, 80)):
        old = send(server, "GET", query=f"?version={version}").json()
        assert (old["document"], old["origin"], old["in_force"]) == (document(most), "file", False)
    assert send(server, "GET").json()["origin"] == "default"  # a section that the file does not have
    server.close()


OWN_RULES = {"locks": {"STANDARD": {"duration": 900}}, "journeys": {"SIGN_IN": {"types": {"PASSWORD_ENTRY": {"max": 3, "life": 60, "lock": "STANDARD"}}}}}


def test_rules_without_the_types_that_count_codes_are_warned_of_in_the_log():
    warning = b"requests for codes that verify addresses are refused: codes cannot be counted: the policies `users` count them as EMAIL_VERIFICATION/USER_CODE_REQUEST"
    server = Server()
    assert warning not in server.logged()
    reply = send(server, "PUT", 0, OWN_RULES)
    assert reply.status == 200, reply.body
    wait_until(lambda: server.logged().count(warning) == 1)
    server.kill()
    server.start()  # at start as well
    wait_until(lambda: server.logged().count(warning) == 2)
    server.close()


# ---- metrics ----


def test_a_file_that_is_not_taken_over_shows_in_the_metrics_until_it_is_good(tmp_path):
    file = tmp_path / "policies.yaml"
    file.write_text("limits: {few: {limit: 5, per: day}}\n")
    server = Server("--policies", str(file))
    assert metrics(server)["gatehouse_policies_refused"] == 0
    file.write_text("limits: {few: {limit: many, per: day}}\n")
    wait_until(lambda: metrics(server)["gatehouse_policies_refused"] == 1)
    assert metrics(server)["gatehouse_policy_reload_failures_total"] == 1
    assert b"limits.few.limit" in server.logged()
    assert server.v1.post("/v1/allow", {"policy": "few", "key": "k"}).status == 200
    file.write_text("limits: {few: {limit: 6, per: day}}\n")
    wait_until(lambda: metrics(server)["gatehouse_policies_refused"] == 0)
    server.close()


def labelled(**labels):
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def test_verdicts_and_locks_are_counted_by_journey_and_type(server):
    def verdicts(verdict, source="attempts"):
        labels = labelled(journey="SIGN_IN", type="PASSWORD_ENTRY", verdict=verdict, source=source)
        return metrics(server)["gatehouse_verdicts_total" + labels]

    locks = "gatehouse_locks_set_total" + labelled(journey="SIGN_IN", type="PASSWORD_ENTRY")
    assert (verdicts("locked"), metrics(server)[locks]) == (0, 0)
    server.v1.record("a", times=7)
    assert (verdicts("allow"), verdicts("locked"), metrics(server)[locks]) == (5, 2, 1)
    check = {"subject": "a", "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY", "EMAIL_CODE_ENTRY"]}
    assert server.v1.post("/v1/check", check).status == 200
    assert (verdicts("locked", "check"), verdicts("allow", "check")) == (1, 0)
    now = metrics(server)
    assert now["gatehouse_verdicts_total" + labelled(journey="SIGN_IN", type="EMAIL_CODE_ENTRY", verdict="allow", source="check")] == 1
    assert sum(value for series, value in now.items() if series.startswith("gatehouse_locks_set_total")) == 1


def test_only_names_of_the_policies_become_labels_and_counts_outlive_a_change(server):
    server.v1.record("a", times=2)
    server.v1.attempts(attempt("a", journey="INVENTED"))
    server.v1.attempts(attempt("a", "INVENTED"))
    put(server, 0, 9)
    now = metrics(server)
    labels = {re.search(r'journey="(\w+)",type="(\w+)"', series).groups() for series in now if series.startswith("gatehouse_verdicts_total")}
    assert labels == {("SIGN_IN", "PASSWORD_ENTRY")}
    assert now["gatehouse_verdicts_total" + labelled(journey="SIGN_IN", type="PASSWORD_ENTRY", verdict="allow", source="attempts")] == 2
