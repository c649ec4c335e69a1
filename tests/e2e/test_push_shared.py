"""Push messages of several processes that share their tables at a DynamoDB endpoint (another server of ours): Expo's limit is per project, so `rate` is what all
of them send together."""

import os
import threading
from unittest import mock

import pytest

from expo import Expo
from pusher import Pusher, eventually, notify, register
from test_engine_dynamodb import environment, give_key
from v1 import V1, Server

pytestmark = pytest.mark.gatehouse_only
RATE = 200
BURST = 100  # one call: it may be sent at once, beyond the rate
DEVICES = 20
SLACK_S = 0.3  # between a permit and its arrival here: the machine is busy


class Sharer(Pusher):
    """One process of several: its tables are at `url`."""

    def __init__(self, url, expo, **settings):
        self.url = url
        super().__init__(expo, "--engine", "dynamodb", "--table-prefix", "shared-", **settings)  # the endpoint has tables of its own

    def start(self):
        give_key(self.data)
        with mock.patch.dict(os.environ, environment(self.url, AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any")):
            super().start()


@pytest.fixture(scope="module")
def endpoint():
    made = Server()
    yield made.endpoint
    made.close()


@pytest.fixture(scope="module")
def gateway():
    made = Expo()
    made.keep = False
    yield made
    made.close()


@pytest.fixture(scope="module")
def processes(endpoint, gateway):
    made = [Sharer(endpoint, gateway, rate=RATE) for _ in range(3)]
    for i in range(DEVICES):
        register(made[0], "user", f"d{i}")
    yield made
    for each in made:
        each.close()


def notify_often(server, times):
    """So many calls, each with DEVICES messages, on a connection of its own."""
    made = type("", (), {"v1": V1(server.endpoint)})
    for _ in range(times):
        notify(made, "user")
    made.v1.close()


def all_notify(servers, times):
    workers = [threading.Thread(target=notify_often, args=(each, times)) for each in servers]
    for each in workers:
        each.start()
    for each in workers:
        each.join()


def sent_by(gateway, first=0):
    return sum(count for _, count in gateway.times[first:])


def most_beyond(times):
    """The most messages of any stretch of time, less what the rate allows for it."""
    worst = 0
    for i, (since, _) in enumerate(times):
        total = 0
        for now, count in times[i:]:
            total += count
            worst = max(worst, total - RATE * (now - since))
    return worst


def test_processes_together_send_no_more_than_the_rate(processes, gateway):
    gateway.times.clear()
    all_notify(processes, 15)
    eventually(lambda: sent_by(gateway) == 3 * 15 * DEVICES)
    assert most_beyond(gateway.times) <= BURST + RATE * SLACK_S
    took_s = gateway.times[-1][0] - gateway.times[0][0]
    assert took_s <= 2 * (3 * 15 * DEVICES - BURST) / RATE  # and the rate is used


def test_one_process_alone_gets_all_of_it_and_what_a_killed_one_had_returns(processes, gateway):
    killed, left = processes[1], processes[0]
    gateway.times.clear()
    all_notify(processes[:2], 10)
    eventually(lambda: sent_by(gateway) >= 100)
    killed.kill()
    first = len(gateway.times)
    notify_often(left, 15)
    eventually(lambda: sent_by(gateway, first) >= 15 * DEVICES)
    after = gateway.times[first:]
    assert most_beyond(gateway.times) <= BURST + RATE * SLACK_S
    assert sent_by(gateway, first) / (after[-1][0] - after[0][0]) >= RATE / 2  # a busy machine; a share of a third, or none at all, would be less
    killed.start()
