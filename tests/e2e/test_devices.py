"""Known devices with the real server: a token is issued once, opens one lane, is worth one budget, is kept nowhere, and can be
listed and revoked; the key that signs it rotates while the server runs."""

import os
import subprocess
import time

import pytest

from conftest import program
from v1 import Server, attempt

pytestmark = pytest.mark.gatehouse_only
LIMIT, LANES, DEVICES = 6, 18, 10
WAIT_S = 30


@pytest.fixture
def server():
    own = Server("--log-requests")
    yield own
    own.close()


def code(subject, **context):
    return attempt(subject, "MFA_CODE_ENTRY", outcome="success", method_id="phone-1", context=context)


def sign_in(v1, subject, **context):
    """The last step, which makes a device known; its whole answer."""
    reply = v1.attempts(code(subject, **context))
    assert reply.status == 200, reply.body
    return reply.json()


def guess(v1, subject, token):
    return v1.record(subject, context={"device_token": token})


def known(v1, subject, token):
    reply = v1.post("/v1/check", {"subject": subject, "journey": "SIGN_IN", "actions": ["PASSWORD_ENTRY"],
                                  "context": {"device_token": token}})
    assert reply.status == 200, reply.body
    return reply.json()["actions"]["PASSWORD_ENTRY"]["known_device"]


def devices(v1, subject):
    reply = v1.send("GET", f"/v1/subjects/{subject}/known-devices")
    assert reply.status == 200, reply.body
    return reply.json()["devices"]


def test_the_owner_signs_in_while_strangers_are_locked_out(v1, subject):
    token = sign_in(v1, subject)["device_token"]
    assert v1.record(subject, times=LIMIT)["verdict"] == "locked"
    answer = v1.record(subject, outcome="success", context={"device_token": token})
    assert answer["verdict"] == "allow" and answer["known_device"] is True and "device_token" not in answer
    assert v1.record(subject, outcome="success")["verdict"] == "locked"


def test_the_password_alone_makes_no_device_known(v1, subject):
    answer = v1.record(subject, outcome="success")
    assert answer["verdict"] == "allow" and "device_token" not in answer
    assert devices(v1, subject) == []


@pytest.mark.parametrize("token", ["x", "A" * 108, "-" * 108, "a" * 1024, "é" * 54])
def test_a_text_that_is_no_token_is_a_strangers_and_no_error(v1, subject, token):
    assert guess(v1, subject, token)["known_device"] is False


def test_the_device_of_the_older_scheme_is_refused_by_name(v1, subject):
    reply = v1.attempts(attempt(subject, context={"device": "cookie"}))
    assert reply.status == 422 and reply.json()["field"] == "context.device"
    assert "context.device_token" in reply.json()["detail"]


def test_a_caller_may_want_no_token(v1, subject):
    assert "device_token" not in sign_in(v1, subject, remember_device=False)
    assert devices(v1, subject) == []


def test_ten_devices_do_not_give_sixty_guesses(v1, subject):
    tokens = [sign_in(v1, subject)["device_token"] for _ in range(DEVICES + 1)]
    assert len(devices(v1, subject)) == DEVICES
    lanes = sum(guess(v1, subject, token)["known_device"] for _ in range(LIMIT + 1) for token in tokens)
    assert lanes == LANES
    assert guess(v1, subject, tokens[-1])["verdict"] == "locked"  # the rest went to the strangers' count


def test_the_failure_that_spends_a_device_says_so(v1, subject):
    token = sign_in(v1, subject)["device_token"]
    answers = [guess(v1, subject, token) for _ in range(LIMIT + 1)]
    assert [a.get("device_forgotten", False) for a in answers] == [False] * (LIMIT - 1) + [True, False]
    assert [a["known_device"] for a in answers] == [True] * LIMIT + [False]
    assert devices(v1, subject) == []


def test_devices_are_listed_and_revoked(v1, subject):
    tokens = [sign_in(v1, subject)["device_token"] for _ in range(3)]
    guess(v1, subject, tokens[0])
    listed = devices(v1, subject)
    assert [set(d) for d in listed] == [{"device", "issued_at", "last_updated", "until", "expires_in", "known_after",
                                         "failures"}] * 3
    failed = next(d for d in listed if d["failures"])
    assert failed["failures"] == {"SIGN_IN/PASSWORD_ENTRY": 1} and set(failed["known_after"]) == {"SIGN_IN/MFA_CODE_ENTRY"}
    reply = v1.send("DELETE", f"/v1/subjects/{subject}/known-devices/{failed['device']}")
    assert (reply.status, reply.json()) == (200, {"devices_forgotten": 1})
    assert [known(v1, subject, token) for token in tokens] == [False, True, True]
    assert v1.send("DELETE", f"/v1/subjects/{subject}/known-devices/{failed['device']}").status == 404
    reply = v1.send("DELETE", f"/v1/subjects/{subject}/known-devices/x")
    assert (reply.status, reply.json()["field"]) == (422, "device")
    assert v1.send("DELETE", f"/v1/subjects/{subject}/known-devices").json() == {"devices_forgotten": 2}
    assert [known(v1, subject, token) for token in tokens] == [False] * 3


