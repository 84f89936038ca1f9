"""Each pipeline reads the embedded judge's score in its own way, learned from its own labels.

Labels of people count, where there are enough; else the verdicts of the sampled judge, weighed by
their draw. A calibration applies to the scores still to come: what was scored stays as it was
counted, and every verdict names the version it was read by.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import structlog
from msgspec import Struct
from msgspec.structs import replace

from ragmon import amended
from ragmon.judges import grounding
from ragmon.judges.grounding import Calibration
from ragmon.records import Amendments, Verdict
from ragmon.signals.facts import EMBEDDED_JUDGE, SAMPLED_JUDGE
from ragmon.signals.judged import human_score, verdict_of
from ragmon.stores import Reader
from ragmon.windows.observations import unpack

NAME = "judge.calibrations"
"""Under which the store remembers them."""

LEAST = 50
_MOST = 500  # newest answers of a pipeline that are learned from
_GROWTH = 1.25  # times as many labels are worth another version
_MOST_PIPELINES = 50  # calibrated in one turn

Teacher = Literal["people", "llm"]


class Lesson(NamedTuple):
    """One answer whose truth is known."""

    score: float  # of the embedded judge, uncalibrated
    truth: float
    weight: float
    traits: tuple[float, ...]


class Kept(Struct, frozen=True):
    """The calibration in force for a pipeline."""

    version: int
    teacher: Teacher
    lessons: int
    calibration: Calibration


class Calibrations:
    """Replaced as a whole, so that any thread may read them."""

    def __init__(self, kept: Mapping[str, Kept] | None = None) -> None:
        self.kept: dict[str, Kept] = dict(kept or {})

    def __call__(self, pipeline: str, verdict: Verdict) -> Verdict:
        """A fresh verdict of the embedded judge, as the pipeline reads it."""
        kept = self.kept.get(pipeline)
        if kept is None or verdict.score is None:
            return verdict
        if kept.calibration.judge_version != verdict.version:
            return verdict  # of another artefact: its scores mean something else
        return replace(
            verdict,
            score=grounding.apply(kept.calibration, verdict.score, verdict.traits),
            raw=verdict.score,
            doubted_below=kept.calibration.threshold,
            version=f"{verdict.version}+{kept.version}",
        )

    def load(self, body: bytes | None) -> None:
        """Go on with those of before a restart."""
        self.kept = msgspec.json.decode(body, type=dict[str, Kept]) if body else {}

    def dump(self) -> bytes:
        """All of them."""
        return msgspec.json.encode(self.kept)

    def learn(self, lessons: Mapping[str, Mapping[Teacher, list[Lesson]]], judge: str) -> list[str]:
        """Calibrate what has enough new lessons; returns the pipelines.

        Args:
            lessons: by pipeline and teacher.
            judge: version of the artefact that is in force.
        """
        learned: dict[str, Kept] = {}
        for pipeline, by_teacher in lessons.items():
            found = self._learned(pipeline, by_teacher, judge)
            if found is not None and len(learned) < _MOST_PIPELINES:
                learned[pipeline] = found
        self.kept = self.kept | learned
        return sorted(learned)

    def _learned(
        self, pipeline: str, by_teacher: Mapping[Teacher, list[Lesson]], judge: str
    ) -> Kept | None:
        teachers: tuple[Teacher, ...] = ("people", "llm")
        teacher = next((each for each in teachers if len(by_teacher.get(each, ())) >= LEAST), None)
        if teacher is None:
            return None
        taught, before = by_teacher[teacher], self.kept.get(pipeline)
        if before is not None and not _is_worth_it(before, teacher, len(taught), judge):
            return None
        fitted = grounding.calibrate(
            [each.score for each in taught],
            [each.truth for each in taught],
            [each.weight for each in taught],
            traits=[each.traits for each in taught],
            judge_version=judge,
        )
        if fitted.kind == "shipped":
            return None  # nothing to learn: all were the same
        return Kept(1 if before is None else before.version + 1, teacher, len(taught), fitted)


class Calibrator:
    """Looks for new lessons on schedule."""

    def __init__(
        self,
        calibrations: Calibrations,
        *,
        reader: Callable[[], Reader],
        judge: str,
        news: Callable[[], float],
        save: Callable[[bytes], None],
    ) -> None:
        self._calibrations = calibrations
        self._open = reader
        self._judge = judge
        self._news = news  # changes when labels or verdicts have come
        self._save = save
        self._seen: float | None = None
        self._log = structlog.get_logger("calibration")

    def step(self) -> None:
        """Read what is labelled, and learn from it."""
        news = self._news()
        if news == self._seen:
            return
        with self._open() as reader:
            found = lessons(reader, self._judge)
        for pipeline in self._calibrations.learn(found, self._judge):
            kept = self._calibrations.kept[pipeline]
            self._log.info(
                "calibrated",
                pipeline=pipeline,
                version=kept.version,
                teacher=kept.teacher,
                lessons=kept.lessons,
                kind=kept.calibration.kind,
                threshold=round(kept.calibration.threshold, 3),
            )
            self._save(self._calibrations.dump())
        self._seen = news


def lessons(reader: Reader, judge: str) -> dict[str, dict[Teacher, list[Lesson]]]:
    """The newest labelled answers, by pipeline and teacher."""
    found: dict[str, dict[Teacher, list[Lesson]]] = {}
    for block in reader.blocks(0.0, np.inf):
        told = {at: body for at, body in block.amendments.items() if _may_teach(body)}
        if not told:
            continue
        observations = unpack(block.observations, ())
        for sequence, body in told.items():
            dims = observations.dims[observations.dim_index[sequence - block.first_sequence]]
            for teacher, lesson in _lessons(amended.decode(body).known, judge):
                mine = found.setdefault(dims[0], {}).setdefault(teacher, [])
                if len(mine) < _MOST:
                    mine.append(lesson)
    return found


def _lessons(known: Amendments, judge: str) -> list[tuple[Teacher, Lesson]]:
    """What one answer teaches, once for each teacher."""
    scored = verdict_of(known, EMBEDDED_JUDGE)
    if scored is None or scored.score is None or scored.version.partition("+")[0] != judge:
        return []
    raw = scored.score if scored.raw is None else scored.raw
    found: list[tuple[Teacher, Lesson]] = []
    human = human_score(known)
    if not np.isnan(human):
        found.append(("people", Lesson(raw, human, 1.0, scored.traits)))
    verdict = verdict_of(known, SAMPLED_JUDGE)
    if verdict is not None and verdict.score is not None:
        weight = 1.0 / verdict.probability
        found.append(("llm", Lesson(raw, verdict.score, weight, scored.traits)))
    return found


def _may_teach(body: bytes) -> bool:
    """Decoding every amendment to find the few that were labelled would take seconds."""
    return b"faithful" in body or SAMPLED_JUDGE.encode() in body


def _is_worth_it(before: Kept, teacher: Teacher, count: int, judge: str) -> bool:
    if before.calibration.judge_version != judge or (teacher, before.teacher) == ("people", "llm"):
        return True
    return count >= min(_GROWTH * before.lessons, before.lessons + LEAST) and count > before.lessons
