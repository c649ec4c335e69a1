"""An hour of normal traffic in two minutes, at a small site (10 sign-ins a minute) and at a larger one (600 a minute), on real servers. What is daily life is in it: one
in eight passwords is wrong, a few people lock themselves out and try on, tokens expire, bots send rubbish, apps ask for devices that are not there, a client sends
a wrong field now and then, messages go to phones without the app. The clock of the servers is the real one: locks hold for 15 real minutes, longer than all of this."""

import json
import random
import re
import threading
import time
from pathlib import Path

import yaml

from test_users import ok
from v1 import V1, Server, attempt
from watch import RULES, SCALE, alarms

HOUR_S = 3600
SAMPLES = 60  # of the recording: one a minute
LANES = 6


class Site:
    def __init__(self, name, per_minute, users, issuer, expo, folder):
        self.name, self.per_minute, self.users, self.issuer, self.expo = name, per_minute, users, issuer, expo
        self.wrong = []
        identity = Path(folder, f"{name}.yaml")
        identity.write_text(json.dumps({"issuers": [issuer.entry()], "push": {"url": expo.url, "allow_private": True}}))
        self.server = Server("--metrics-ms", "100", "--identity", str(identity))
        self.address = self.server.endpoint.removeprefix("http://")
        self.tokens = {"valid": issuer.token(), "expired": issuer.token(exp=int(time.time()) - 600, iat=int(time.time()) - 1200)}
        for i in range(30):
            name = f"phone-{i}"
            ok(self.server, "PUT", f"/v1/users/{name}/devices/d", {"platform": "ios", "expoPushToken": f"ExponentPushToken[{self.name}-{i}]"})
            if i % 10 == 0:
                expo.dead.add(f"ExponentPushToken[{self.name}-{i}]")

    def run(self, seconds):
        lanes = LANES if self.per_minute > 100 else 1
        rate = self.per_minute / 60 * SCALE / lanes
        threads = [threading.Thread(target=self.lane, args=(i, rate, time.monotonic() + seconds)) for i in range(lanes)]
        for thread in threads:
            thread.start()
        return threads

    def lane(self, number, rate, end):
        chance, wire, at = random.Random(f"{self.name}-{number}"), V1(self.server.endpoint), time.monotonic()
        try:
            while at < end:
                time.sleep(max(0, at - time.monotonic()))
                self.sign_in(chance, wire)
                at += chance.expovariate(rate)
        except Exception as error:  # a thread's own would be lost
            self.wrong.append(error)
        wire.close()

    def sign_in(self, chance, wire):
        subject, ip = f"user-{chance.randrange(self.users)}", f"10.{chance.randrange(200)}.{chance.randrange(250)}.{chance.randrange(250)}"
        context = {"context": {"ip": ip}}
        if chance.random() < 0.12:
            wire.record(subject, **context)
        if chance.random() < 0.003:  # has forgotten it, then remembers, too late
            wire.record(subject, times=7, **context)
        wire.record(subject, outcome="success", **context)
        if chance.random() < 0.3:
            wire.record(subject, "MFA_CODE_ENTRY", outcome="success", method_id="phone-1")
        if chance.random() < 0.5:
            kind = chance.random()
            token = "rubbish" if kind < 0.02 else self.tokens["expired" if kind < 0.1 else "valid"]
            wire.post("/v1/tokens/verify", {"token": token})
        if chance.random() < 0.05:
            wire.send("GET", f"/v1/users/{subject}/devices/none")
        if chance.random() < 0.006:
            wire.attempts({"subject": subject})
        if chance.random() < 0.02:
            wire.post(f"/v1/users/phone-{chance.randrange(30)}/notify", {"title": "Hello", "body": "There is news"})

    def scrape(self):
        wire = V1(self.server.endpoint)
        text = wire.send("GET", "/metrics").body.decode()
        wire.close()
        return {series: value for series, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}

    def close(self):
        self.server.close()


def record(sites, seconds):
    """{site: [what /metrics said, each simulated minute]}"""
    began, seen = time.monotonic(), {site.name: [] for site in sites}
    for i in range(SAMPLES + 1):
        time.sleep(max(0, began + i * seconds / SAMPLES - time.monotonic()))
        for site in sites:
            seen[site.name].append(site.scrape())
    return seen


# ---- the recording, for promtool ----


def compact(values):
    """As promtool writes series: runs are `3x7`."""
    out, i = [], 0
    while i < len(values):
        run = 1
        while i + run < len(values) and values[i + run] == values[i]:
            run += 1
        out += [f"{values[i]}x{run - 1}"] if run > 3 else [values[i]] * run
        i += run
    return " ".join(out)


def families():
    return set(re.findall(r"\b(?:gatehouse|process)_[a-z_]+", " ".join(rule["expr"] for rule in alarms())))


def kept(samples):
    """Series that the rules look at: those that are not always 0, and of each metric at least one."""
    wanted, zeros = families(), set()
    for series in samples[-1]:
        name = series.partition("{")[0]
        if name not in wanted:
            continue
        if all(sample.get(series, "0") == "0" for sample in samples):
            if name in zeros:
                continue
            zeros.add(name)
        yield series


def write(seen, path):
    series = [{"series": f'up{{job="gatehouse",instance="{site}"}}', "values": f"1x{SAMPLES}"} for site in seen]
    for site, samples in seen.items():
        for each in kept(samples):
            name, _, labels = each.partition("{")
            where = f'job="gatehouse",instance="{site}"' + ("," + labels.removesuffix("}") if labels else "")
            absent = [sample.get(each, "_") for sample in samples]
            series.append({"series": f"{name}{{{where}}}", "values": compact(absent)})
    cases = [{"eval_time": f"{minute}m", "alertname": rule["alert"], "exp_alerts": []} for rule in alarms() for minute in range(5, SAMPLES + 1, 5)]
    head = ("# Recorded by tests/alarms/run --record from two real servers under generated traffic (tests/alarms/normal.py): an hour of a small and of a larger site,\n"
            "# in two minutes. No alarm fires. Do not edit: record it again.\n")
    text = yaml.dump({"rule_files": ["gatehouse.rules.yml"], "evaluation_interval": "1m",
                      "tests": [{"name": "an hour of normal traffic", "interval": "1m", "input_series": series, "alert_rule_test": cases}]}, width=100000, sort_keys=False)  # fmt: skip
    Path(path or RULES / "normal-hour.test.yml").write_text(head + text)
