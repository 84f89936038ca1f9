"""Kept inputs hold, the engine finds what is planted, and a short campaign finds nothing new."""

import base64
import importlib.util
import os
import time
from pathlib import Path

import pytest

from tests.fuzz import campaign, corpora, mutations, wire_tree
from tests.fuzz.guard import HungryInputError, SlowInputError, guarded
from tests.fuzz.source import Source

IN_CI = os.environ.get("CI") == "true"
MUTATED = 400  # inputs of each target, besides those of the engine
IN_A_CAMPAIGN = {  # half a minute of each
    "blocks": 18_000,
    "changes": 10_000,
    "jsonl": 4_000,
    "logs": 40_000,
    "otlp_json": 8_000,
    "otlp_protobuf": 7_000,
    "queries": 5_500,
    "requests": 9_500,
    "scores": 130_000,
    "settings": 2_500,
    "snapshots": 2_500,
    "spool": 20_000,
    "store_files": 1_500,
    "texts": 45_000,
}


def test_the_targets_are_found():
    assert {"queries", "changes", "otlp_json", "otlp_protobuf", "blocks"} <= set(corpora.TARGETS)
    assert len(corpora.TARGETS) >= 14


@pytest.mark.parametrize("name", corpora.TARGETS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # damaged numbers overflow
def test_kept_inputs_hold(name):
    run = guarded(corpora.target(name).run)
    every = corpora.inputs(name)
    assert len(every) > 3
    try:
        for data in every:
            run(data)
    finally:
        getattr(corpora.target(name), "close", lambda: None)()


def test_kept_inputs_are_few_bytes():
    sizes = [path.stat().st_size for path in corpora.ARCHIVES.glob("*.zip")]
    assert len(sizes) == len(corpora.TARGETS)
    assert sum(sizes) < 1_500_000


def engine() -> None:
    if importlib.util.find_spec("atheris") is None:
        missing = "atheris has no wheel for this platform"
        if IN_CI:
            pytest.fail(missing)
        pytest.skip(missing)


@pytest.mark.parametrize("name", corpora.TARGETS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_changed_inputs_hold(name):
    """Each run takes the same inputs; those of chance are for ``make fuzz``."""
    run = guarded(corpora.target(name).run)
    try:
        for data in mutations.mutated(name, corpora.inputs(name), MUTATED):
            try:
                run(data)
            except Exception as error:
                error.add_note(f"again: base64 {base64.b64encode(data).decode()}")
                raise
    finally:
        getattr(corpora.target(name), "close", lambda: None)()


def test_changed_inputs_are_the_same_each_time_and_differ():
    once = list(mutations.mutated("scores", corpora.inputs("scores"), 50))
    assert once == list(mutations.mutated("scores", corpora.inputs("scores"), 50))
    assert len(set(once)) > 40


@pytest.mark.end_to_end
@pytest.mark.flaky(reruns=0)  # it would find the same again
@pytest.mark.skipif(not IN_CI, reason="takes minutes: make fuzz, or CI=true")
@pytest.mark.parametrize("name", corpora.TARGETS)
def test_a_campaign_finds_nothing(name, tmp_path):
    """The engine with a seed: a change is judged by the same inputs wherever it is tried."""
    engine()
    outcome = campaign.fuzz_one(name, campaign.repeatable(IN_A_CAMPAIGN[name]), tmp_path)
    print("\n" + campaign.table([outcome]))
    assert outcome.finding == ""
    assert outcome.covered > 20


@pytest.mark.end_to_end
def test_a_planted_defect_is_found(tmp_path):
    engine()
    outcome = campaign.fuzz_one("planted", campaign.repeatable(1_000_000), tmp_path)
    assert "PlantedError" in outcome.finding
    assert outcome.artifact is not None
    assert outcome.artifact.read_bytes().startswith(b"boom")
    assert outcome.inputs > 1


def test_slow_and_hungry_inputs_are_refused():
    def spend(data: bytes) -> None:
        if data == b"slow":
            started = time.process_time()
            while time.process_time() - started < 0.05:
                pass
        if data == b"hungry":
            bytearray(b"x") * (800 << 20)

    check = guarded(spend, most_s=0.02)
    check(b"slow")  # the first fills caches
    check(b"quick")
    with pytest.raises(SlowInputError):
        check(b"slow")
    check = guarded(spend, most_bytes=32 << 20)
    check(b"slow")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak of others
    with pytest.raises(HungryInputError):
        check(b"hungry")


def test_bytes_are_choices_and_run_out_as_the_first():
    source = Source(b"\x05\xff\x01\x02abc")
    assert source.choose("xyz") == "z"
    assert source.chance(1)
    assert source.number(2) == 0x0102
    assert source.take(2) == b"ab"
    assert source.rest() == b"c"
    assert not source
    assert (source.byte(), source.below(9), source.chance(255), source.text()) == (0, 0, False, "")
    assert source.several(3, lambda: 1) == []


def test_a_mutated_message_keeps_its_lengths():
    from tests.fuzz.otlp import length_delimited

    inner = length_delimited(1, b"abcdef")
    body = length_delimited(2, inner) + length_delimited(3, b"x")

    class Chance:
        """Goes down into the first field and changes its leaf."""

        def randrange(self, *_):
            return 0

        def random(self):
            return 0.5

    mutated = wire_tree.mutated(body, Chance(), lambda data: data + b"!!")
    assert mutated == length_delimited(2, length_delimited(1, b"abcdef!!")) + length_delimited(
        3, b"x"
    )


def test_an_archive_holds_the_smallest_inputs_and_depends_on_them_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "ARCHIVES", tmp_path)
    monkeypatch.setattr(corpora, "MOST_BYTES", 300)
    assert corpora.keep("x", [b"bb", b"a", b"c" * 200]) == 2
    first = (tmp_path / "x.zip").read_bytes()
    assert corpora.kept("x") == [b"a", b"bb"]
    corpora.keep("x", [b"c" * 200, b"a", b"bb", b"a"])
    assert (tmp_path / "x.zip").read_bytes() == first
