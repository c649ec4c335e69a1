"""Users of several processes that share their tables at a DynamoDB endpoint (dynoxide): an address has one user, no patch is lost, and a suspension
that one process has acknowledged holds at all of them."""
import contextlib
import json
import os

import pytest

from test_engine_dynamodb import dynoxide, gatehouse  # noqa: F401
from test_users import call, emails, new_id, new_user, ok, own, together
from v1 import V1, Crowd, attempt, generous, request_bytes

pytestmark = pytest.mark.gatehouse_only
ROUNDS = int(os.environ.get("GATEHOUSE_SHARED_ROUNDS", 15))
PROCESSES = 3


class One:
    """A process, as the words of test_users know a server."""

    def __init__(self, endpoint):
        self.endpoint, self.v1 = endpoint, V1(endpoint)


@pytest.fixture(scope="module")
def processes(dynoxide):  # noqa: F811
    with contextlib.ExitStack() as all_of_them:
        first = One(all_of_them.enter_context(gatehouse(dynoxide, "--table-prefix", "shared-users-", "--email-claims", "added")))
        generous(first)  # before the others start: they read it then
        made = [first, *(One(all_of_them.enter_context(gatehouse(dynoxide, "--table-prefix", "shared-users-", "--email-claims", "added"))) for _ in range(PROCESSES - 1))]
        yield made
        for each in made:
            each.v1.close()


def test_of_32_clients_of_several_processes_who_add_one_address_one_wins(processes):
    users = [new_user(processes[0])["id"] for _ in range(32)]
    crowds = [Crowd(each.endpoint, 32) for each in processes]
    try:
        peers = [(crowds[n % PROCESSES].peers[n], crowds[n % PROCESSES]) for n in range(32)]
        for _ in range(ROUNDS):
            email = f"{new_id()}@example.org"
            for (peer, _), user in zip(peers, users):
                peer.sendall(request_bytes(f"/v1/users/{user}/emails", {"email": email}))
            answers = [(int(head.split()[1]), json.loads(body)) for head, body in (crowd.read(peer) for peer, crowd in peers)]
            assert sorted(status for status, _ in answers) == [201] + [409] * 31, answers
            winner = next(n for n, (status, _) in enumerate(answers) if status == 201)
            for each in processes:
                assert ok(each, "POST", "/v1/users/lookup", {"email": email})["user"]["id"] == users[winner]
            ok(processes[1], "DELETE", f"/v1/users/{users[winner]}/emails/{answers[winner][1]['id']}")
    finally:
        for crowd in crowds:
            crowd.close()


def test_no_patch_is_lost_between_processes(processes):
    user = new_user(processes[0], attributes={"n": 0})["id"]
    path = f"/v1/users/{user}"

    def work(one):
        done = 0
        while done < 10:
            now = ok(one, "GET", path)
            status, answer, _ = call(one, "PATCH", path, {"version": now["version"], "attributes": {"n": now["attributes"]["n"] + 1}})
            assert status in (200, 409), answer
            done += status == 200

    together(*[lambda one=One(each.endpoint): work(one) for each in processes])
    final = ok(processes[0], "GET", path)
    assert (final["attributes"]["n"], final["version"]) == (10 * PROCESSES, 10 * PROCESSES + 1)


def test_set_primary_at_one_process_against_remove_at_another_leaves_exactly_one_verified_primary(processes):
    user = new_user(processes[0])["id"]
    own(processes[0], user, f"{new_id()}@example.org")
    for _ in range(ROUNDS):
        ids = [own(processes[n], user, f"{new_id()}@example.org") for n in range(2)]
        calls = [("PUT", f"/v1/users/{user}/primary-email", {"emailId": each}, (200, 404)) for each in ids]
        calls += [("DELETE", f"/v1/users/{user}/emails/{each}", None, (200, 409)) for each in ids]

        def run(n, method, path, body, expected):
            status, answer, _ = call(One(processes[n % PROCESSES].endpoint), method, path, body)
            assert status in expected, answer

        together(*[lambda n=n, each=each: run(n, *each) for n, each in enumerate(calls)])
        left = emails(processes[2], user)
        primary = [each for each in left if each["isPrimary"]]
        assert len(primary) == 1 and primary[0]["isVerified"]
        assert ok(processes[1], "GET", f"/v1/users/{user}")["email"] == primary[0]["email"]
        for each in left:
            if not each["isPrimary"]:
                ok(processes[0], "DELETE", f"/v1/users/{user}/emails/{each['id']}")


def test_a_suspension_that_one_process_acknowledged_holds_at_all_of_them(processes):
    for n in range(ROUNDS):
        user = new_user(processes[n % PROCESSES])["id"]
        assert all(ok(each, "POST", "/v1/attempts", attempt(user, outcome="success"))["verdict"] == "allow" for each in processes)
        ok(processes[n % PROCESSES], "POST", f"/v1/users/{user}/suspend")
        for each in processes:
            assert ok(each, "POST", "/v1/attempts", attempt(user, outcome="success"))["reason"] == "user_suspended"
