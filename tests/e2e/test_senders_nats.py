"""Events to a real nats-server with JetStream, without Gatehouse's server: tests/outbound/sender_tool.c sends.

Servers that misbehave are in tests/outbound/nats_test.c.
"""

import json
import subprocess

import pytest

from certificates import Certificates
from senders import JS, WAIT_S, Nats, Tool, event

SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"  # the pair that NATS's documentation shows
PUBLIC = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"


@pytest.fixture(scope="module")
def nats():
    with Nats() as server:
        yield server


def test_a_stream_stores_events_once_with_subject_id_and_type_of_content(nats):
    nats.stream("STORED", "stored.>")
    events = [event(f"user-{i}", kind=("user.created", "lock.set")[i % 2]) for i in range(20)]
    with Tool(type="nats", url=nats.url, subject="stored") as tool:
        assert tool.ends(*events) == ["sent"] * 20
        assert tool.ends(*events) == ["sent"] * 20  # as after an answer that was lost
    assert nats.messages("STORED") == [
        (f"stored.{each['type']}", {"Nats-Msg-Id": each["id"], "content-type": "application/cloudevents+json"}, each["json"]) for each in events]


def test_without_a_stream_an_event_is_for_later_and_is_taken_once_there_is_one(nats):
    one = event()
    with Tool(type="nats", url=nats.url, subject="absent") as tool:
        (result,) = tool.send(one)
        assert (result["end"], result["error"]) == ("later", "no stream takes the subject absent.user.created")
        nats.stream("ABSENT", "absent.>")
        assert tool.ends(one) == ["sent"]
    assert len(nats.messages("ABSENT")) == 1


def test_an_event_larger_than_the_stream_takes_is_refused_alone(nats):
    nats.stream("SMALL", "small.>", max_msg_size=1024)
    good, large, huge = event("user-1"), event("user-2", data={"text": "x" * 2000}), event("user-3", data={"text": "x" * 1100000})
    with Tool(type="nats", url=nats.url, subject="small") as tool:
        results = tool.send(good, large, huge)
        assert [each["end"] for each in results] == ["sent", "refused", "refused"]
        assert results[1]["error"] == "it is larger than the stream takes (error 10054)"
        assert "the server takes 1048576 at most" in results[2]["error"]
    assert [body for _, _, body in nats.messages("SMALL")] == [good["json"]]


def test_a_stream_that_is_full_is_for_later(nats):
    nats.stream("FULL", "full.>", max_msgs=1, discard="new")
    with Tool(type="nats", url=nats.url, subject="full") as tool:
        first, second = tool.send(event("user-1"), event("user-2"))
        assert first["end"] == "sent"
        assert (second["end"], second["error"]) == ("later", "the stream is full, or cannot store it (error 10077)")


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_was_down_is_reached_again_and_nothing_is_stored_twice(how):
    with Nats() as server:
        server.stream("DOWN", "down.>")
        events = [event(f"user-{i}") for i in range(8)]
        with Tool(type="nats", url=server.url, subject="down") as tool:
            assert tool.ends(*events[:4]) == ["sent"] * 4
            getattr(server, how)()
            assert tool.ends(*events[4:]) == ["later"] * 4
            server.start()
            assert tool.ends(*events) == ["sent"] * 8
            server.stop()
            server.start()  # the connection that is kept is dead: nobody notices
            assert tool.ends(*events) == ["sent"] * 8
        assert [body for _, _, body in server.messages("DOWN")] == [each["json"] for each in events]


def test_logins_by_token_password_and_key():
    ways = [
        (Nats("--auth", "the-token", auth_token="the-token"), {"token": "the-token"}, {"token": "another"}),
        (Nats("--user", "ann", "--pass", "hush", user="ann", **{"pass": "hush"}), {"user": "ann", "password": "hush"}, {"user": "ann", "password": "no"}),
        (Nats(config=f"authorization {{ users: [ {{ nkey: {PUBLIC} }}, {{ user: reader, password: reader }} ] }}", user="reader", **{"pass": "reader"}),
         {"seed": SEED}, {"user": "ann", "password": "no"}),
    ]  # fmt: skip
    for server, good, bad in ways:
        with server:
            server.stream("LOGIN", "login.>")
            with Tool(type="nats", url=server.url, subject="login", **good) as tool:
                assert tool.ends(event()) == ["sent"]
            for wrong in ({}, bad):
                with Tool(type="nats", url=server.url, subject="login", **wrong) as tool:
                    (result,) = tool.send(event())
                    assert (result["end"], result["error"]) == ("later", "Authorization Violation")


def test_a_subject_that_may_not_be_published_to_does_not_hold_up_the_others():
    users = ('{ user: ann, password: hush, permissions: { publish: "some.user.>", subscribe: "_INBOX.>" } }, { user: reader, password: reader }')
    with Nats(config=f"authorization {{ users: [ {users} ] }}", user="reader", **{"pass": "reader"}) as server:
        server.stream("SOME", "some.>")
        with Tool(type="nats", url=server.url, subject="some", user="ann", password="hush") as tool:
            first, second, third = tool.send(event("user-1"), event("user-2", kind="lock.set"), event("user-3"))
            assert [first["end"], third["end"]] == ["sent", "sent"]
            assert (second["end"], second["error"]) == ("later", "Permissions Violation: it may not publish to some.lock.set")
            assert tool.ends(event()) == ["sent"]


def test_tls_is_used_and_verified():
    made = Certificates()
    try:
        made.make("server", by="ca")
        made.make("elsewhere", by="ca", hosts="subjectAltName=DNS:example.org")
        with Nats() as plain:
            with Tool(type="nats", url=plain.url.replace("nats", "tls"), subject="s", caFile=str(made.crt("ca"))) as tool:
                assert tool.send(event())[0]["error"] == "the server does not offer TLS"
        for name, ca, error in (("server", "ca", ""), ("server", "stranger-ca", "certificate"), ("elsewhere", "ca", "mismatch")):
            # JetStream is asked over TLS too: no stream is made, so that "no stream" says that the connection stands
            with Nats("--tls", "--tlscert", str(made.crt(name)), "--tlskey", str(made.key(name))) as server:
                for url in (server.url, server.url.replace("nats://", "tls://"), server.url.replace("nats://127.0.0.1", "tls://localhost")):
                    with Tool(type="nats", url=url, subject="s", caFile=str(made.crt(ca))) as tool:
                        (result,) = tool.send(event())
                        assert result["end"] == "later" and (error or "no stream takes") in result["error"], result
    finally:
        made.release()


def test_private_addresses_and_plain_connections_must_be_allowed(nats):
    with Tool(type="nats", url=nats.url.replace("nats", "tls"), private=False) as tool:
        assert "the address is private" in tool.send(event())[0]["error"]
    with Tool(type="nats", url=nats.url, private=False) as tool:
        assert json.loads(tool.process.stdout.readline()) == {"field": "url"}


def test_a_login_by_credentials():
    """No stream is made: "no stream" says that the login was good."""

    def made():
        done = subprocess.run(["node", "nats_credentials.mjs"], cwd=JS, capture_output=True, text=True, timeout=WAIT_S)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ours, strange = made(), made()
    config = f"operator: {ours['operator']}\nresolver: MEMORY\nresolver_preload: {{ {ours['account']}: {ours['accountJwt']} }}\n"
    with Nats(config=config, jetstream=False) as server:
        for credentials, said in ((ours["credentials"], "no stream takes the subject s.user.created"), (strange["credentials"], "Authorization Violation")):
            with Tool(type="nats", url=server.url, subject="s", credentials=credentials) as tool:
                assert tool.send(event())[0]["error"] == said
