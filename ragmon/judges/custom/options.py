"""Settings of a custom judge, as under ``judge.custom``, and its scales."""

import math
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ragmon.errors import SettingsError

Scale = Literal["1-5", "yes-no", "0-1"]

PLACEHOLDERS = ("question", "answer", "context")
"""Names that a prompt may use, as ``$question``."""

_TAKEN = ("grounding", "llm", "local", "human", "overlap")
_TAKEN_SUFFIX = "_corrected"
_MOST_PROMPT = 20_000  # characters


class Options(BaseModel):
    """One judge of one's own."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    """Name of the judge, as in the label judge of its metrics: lower-case letters, digits and
    underscores, beginning with a letter."""
    kind: Literal["llm", "python"] = "llm"
    """llm: asks the language model of judge.llm about the answers drawn for it; python: calls a
    function for every answer, in a process of its own."""
    prompt_file: Path | None = None
    """llm: file that says what to grade, with $answer and, where the model shall read them,
    $question and $context. It is read again for every answer, so that a change needs no restart."""
    entry: str | None = None
    """python: the function as package.module:function, called with question, answer and chunks
    (texts)."""
    scale: Scale | None = None
    """1-5 (5 is best), yes-no (yes is good), or 0-1 (python only); exported as 0 to 1. none: 1-5
    for llm, 0-1 for python."""
    max_cpu: Annotated[float, Field(gt=0, le=64)] = 0.25
    """python: CPU in cores. When that is too little for the traffic, a random sample of the answers
    is graded."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 5.0
    """python: seconds for one answer; a longer call is ended and counted as timeout."""

    @field_validator("name")
    @classmethod
    def _free(cls, value: str) -> str:
        if value in _TAKEN or value.endswith(_TAKEN_SUFFIX):
            raise ValueError(f"{value!r} is the name of a built-in judge; choose another")
        return value

    @field_validator("entry")
    @classmethod
    def _function(cls, value: str | None) -> str | None:
        module, _, function = (value or "m:f").partition(":")
        if not all(map(str.isidentifier, [*module.split("."), function])):
            raise ValueError("write package.module:function")
        return value

    @model_validator(mode="after")
    def _of_its_kind(self) -> "Options":
        needed, other = ("prompt_file", "entry") if self.kind == "llm" else ("entry", "prompt_file")
        if getattr(self, needed) is None:
            raise ValueError(f"kind {self.kind} needs {needed}")
        if getattr(self, other) is not None:
            raise ValueError(f"kind {self.kind} has no {other}")
        if self.kind == "llm" and self.scale == "0-1":
            raise ValueError("scale 0-1 is for kind python; a language model grades 1-5 or yes-no")
        return self

    @property
    def effective_scale(self) -> Scale:
        """The scale, by default that of the kind."""
        return self.scale or ("1-5" if self.kind == "llm" else "0-1")


def _distinct(judges: tuple[Options, ...]) -> tuple[Options, ...]:
    if len({judge.name for judge in judges}) < len(judges):
        raise ValueError("two judges have the same name")
    return judges


CustomJudges = Annotated[tuple[Options, ...], AfterValidator(_distinct)]


def read_prompt(options: Options) -> Template:
    """The prompt of ``prompt_file``.

    Raises:
        SettingsError: it cannot be read, is too long, or has other placeholders.
    """
    assert options.prompt_file is not None
    where = f"judge.custom {options.name}: prompt_file"
    try:
        text = options.prompt_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{where}: {error}") from error
    template = Template(text)
    known = ", ".join(f"${name}" for name in PLACEHOLDERS)
    if len(text) > _MOST_PROMPT:
        raise SettingsError(f"{where}: longer than {_MOST_PROMPT} characters")
    if not template.is_valid():
        raise SettingsError(f"{where}: a $ without a name", hint=f"Known: {known}; write $$ for $")
    used = template.get_identifiers()
    unknown = [name for name in used if name not in PLACEHOLDERS]
    if unknown:
        raise SettingsError(f"{where}: unknown placeholder ${unknown[0]}", hint=f"Known: {known}")
    if "answer" not in used:
        raise SettingsError(
            f"{where}: {options.prompt_file} has no $answer",
            hint="Write $answer where the prompt speaks of the answer to grade",
        )
    return template


CHOICES: Mapping[Scale, tuple[tuple[str, float], ...]] = {
    "1-5": tuple((str(grade), (grade - 1) / 4) for grade in range(1, 6)),
    "yes-no": (("yes", 1.0), ("no", 0.0)),
    "0-1": tuple((f"{step / 4:g}", step / 4) for step in range(5)),
}
"""Grades that a person chooses from, with the score each stands for."""


def score_of(value: object, scale: Scale) -> float:
    """Score in [0, 1] of what a function returned.

    Raises:
        ValueError: it is not on the scale.
    """
    if scale == "yes-no":
        if isinstance(value, bool):
            return float(value)
        raise ValueError(f"returned {type(value).__name__}; scale yes-no needs True or False")
    low, high = (1.0, 5.0) if scale == "1-5" else (0.0, 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"returned {type(value).__name__}; scale {scale} needs a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not low <= number <= high:
        raise ValueError(f"returned {number:g}, which is not within {low:g} to {high:g}")
    return (number - low) / (high - low)
