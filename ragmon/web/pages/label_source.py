"""Protocol of what the label queue is made of, and its answers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ragmon.access import Permit
from ragmon.api_schema import QueryDetail
from ragmon.asgi import Scope
from ragmon.records import Label
from ragmon.report import LabelAgreement
from ragmon.web.permits import Readable


class Calibrated(NamedTuple):
    """A pipeline's calibration of the embedded judge."""

    pipeline: str
    labels: int  # it was fitted to
    threshold: float  # score below which an answer is doubted
    refused: str  # reason why there is none in force; empty: it is


class LabelQuestion(NamedTuple):
    """A custom judge, as people are asked what it is asked."""

    name: str
    asked: str  # prompt or function of the judge
    choices: tuple[tuple[str, float], ...]  # grade and its score, in the order of the scale

    def score(self, grade: str) -> float | None:
        """Score of a grade; None: it is not on the scale."""
        return dict(self.choices).get(grade)

    def grade(self, score: float) -> str:
        """Grade nearest to a score."""
        return min(self.choices, key=lambda choice: abs(choice[1] - score))[0]


class LabelEffects(NamedTuple):
    """Effects of the labels so far."""

    agreement: Mapping[str, LabelAgreement]  # by judge, over a week
    calibrations: tuple[Calibrated, ...]
    least: int  # labels of a pipeline, from which the embedded judge learns from people


class LabelSource(Protocol):
    """Source of answers to label, and taker of labels."""

    @property
    def threshold(self) -> float:
        """Score below which a judge calls an answer unfaithful."""
        ...

    def questions(self) -> Sequence[LabelQuestion]:
        """Questions of the custom judges, in the order of the settings."""
        ...

    async def candidates(self, pipeline: str, readable: Readable | None) -> list[QueryDetail]:
        """Recent answers of the pipelines that may be read."""
        ...

    async def query(self, query_id: str) -> QueryDetail | None:
        """One query; None when it is unknown or expired."""
        ...

    async def send(self, label: Label, scope: Scope, permit: Permit) -> None:
        """Take a label as ``/v1/labels`` does.

        Raises:
            Problem: it is refused.
        """
        ...

    async def effects(self, pipeline: str, readable: Readable | None) -> LabelEffects:
        """Effects of the labels so far."""
        ...