def test_a_password_reset_forgets_them_and_says_how_many(v1, subject):
    token = sign_in(v1, subject)["device_token"]
    reply = v1.post(f"/v1/subjects/{subject}/reset", {"reset": "PASSWORD"})
    assert reply.json()["devices_forgotten"] == 1
    assert known(v1, subject, token) is False


# ---- replays, and what is stored ----


def scan(server, table):
    reply = server.v1.call("Scan", {"TableName": table})
    assert reply.status == 200, reply.body
    return reply.body


def test_a_replay_says_already_issued_and_the_token_is_kept_nowhere(server, subject):
    first = server.v1.attempts(code(subject), idempotency_key="once")
    token = first.json()["device_token"]
    again = server.v1.attempts(code(subject), idempotency_key="once")
    assert again.json()["already_issued"] is True and "device_token" not in again.json()
    same = {k: v for k, v in first.json().items() if k != "device_token"}
    assert {k: v for k, v in again.json().items() if k != "already_issued"} == same
    guess(server.v1, subject, token)
    rows = scan(server, "auth-state") + scan(server, "gatehouse-idempotency")
    parts = [token[i:i + 16].encode() for i in range(0, len(token) - 16, 4)]
    assert not any(part in rows for part in parts)
    assert server.v1.attempts(attempt(subject, context={"device_token": token, "oops": 1})).status == 422
    server.kill()
    assert not any(part in file for part in parts for file in [*server.stored(), server.logged()])
    server.start()
    assert known(server.v1, subject, token) is True  # the key outlives the process


# ---- the key ----


def rotate(server, *words):
    return subprocess.run([program(), "device-key", "rotate", "--data", server.data, *words], capture_output=True, text=True,
                          timeout=60)


def wait_for(server, text, since=0):
    """since: the length of the log before; what an earlier process logged is in it, too."""
    deadline = time.monotonic() + WAIT_S
    while text not in server.logged()[since:] and time.monotonic() < deadline:
        time.sleep(0.05)
    assert text in server.logged()[since:]


def test_a_rotated_key_signs_at_once_and_the_old_one_still_verifies(server, subject):
    before = sign_in(server.v1, subject)["device_token"]
    done = rotate(server)
    assert done.returncode == 0, done.stderr
    wait_for(server, b"reloaded the device keys")
    after = sign_in(server.v1, subject)["device_token"]
    assert before[:6] != after[:6]  # version and id of the key
    assert known(server.v1, subject, before) and known(server.v1, subject, after)
    server.kill()
    server.start()
    assert known(server.v1, subject, before) and known(server.v1, subject, after)


def test_there_are_32_keys_at_most_and_the_oldest_goes_only_when_told_to(server, subject):
    token = sign_in(server.v1, subject)["device_token"]
    assert [rotate(server).returncode for _ in range(31)] == [0] * 31
    full = rotate(server)
    assert full.returncode == 1 and "--drop-oldest" in full.stderr
    server.kill()
    server.start()
    assert known(server.v1, subject, token) is True
    since = len(server.logged())
    assert rotate(server, "--drop-oldest").returncode == 0
    wait_for(server, b"reloaded the device keys", since)
    assert known(server.v1, subject, token) is False


def test_rotations_at_the_same_time_lose_no_key(server):
    command = [program(), "device-key", "rotate", "--data", server.data]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(16)]
    ids = {process.communicate(timeout=60)[0].split()[1] for process in running}
    assert len(ids) == 16
    with open(os.path.join(server.data, "devices.key"), encoding="latin-1") as file:
        kept = file.read()
    assert all(key_id in kept for key_id in ids)


def test_the_key_file_is_its_owners_alone(server):
    assert os.stat(os.path.join(server.data, "devices.key")).st_mode & 0o777 == 0o600


def refuses_to_start(server):
    done = subprocess.run([program(), "serve", "--listen", "127.0.0.1:0", "--data", server.data, "--no-auth"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode != 0
    return done.stderr


def test_a_key_file_that_is_damaged_or_gone_is_never_made_anew(server, subject):
    token = sign_in(server.v1, subject)["device_token"]
    server.kill()
    path = os.path.join(server.data, "devices.key")
    with open(path, "rb") as file:
        good = file.read()
    with open(path, "wb") as file:
        file.write(good[:20] + bytes([good[20] ^ 1]) + good[21:])
    assert "devices.key" in refuses_to_start(server)
    os.unlink(path)
    assert "devices.key" in refuses_to_start(server)
    with open(path, "wb") as file:
        file.write(good)
    server.start()
    assert known(server.v1, subject, token) is True
