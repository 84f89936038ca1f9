"""Calibrations of a reading judge's score: one a pipeline, learned from its own labels.

Labels of people count, where there are enough; else the verdicts of the sampled judge, weighed by
their draw. A calibration applies to the scores still to come: what was scored stays as it was
counted, and every verdict names the version it was read by. Examples that would make a worse judge
are refused, and a calibration is withdrawn when newer examples do not bear it out.

Labels of people also say from which score on answers are marked grounded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from ragmon.judges import grounding
from ragmon.judges.grounding import Calibration
from ragmon.judges.grounding.fitting import LEAST, CalibrationExample, Refusal, fit, marking
from ragmon.records import ONLY_SHARD, Amendments, Verdict, shard_of
from ragmon.signals import SignalOptions
from ragmon.signals.evidence import EMBEDDED_JUDGE, SAMPLED_JUDGE, human_score, verdict_of
from ragmon.stats.precision_bound import PrecisionBound
from ragmon.stores import Reader, amendments
from ragmon.windows.observations import unpack

NAME = "judge.calibrations"
"""Name under which the store keeps them."""

_SIGNALS = SignalOptions()
_MOST = 500  # newest answers of a pipeline that are learned from
_GROWTH = 1.25  # times as many labels are worth another version
MOST_PIPELINES = 50  # looked at in one turn

REASONS: dict[Refusal, str] = {
    "few": "a few heavily weighted examples outweigh all others",
    "one_kind": "fewer than five faithful or fewer than five unfaithful examples",
    "unrelated": "the judge's score does not reliably rise with these labels",
    "no_gain": "held-out examples are read worse than by the shipped calibration",
}
"""Words for a refusal."""

Teacher = Literal["people", "llm"]


class SavedCalibrations(Struct, frozen=True):
    """A pipeline's calibration, or the reason why there is none."""

    version: int  # of the calibration; 0 before the first
    teacher: Teacher
    examples: int = msgspec.field(name="lessons")  # number that it was fitted to
    calibration: Calibration  # as shipped where the examples were refused
    refused: Refusal | None = None
    newest: int = 0  # number of the newest example of shard 0
    newest_elsewhere: dict[int, int] = {}  # the same, by number of other shards
    marks: PrecisionBound | None = None  # uncalibrated score from which answers are marked grounded

    def is_marked(self, verdict: Verdict) -> bool:
        """True for a fresh verdict whose answer is marked grounded."""
        if self.marks is None or verdict.score is None:
            return False
        return verdict.score >= self.marks.floor


class Calibrations:
    """Replaced as a whole, so that any thread may read them."""

    def __init__(self, unfaithful_below: float = _SIGNALS.unfaithful_below) -> None:
        self.kept: dict[str, SavedCalibrations] = {}
        self._unfaithful_below = unfaithful_below

    def __call__(self, pipeline: str, verdict: Verdict) -> Verdict:
        """A fresh verdict of the judge, as the pipeline reads it."""
        kept = self.kept.get(pipeline)
        if kept is None or verdict.score is None:
            return verdict
        if kept.calibration.judge_version != verdict.version:
            return verdict  # of another artefact: its scores mean something else
        is_marked = kept.is_marked(verdict)
        if kept.refused:
            return replace(verdict, marked_grounded=True) if is_marked else verdict
        return replace(
            verdict,
            marked_grounded=is_marked,
            score=grounding.apply(kept.calibration, verdict.score, verdict.traits),
            raw=verdict.score,
            doubted_below=kept.calibration.threshold,
            version=f"{verdict.version}+{kept.version}",
        )

    def load(self, body: bytes | None) -> None:
        """Go on with those of before a restart."""
        self.kept = msgspec.json.decode(body, type=dict[str, SavedCalibrations]) if body else {}

    def dump(self) -> bytes:
        """All of them."""
        return msgspec.json.encode(self.kept)

    @property
    def in_force(self) -> dict[str, SavedCalibrations]:
        """Those by which scores are read, by pipeline."""
        return {name: kept for name, kept in self.kept.items() if not kept.refused}

    def learn(
        self, examples: Mapping[str, Mapping[Teacher, list[CalibrationExample]]], judge: str
    ) -> list[str]:
        """Fit the pipelines that have enough new examples; returns their names.

        Args:
            examples: by pipeline and teacher.
            judge: version of the artefact that is in force.
        """
        learned: dict[str, SavedCalibrations] = {}
        for pipeline, by_teacher in examples.items():
            if len(learned) == MOST_PIPELINES:
                break
            saved = self._learned(pipeline, by_teacher, judge)
            if saved is not None:
                learned[pipeline] = saved
        self.kept = self.kept | learned
        return sorted(learned)

    def _learned(
        self, pipeline: str, by_teacher: Mapping[Teacher, list[CalibrationExample]], judge: str
    ) -> SavedCalibrations | None:
        teachers: tuple[Teacher, ...] = ("people", "llm")
        teacher = next((each for each in teachers if len(by_teacher.get(each, ())) >= LEAST), None)
        if teacher is None:
            return None
        taught, before = by_teacher[teacher], self.kept.get(pipeline)
        if before is not None and not _is_worth_it(before, teacher, taught, judge):
            return None
        version = 0 if before is None else before.version
        others = _newest_of(taught)
        newest = others.pop(ONLY_SHARD, 0)
        fitted = fit(taught, judge, self._unfaithful_below)
        marks = marking(taught, self._unfaithful_below) if teacher == "people" else None
        if isinstance(fitted, Calibration):
            return SavedCalibrations(
                version + 1, teacher, len(taught), fitted, None, newest, others, marks
            )
        shipped = Calibration("shipped", judge, len(taught), self._unfaithful_below)
        return SavedCalibrations(
            version, teacher, len(taught), shipped, fitted, newest, others, marks
        )


