"""Shows that bench/plot draws every figure that bench/growth measured."""
import json
import pathlib
import subprocess
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIDES = ("gatehouse-growth", "redis-growth")


def step(subjects, value):
    one = dict.fromkeys(("requests_per_s", "cpu_us", "p50_us", "p99_us", "max_ms", "written_bytes"), value)
    both = dict.fromkeys(SIDES, one)
    return {"subjects": subjects, **dict.fromkeys(("new", "known", "second_factor", "get", "query"), both),
            **dict.fromkeys(("rss_mb", "stored_bytes", "ready_s"), dict.fromkeys(SIDES, value))}


def test_each_figure_is_in_its_picture(tmp_path):
    (tmp_path / "growth.json").write_text(json.dumps({"sizes": [step(10000, 123), step(1000000, 456)]}))
    subprocess.run([str(ROOT / "bench" / "plot"), str(tmp_path / "growth.json"), str(tmp_path / "out")], check=True)
    pictures = sorted(tmp_path.glob("out/*.svg"))
    assert len(pictures) == 10
    for picture in pictures:
        texts = [t.text for t in xml.etree.ElementTree.parse(picture).getroot().iter("{http://www.w3.org/2000/svg}text")]
        assert {"123", "456", "10k", "1M", "subjects"} <= set(texts)
