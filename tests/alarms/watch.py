"""A real Prometheus with the shipped rules, thirty times as fast: each window, `for` and threshold in seconds is a thirtieth, and it scrapes every half second
instead of every 15. Shares and counts stay as they are."""

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import yaml

from helpers import free_port

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "packaging" / "prometheus"
SCALE = 30
UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000}
# thresholds that are seconds: of a gauge of seconds, or of a time that has passed
SECONDS = re.compile(r"((?:_seconds\w*\)?(?:\[\w+\]\)+)?|_seconds\), \"reader\", \"\$1\", \"\w+\", \"\(\.\+\)\"\)) [<>] )(\d+)")


def shorter(match):
    return f"{int(match[1]) * UNITS_MS[match[2]] // SCALE}ms"


def fast(rule):
    """The rule, a thirtieth as long."""
    expression = re.sub(r"(?<=\[)(\d+)([smh])(?=\])", shorter, rule["expr"])
    expression = re.sub(r"(?<=offset )(\d+)([smh])", shorter, expression)
    expression = SECONDS.sub(lambda match: f"{match[1]}{int(match[2]) / SCALE:g}", expression)
    changed = {**rule, "expr": expression}
    if "for" in rule:
        changed["for"] = re.sub(r"(\d+)([smh])", shorter, rule["for"])
    return changed


def alarms():
    return [rule for group in yaml.safe_load((RULES / "gatehouse.rules.yml").read_text())["groups"] for rule in group["rules"]]


class Prometheus:
    """`targets`: name of an instance -> host:port"""

    def __init__(self, targets):
        self.folder = Path(tempfile.mkdtemp(prefix="gatehouse-alarms-"))
        (self.folder / "rules.yml").write_text(yaml.dump({"groups": [{"name": "gatehouse", "rules": [fast(rule) for rule in alarms()]}]}, width=1000))
        jobs = {"job_name": "gatehouse", "static_configs": [{"targets": [at], "labels": {"instance": name}} for name, at in targets.items()]}
        settings = {"global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"}, "rule_files": ["rules.yml"], "scrape_configs": [jobs]}
        (self.folder / "prometheus.yml").write_text(yaml.dump(settings))
        self.address = f"127.0.0.1:{free_port()}"
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(["/usr/bin/prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                                         f"--web.listen-address={self.address}", "--log.level=warn"], stdout=self.log, stderr=self.log)  # fmt: skip
        self.wait()
        while (self.value("sum(up)") or 0) < len(targets) or self.ask("query", query='ALERTS{alertname="GatehouseDown"}'):  # before its first scrape, no server is up
            time.sleep(0.1)
        self.began_s = time.time()

    def wait(self):
        for _ in range(300):
            try:
                if urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5).status == 200:
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def ask(self, path, **query):
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return json.load(answer)["data"]["result"]

    def value(self, expression):
        result = self.ask("query", query=expression)
        return float(result[0]["value"][1]) if result else None

    def fired(self):
        """{alarm: the labels it fired with}, since the start."""
        rows = self.ask("query", query=f'max_over_time(ALERTS{{alertstate="firing"}}[{int((time.time() - self.began_s) * 1000)}ms])')
        labels = [row["metric"] for row in rows]
        return {each["alertname"]: {k: v for k, v in each.items() if k not in ("__name__", "alertname", "alertstate", "job", "severity")} for each in labels}

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
