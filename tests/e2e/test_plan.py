"""gatehouse plan: what it prints, what it refuses; and that what calls cost is still what src/plan/units.yaml says."""

import json
import subprocess

import pytest

from conftest import ROOT, program

LOAD = ["--users", "10000", "--devices-per-user", "2", "--logins-per-day", "10000"]
ESTIMATE = ROOT / "packaging/examples/estimate.yaml"


def plan(*options):
    return subprocess.run([program(), "plan", *options], capture_output=True, text=True, timeout=60)


def planned(*options):
    done = plan(*options, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_figures_are_those_that_are_measured_now():
    """If this fails, calls read or write more or less than before: run tools/measure-units, and commit src/plan/units.yaml."""
    done = subprocess.run([ROOT / "tools/measure-units", "--check"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_plan_may_have_no_logins():
    found = planned("--users", "1000", "--devices-per-user", "2", "--logins-per-day", "0")
    assert found["per_day"]["sign_in"]["count"] == 0 and found["bytes"] > 0 and found["all_per_day"]["read_units"] > 0


def test_a_plan_adds_up():
    found = planned(*LOAD, "--pitr", "--kms")
    per_day = found["per_day"]
    assert per_day["sign_in"]["count"] == 9000 and per_day["failure"]["count"] == 1000
    for kind in ("read_units", "write_units"):
        assert sum(line[kind] for line in per_day.values()) == pytest.approx(found["all_per_day"][kind])
    assert sum(line["bytes"] for line in found["stored"].values()) == pytest.approx(found["bytes"])
    costs = found["usd_per_month"]
    for way in ("on_demand", "provisioned"):
        assert sum(costs[name][way] for name in costs if name != "all") == pytest.approx(costs["all"][way])
    assert costs["kms_key_month"]["on_demand"] == 1
    assert costs["pitr_gb_month"]["on_demand"] == pytest.approx(found["bytes"] / 1e9 * 0.2)
    assert costs["writes"]["on_demand"] == pytest.approx(found["all_per_day"]["write_units"] * 30 / 1e6 * 0.625)
    assert costs["all"]["unverified"] is True


def test_more_of_anything_costs_more():
    base = planned(*LOAD)["usd_per_month"]["all"]["on_demand"]
    for more in (["--second-factor-percent", "50"], ["--checks-per-login", "1"], ["--limits-per-login", "1"], ["--locks-per-day", "9"],
                 ["--new-users-per-day", "9"], ["--processes", "3"], ["--pitr"], ["--backups", "2"], ["--kms"],
                 ["--messages-per-day", "9"], ["--broadcast-messages-per-day", "900"], ["--targets", "1"], ["--consumers", "1"],
                 ["--stream-reads-per-day", "1000"], ["--device-lists-per-day", "100"], ["--failed-percent", "40"]):
        assert planned(*LOAD, *more)["usd_per_month"]["all"]["on_demand"] > base, more
    assert planned(*LOAD, "--new-users-per-day", "9", "--no-events")["bytes"] < planned(*LOAD, "--new-users-per-day", "9")["bytes"]


def test_push_targets_and_consumers_are_in_the_plan():
    found = planned(*LOAD, "--messages-per-day", "50", "--broadcast-messages-per-day", "400", "--targets", "2", "--consumers", "3", "--new-users-per-day", "10")["per_day"]
    assert [found[name]["count"] for name in ("message", "broadcast_message", "receipt", "event_delivered", "event_consumed", "target", "consumer")] == [50, 400, 450, 40, 60, 2, 3]
    assert all(found[name]["read_units"] > 0 for name in ("message", "broadcast_message", "event_delivered", "event_consumed"))
    text = plan(*LOAD, "--messages-per-day", "50", "--targets", "2").stdout
    assert "push messages to users" in text and "targets that wait" in text and "consumers" not in text


def test_rotations_of_a_kms_key_are_named_and_the_third_costs_nothing():
    costs = [planned(*LOAD, "--kms", "--kms-rotations", str(n))["usd_per_month"] for n in range(4)]
    assert [cost.get("kms_rotation_month", {"on_demand": 0})["on_demand"] for cost in costs] == [0, 1, 2, 2]
    assert "rotated yearly" in plan(*LOAD, "--kms").stdout
    assert "2 are charged" in plan(*LOAD, "--kms", "--kms-rotations", "5").stdout


def test_people_see_the_date_of_the_prices_and_what_is_unverified():
    text = plan(*LOAD).stdout
    assert "dated 2026-11-17" in text and "unverified" in text and "on demand" in text and "provisioned" in text


def test_an_estimate_is_right_but_for_point_in_time_recovery():
    """The document's own inputs and prices reproduce its figures; its PITR is ten times too high, and the output says so."""
    region = ["--region", "us-east-1-before-2024-11"]
    found = planned("--compare-with", ESTIMATE, *region)
    assert {name for name, verdict in found.items() if not verdict["right"]} == {"pitr_usd_per_month"}
    assert found["write_usd_per_day"]["computed"] == pytest.approx(0.0125)
    assert found["read_usd_per_day"]["computed"] == pytest.approx(0.025)
    assert found["usd_per_month"]["computed"] == pytest.approx(1.125 + 0.0025)
    assert found["pitr_usd_per_month"]["computed"] == pytest.approx(0.002)
    text = plan("--compare-with", ESTIMATE, *region).stdout
    assert "10 times too high" in text and text.count("right\n") == 6
    now = planned("--compare-with", ESTIMATE)  # prices of today: half
    assert now["write_usd_per_day"]["times"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--users: missing: how many accounts?"),
        (["--users", "5"], "--logins-per-day: missing: how many sign-ins"),
        (["--users", "0", "--logins-per-day", "1"], '--users: "0" is not a whole number from 1 to 1000000000'),
        (["--users", "1000000001", "--logins-per-day", "1"], '--users: "1000000001" is not a whole number from 1 to 1000000000'),
        ([*LOAD, "--peak-factor", "0"], '--peak-factor: "0" is not a whole number from 1 to 1000'),
        ([*LOAD, "--utilisation-percent", "101"], '--utilisation-percent: "101" is not a whole number from 1 to 100'),
        ([*LOAD, "--kms-rotations", "1"], "--kms-rotations: only valid with --kms"),
        ([*LOAD, "--region", "moon"], '--region: no prices for "moon"; there are prices for us-east-1, us-east-1-before-2024-11'),
        ([*LOAD, "--prices", "/nonexistent"], "--prices: /nonexistent: No such file or directory"),
        (["--compare-with", "/nonexistent"], "--compare-with: /nonexistent: No such file or directory"),
        ([*LOAD, "--user", "3"], "did you mean --users?"),
    ],
)
def test_bad_input_names_the_option(options, said):
    done = plan(*options)
    assert done.returncode == 2 and said in done.stderr and done.stdout == ""


def test_prices_of_your_own(tmp_path):
    shipped = (ROOT / "src/plan/prices.yaml").read_text()
    mine = tmp_path / "prices.yaml"
    mine.write_text(shipped.replace("us-east-1:", "mine:").replace("unverified: true, ", "").replace("usd: 0.625", "usd: 6.25"))
    found = planned(*LOAD, "--prices", mine, "--region", "mine")
    assert found["usd_per_month"]["all"]["unverified"] is False
    assert found["usd_per_month"]["writes"]["on_demand"] == pytest.approx(10 * planned(*LOAD)["usd_per_month"]["writes"]["on_demand"])
    mine.write_text(shipped.replace("usd: 0.625", "usd: many"))
    done = plan(*LOAD, "--prices", mine)
    assert done.returncode == 2 and "--prices: line 7: regions.us-east-1.write_per_million.usd: must be a number" in done.stderr
    mine.write_text("x" * 100001)
    assert "must have at most 100000 bytes" in plan(*LOAD, "--prices", mine).stderr
