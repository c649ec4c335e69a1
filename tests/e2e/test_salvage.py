"""`gatehouse salvage` on the command line: what a start refuses is named, and dropped only when told to."""
import json
import re
import signal

import pytest

from test_sealed import data, run, start, start_and_stop  # noqa: F401: data is a fixture

pytestmark = pytest.mark.gatehouse_only


def segments(directory):
    return sorted((directory / "journal").glob("*.log"))


def killed(directory):
    """Leaves some commits in the journal only."""
    process, _ = start(directory, "--no-auth")
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_a_bit_in_unused_zeros_is_named_dropped_when_told_to_and_kept_aside(data):
    killed(data)
    victim = segments(data)[-1]
    good = victim.read_bytes()
    victim.write_bytes(good[:-600] + b"\x10" + good[-599:])
    refused = run("serve", "--listen", "127.0.0.1:0", "--data", str(data))
    assert refused.returncode == 1 and victim.name in refused.stderr and "gatehouse salvage" in refused.stderr
    assert run("check", "--data", str(data)).returncode == 1
    told = run("salvage", "--data", str(data))
    assert told.returncode == 1, told
    assert "no commit is known to be lost" in told.stdout and "nothing was changed" in told.stdout
    assert re.search(rf"drop .*{victim.name} from byte \d+: 512 bytes in sectors that belong to no commit", told.stdout), told.stdout
    done = run("salvage", "--data", str(data), "--drop")
    assert done.returncode == 0, done
    (aside,) = data.glob("salvaged-*")
    assert (aside / victim.name).read_bytes() == good[:-600] + b"\x10" + good[-599:]
    assert "data.salvage" in (data / "audit.log").read_text()
    assert run("check", "--data", str(data)).returncode == 0
    assert run("salvage", "--data", str(data)).stdout.endswith("nothing to drop\n")
    start_and_stop(data)


def test_a_newest_segment_that_is_gone_is_refused_and_salvaged(data):
    killed(data)
    segments(data)[-1].unlink()
    refused = run("serve", "--listen", "127.0.0.1:0", "--data", str(data))
    assert refused.returncode == 1 and "of the journal is missing" in refused.stderr
    assert "of the journal is missing" in run("check", "--data", str(data)).stderr
    assert "is missing" in run("salvage", "--data", str(data)).stdout
    assert run("salvage", "--data", str(data), "--drop").returncode == 0
    assert run("check", "--data", str(data)).returncode == 0
    start_and_stop(data)


def test_a_lost_key_of_identifiers_is_made_anew_only_when_told_to(data):
    (data / "identifiers.key").unlink()
    told = run("salvage", "--data", str(data))
    assert told.returncode == 1 and "emails, phones, addresses and devices can no longer be found" in told.stdout
    assert run("serve", "--listen", "127.0.0.1:0", "--data", str(data)).returncode == 1
    assert run("salvage", "--data", str(data), "--drop").returncode == 0
    start_and_stop(data)
    assert run("check", "--data", str(data)).returncode == 0


def test_damaged_keys_are_kept_aside_and_the_next_start_makes_an_administrator(data):
    damaged = (data / "keys.json").read_bytes().replace(b"administrator", b"aeministrator")
    (data / "keys.json").write_bytes(damaged)
    assert "all access keys are gone" in run("salvage", "--data", str(data), "--drop").stdout
    assert next(data.glob("salvaged-*/keys.json")).read_bytes() == damaged
    start_and_stop(data)
    assert [key["name"] for key in json.loads((data / "keys.json").read_text())["keys"]] == ["administrator"]