class Calibrator:
    """Looks for new examples on schedule."""

    def __init__(
        self,
        calibrations: Calibrations,
        *,
        reader: Callable[[], Reader],
        judge: Callable[[], str],
        news: Callable[[], float],
        save: Callable[[bytes], None],
        of: str = EMBEDDED_JUDGE,
    ) -> None:
        self._calibrations = calibrations
        self._open = reader
        self._judge = judge  # its version; empty while it is not known
        self._of = of
        self._news = news  # changes when labels or verdicts have come
        self._save = save
        self._seen: tuple[float, str] | None = None
        self._log = structlog.get_logger("calibration").bind(judge=of)

    def step(self) -> None:
        """Read the labelled answers, and learn from them."""
        news, judge = self._news(), self._judge()
        if not judge or (news, judge) == self._seen:
            return
        with self._open() as reader:
            examples = read_examples(reader, judge, self._of)
        learned = self._calibrations.learn(examples, judge)
        for pipeline in learned:
            self._log_result(pipeline, self._calibrations.kept[pipeline])
        if learned:
            self._save(self._calibrations.dump())
        if len(learned) < MOST_PIPELINES:
            self._seen = news, judge

    def _log_result(self, pipeline: str, kept: SavedCalibrations) -> None:
        event = {
            "pipeline": pipeline,
            "teacher": kept.teacher,
            "examples": kept.examples,
            "marked_from": round(kept.marks.floor, 3) if kept.marks else None,
        }
        if kept.refused:
            self._log.info("calibration_refused", **event, reason=REASONS[kept.refused])
            return
        threshold = round(kept.calibration.threshold, 3)
        kind = kept.calibration.kind
        self._log.info("calibrated", **event, version=kept.version, kind=kind, threshold=threshold)


def read_examples(
    reader: Reader, judge: str, of: str = EMBEDDED_JUDGE
) -> dict[str, dict[Teacher, list[CalibrationExample]]]:
    """The newest labelled answers, by pipeline and teacher.

    Args:
        reader: of the store.
        judge: version whose scores count.
        of: name of the judge.
    """
    examples: dict[str, dict[Teacher, list[CalibrationExample]]] = {}
    for block in reader.blocks(0.0, np.inf):
        labelled = {at: body for at, body in block.amendments.items() if _may_teach(body)}
        if not labelled:
            continue
        observations = unpack(block.observations, ())
        for sequence, body in labelled.items():
            dims = observations.dims[observations.dim_index[sequence - block.first_sequence]]
            for teacher, example in _examples(sequence, amendments.decode(body).known, judge, of):
                mine = examples.setdefault(dims[0], {}).setdefault(teacher, [])
                if len(mine) < _MOST:
                    mine.append(example)
    return examples


def _examples(
    sequence: int, known: Amendments, judge: str, of: str
) -> list[tuple[Teacher, CalibrationExample]]:
    """Examples out of one answer, one for each teacher."""
    scored = verdict_of(known, of)
    if scored is None or scored.score is None or scored.version.partition("+")[0] != judge:
        return []
    raw = scored.score if scored.raw is None else scored.raw
    examples: list[tuple[Teacher, CalibrationExample]] = []
    human = human_score(known)
    if human is not None:
        examples.append(("people", CalibrationExample(raw, human, 1.0, scored.traits, sequence)))
    verdict = verdict_of(known, SAMPLED_JUDGE)
    if verdict is not None and verdict.score is not None:
        weight = 1.0 / verdict.probability
        examples.append(
            ("llm", CalibrationExample(raw, verdict.score, weight, scored.traits, sequence))
        )
    return examples


def _newest_of(taught: Sequence[CalibrationExample]) -> dict[int, int]:
    """Number of the newest example of each shard that has any."""
    newest: dict[int, int] = {}
    for example in taught:
        shard = shard_of(example.sequence)
        newest[shard] = max(example.sequence, newest.get(shard, 0))
    return newest


def _may_teach(body: bytes) -> bool:
    """Decoding every amendment to find the few that were labelled would take seconds."""
    return b"faithful" in body or SAMPLED_JUDGE.encode() in body


def _is_worth_it(
    before: SavedCalibrations, teacher: Teacher, taught: Sequence[CalibrationExample], judge: str
) -> bool:
    """True with enough more examples, or enough newer ones where old ones make room."""
    if before.calibration.judge_version != judge or (teacher, before.teacher) == ("people", "llm"):
        return True
    enough = min(math.ceil((_GROWTH - 1.0) * before.examples), LEAST)
    newest = {ONLY_SHARD: before.newest, **before.newest_elsewhere}
    newer = sum(each.sequence > newest.get(shard_of(each.sequence), -1) for each in taught)
    return max(len(taught) - before.examples, newer) >= max(enough, 1)
