"""One key cannot stop the others: of what all share (jobs, targets, consumers, streams, the loops), each caller has a share."""
import http.client
import json
import shutil
import threading
import time

import pytest

from conftest import stop
from test_access import Guarded
from test_v1_access import EVERYTHING, call, policy

pytestmark = pytest.mark.gatehouse_only
END_S = 60


@pytest.fixture(scope="module")
def guarded():
    server = Guarded()
    yield server
    stop(server.process)
    shutil.rmtree(server.data, ignore_errors=True)


def many(server, key, requests, threads=8):
    """Sends them over some connections, and returns the statuses."""
    statuses = []

    def send(mine):
        connection = http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=END_S)
        for method, path in mine:
            connection.request(method, path, None, {"Authorization": f"Bearer {key[0]}.{key[1]}"})
            answer = connection.getresponse()
            answer.read()
            statuses.append(answer.status)
        connection.close()

    started = [threading.Thread(target=send, args=(requests[i::threads],)) for i in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return statuses


def ended(server, key, job):
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        now = call(server, key, "GET", f"/v1/jobs/{job['id']}")[1]
        if now["state"] != "running":
            return now
        time.sleep(0.01)
    raise AssertionError(f"still running: {now}")


def test_erasures_that_a_key_queues_hold_up_neither_a_revocation_nor_anothers_erasure(guarded):
    mine = "arn:aws:gatehouse:*:*:user/t-*"
    tenant = guarded.make("tenant", policy({"Effect": "Allow", "Action": ["gatehouse:EraseUser", "gatehouse:CreateUser"], "Resource": mine}))
    operator = guarded.make("operator", policy(EVERYTHING))
    for i in range(200):
        assert call(guarded, tenant, "POST", "/v1/users", {"id": f"t-{i}"})[0] == 201
    assert call(guarded, operator, "POST", "/v1/users", {"id": "ann"})[0] == 201
    assert set(many(guarded, tenant, [("POST", f"/v1/users/t-{i}/erase") for i in range(200)])) == {202}
    revocation = call(guarded, operator, "POST", "/v1/revoke-users", {"users": ["ann", "bob"], "reason": "a laptop was stolen"})[1]
    erasure = call(guarded, operator, "POST", "/v1/users/ann/erase")[1]
    assert ended(guarded, operator, revocation)["progress"]["revoked"] == 2
    assert ended(guarded, operator, erasure)["state"] == "done"
    waiting = [each for each in call(guarded, operator, "GET", "/v1/jobs?kind=erase&state=running&limit=500")[1]["jobs"]]
    assert len(waiting) > 100, "both were done before most of the others"


def test_an_erasure_of_an_id_that_is_not_known_ends_at_once(guarded):
    key = guarded.make("eraser", policy(EVERYTHING))
    done = ended(guarded, key, call(guarded, key, "POST", "/v1/users/nobody-has-this/erase")[1])
    assert (done["state"], done["steps"], done["progress"]) == ("done", 1, {"unknown": 1})
    assert call(guarded, key, "POST", "/v1/allow", {"policy": "sms-number", "key": "limited-only"})[0] == 200
    done = ended(guarded, key, call(guarded, key, "POST", "/v1/users/limited-only/erase")[1])
    assert (done["state"], done["progress"]["rate-limits"]) == ("done", 1)
