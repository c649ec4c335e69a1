"""The shipped alarms: promtool proves each at its threshold, on made and on recorded series; each has a case in which it fires and one in which it does
not; each says what to do; and what they name exists. `make test-alarms` (tests/alarms) provokes them on a real server, with a real Prometheus.
"""
import re
import subprocess

import pytest
import yaml

from conftest import ROOT
from test_metrics import RULES, Watched

pytestmark = pytest.mark.gatehouse_only

PROMTOOL = "/usr/bin/promtool"
ALARMS = {rule["alert"]: rule for group in yaml.safe_load((RULES / "gatehouse.rules.yml").read_text())["groups"] for rule in group["rules"]}
TESTS = yaml.safe_load((RULES / "gatehouse.test.yml").read_text())["tests"]
# Of these there is one series for each issuer, target or consumer: it is there from the first scrape after they are.
LATER = {"gatehouse_token_keys", "gatehouse_token_key_age_seconds", "gatehouse_token_long_lived", "gatehouse_consumer_lag_seconds", "gatehouse_target_state",
         "gatehouse_target_lag_seconds", "gatehouse_target_dead_letters", "gatehouse_target_skipped_total"}  # fmt: skip
THEIRS = {"up"}  # Prometheus's own


def promtool(action, file):
    return subprocess.run([PROMTOOL, action, "rules", file], cwd=RULES, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("action, file", [("check", "gatehouse.rules.yml"), ("test", "gatehouse.test.yml"), ("test", "normal-hour.test.yml")])
def test_promtool_proves_the_alarms(action, file):
    done = promtool(action, file)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- no alarm without a case in which it fires, and one in which it does not ----


def names_in(expression):
    return set(re.findall(r"\b(?:gatehouse|process)_[a-z_]+|\bup\b", expression))


def cases():
    """(alarm, does it fire, the metrics that the case has)"""
    for test in TESTS:
        metrics = {re.match(r"\w+", each["series"])[0] for each in test["input_series"]}
        for case in test["alert_rule_test"]:
            yield case["alertname"], bool(case.get("exp_alerts")), metrics


def test_each_alarm_has_a_case_in_which_it_fires_and_one_in_which_it_does_not():
    fires = {alarm for alarm, fires, _ in cases() if fires}
    # Without the metrics that it looks at, an alarm is always silent.
    silent = {alarm for alarm, fires, metrics in cases() if not fires and names_in(ALARMS[alarm]["expr"]) & metrics}
    assert (set(ALARMS) - fires, set(ALARMS) - silent) == (set(), set())
    assert fires | silent == set(ALARMS), "a case names an alarm that does not exist"


# ---- the recorded hour ----


def last_of(values):
    """promtool's `4 5x3` ends with 5."""
    return float(values.split(" ")[-1].partition("x")[0])


def test_the_recorded_hour_has_what_is_daily_life():
    (hour,) = yaml.safe_load((RULES / "normal-hour.test.yml").read_text())["tests"]
    last = {each["series"]: last_of(each["values"]) for each in hour["input_series"]}

    def total(metric, *labels):
        return sum(value for series, value in last.items() if series.startswith(metric + "{") and all(label in series for label in labels))

    for site, sign_ins in (("small", 500), ("large", 30_000)):
        name = f'instance="{site}"'
        assert total("gatehouse_attempts_total", name, 'outcome="success"') > sign_ins
        assert total("gatehouse_attempts_total", name, 'outcome="failure"') > sign_ins / 20
        assert total("gatehouse_locks_set_total", name) > 0 and total("gatehouse_attempts_total", name, 'refused="true"') > 0
        assert total("gatehouse_tokens_total", name, 'outcome="expired"') > 0 and total("gatehouse_tokens_total", name, 'outcome="malformed"') > 0
        assert total("gatehouse_errors_total", name, 'status="404"') > 10 and total("gatehouse_errors_total", name, 'status="422"') > 0
        assert total("gatehouse_push_errors_total", name, 'code="DeviceNotRegistered"') > 0
    tested = {case["alertname"] for case in hour["alert_rule_test"] if case["exp_alerts"] == []}
    assert tested == set(ALARMS) and len(hour["alert_rule_test"]) == len(ALARMS) * 12


# ---- what they say ----


def anchors(page):
    titles = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_each_alarm_says_how_grave_it_is_what_to_do_first_and_where_to_read_on():
    for name, alarm in ALARMS.items():
        assert alarm["labels"]["severity"] in ("critical", "warning", "info"), name
        assert set(alarm["annotations"]) == {"summary", "description", "runbook"}, name
        page, _, anchor = alarm["annotations"]["runbook"].partition("#")
        assert anchor in anchors(page), (name, alarm["annotations"]["runbook"])


def test_the_pages_say_what_to_do_about_each_alarm():
    assert len(ALARMS) > 30
    for page in (RULES / "README.md", ROOT / "docs" / "operations.md"):
        rows = re.findall(r"^\| (Gatehouse\w+) \|", page.read_text(), re.M)
        assert sorted(rows) == sorted(ALARMS), page


# ---- what they name ----


@pytest.fixture
def scraped():
    server = Watched("--no-auth")
    yield server.scrape()
    server.close()


def selectors():
    for alarm in ALARMS.values():
        for name, _, labels in re.findall(r"\b((?:gatehouse|process)_[a-z_]+|up)\b(\{([^}]*)\})?", alarm["expr"]):
            yield name, re.findall(r'(\w+)(=~|!~|=|!=)"([^"]*)"', labels)


def test_the_alarms_look_at_series_that_are_there_from_the_first_scrape_on(scraped):
    """increase() of a new series is 0: the first errors would be silent."""
    series = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? ", scraped, re.M):
        series.setdefault(name, []).append(dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)))
    named = {name for name, _ in selectors()} - THEIRS
    assert {"gatehouse_errors_total", "gatehouse_attempts_total", "process_start_time_seconds"} <= named
    for name, matchers in selectors():
        if name in THEIRS | LATER:
            assert name in THEIRS or f"# TYPE {name} " in scraped, name
            continue
        for label, _, wanted in matchers:
            values = {each.get(label) for each in series[name]} | ({"gatehouse"} if label == "job" else set())
            for each in wanted.split("|"):
                assert any(re.fullmatch(each, value) for value in values if value), (name, label, each)
        if name == "gatehouse_requests_total":  # of calls under /v1, errors of callers come later: only sums over all of it may be taken
            assert all(label == "operation" for label, _, _ in matchers)
