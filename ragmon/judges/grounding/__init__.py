"""The embedded grounding judge: support of an answer by its retrieved chunks, without an LLM.

A fitted lexical screen in numpy-free Python: every answer gets a score in [0, 1] and the
sentences it doubts, with the reason. It sees words the context does not hold, and words it does
not hold together; it is blind to a contradiction made of the context's own words. Use it to
screen, to rank evidence and as the proxy of the sampled judge, not as the last word.

    judge = load()
    judge.score(query, answer, chunk_texts)

Measured in tests/benchmarks/grounding.md.
"""

from ragmon.judges.grounding.calibration import Calibration, apply, calibrate
from ragmon.judges.grounding.judge import GroundingJudge, GroundingResult, load
from ragmon.judges.grounding.model import load_artefact

__all__ = [
    "Calibration",
    "GroundingJudge",
    "GroundingResult",
    "apply",
    "calibrate",
    "load",
    "load_artefact",
]
