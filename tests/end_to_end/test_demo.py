"""``ragmon demo`` as a newcomer runs it: a day, two incidents, the report, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.support.llm_server import serving
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end
QUERIES = 1200


@pytest.fixture
def demo(tmp_path):
    """Starts it with flags, in a session of its own as a terminal would; output goes to a file."""
    started = []

    def start(*flags):
        output = tmp_path / "output"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "ragmon", "demo", "--port", "0", "--queries", str(QUERIES),
                 *flags],
                stdout=file, stderr=subprocess.STDOUT, cwd=tmp_path, start_new_session=True,
                env={**os.environ, "COLUMNS": "120", "TMPDIR": str(tmp_path)},
            )  # fmt: skip
        started.append(process)
        return process, output

    yield start
    for process in started:
        process.kill()
        process.wait()


def rows(text: str) -> dict[str, list[float | None]]:
    """The table of what happened, in percent: error, zero, hit@3, attribution, grounding, liked."""
    found = re.findall(r"^ ?[0-9:]{5}–\S+ +(\S.*?\S)  +([0-9.–][0-9. –%]+)$", text, re.MULTILINE)
    return {
        what: [None if cell == "–" else float(cell) for cell in cells.replace(" %", "").split()]
        for what, cells in found
    }


def test_it_tells_the_day_in_numbers_and_ends(demo, tmp_path):
    process, output = demo("--once")
    assert process.wait(60) == 0
    text = output.read_text()
    assert f"{QUERIES:,} queries in the last 24h" in text
    assert "zero-result rate of python-docs" in text
    assert "RagmonZeroResults, critical, resolved" in text
    assert [line for line in text.splitlines() if line.startswith("{")] == []  # no log as JSON
    told = rows(text)
    assert told.keys() == {"before", "index outage", "2026.1", "2026.2-fast"}
    assert told["index outage"][1] == 100.0  # every query of it retrieved nothing
    assert told["before"][1] < 20.0
    assert told["2026.2-fast"][2] < told["2026.1"][2]
    assert told["2026.2-fast"][4] < told["2026.1"][4]  # the embedded judge has read them
    assert list(tmp_path.glob("ragmon-demo-*")) == []


def test_ctrl_c_ends_it_cleanly(demo, tmp_path):
    process, output = demo()
    eventually(lambda: "Ctrl-C stops it" in output.read_text(), "the report is printed")
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: also to the judge's process
    assert process.wait(10) == 0
    assert output.read_text().rstrip().endswith("Ctrl-C stops it.")
    assert list(tmp_path.glob("ragmon-demo-*")) == []


def test_it_ends_when_nobody_reads_on(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [sys.executable, "-m", "ragmon", "demo", "--port", "0", "--queries", "300"],
        stdout=writer, stderr=subprocess.DEVNULL, cwd=tmp_path, start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    os.close(writer)
    try:
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.glob("ragmon-demo-*")) == []


def test_a_language_model_judges_a_sample_where_one_is_configured(demo, monkeypatch):
    with serving() as llm:
        monkeypatch.setenv("RAGMON_JUDGE__LLM__BASE_URL", llm.url)
        process, output = demo("--once")
        assert process.wait(90) == 0
        judged = {chat.task for chat in llm.chats}
    assert judged == {"extract", "verify", "rubric", "useful"}
    text = output.read_text()
    (row,) = re.findall(
        r"^ ?faithfulness/llm +([0-9.]+) % +([0-9.]+) – ([0-9.]+) % +(\d+)", text, re.MULTILINE
    )
    estimate, lower, upper, samples = map(float, row)
    assert 0 < lower < estimate < upper <= 100
    assert samples >= 90
    assert re.search(r"^ ?hit@3/judge ", text, re.MULTILINE)
