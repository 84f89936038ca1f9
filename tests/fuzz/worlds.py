"""Pipelines, windows and bounds that several targets feed."""

import functools
from typing import Literal

from ragmon.config import load
from ragmon.daemon.build import build_pipeline
from ragmon.event_time import Bounds
from ragmon.pipeline import Pipeline
from ragmon.windows import Windows

NOW = 1_795_000_000.0
BOUNDS = Bounds(NOW - 7 * 86_400.0, NOW + 300.0)
PRIVACIES: tuple[Literal["keep", "redact", "drop"], ...] = ("keep", "redact", "drop")


@functools.cache
def pipeline(privacy: str = "keep") -> Pipeline:
    """With slices and thresholds, so that every signal can be computed."""
    flags = {
        "slices": "tenant,env",
        "privacy.text": privacy,
        "retrieval.relevant_score": 0.5,
        "retrieval.low_score": 0.2,
        "latency.slow_ms": 1_000,
    }
    return build_pipeline(load(None, flags, {}).settings)


def windows(of: Pipeline, limit: int = 20, longest_s: float = 604_800.0) -> Windows:
    """Empty windows with room for few series, so that ``other`` is met."""
    return Windows(of.catalogue.columns, slices=of.slices, longest_s=longest_s, limit=limit)
