"""Answers with human labels: reading them, folding them by group, joining claims into answers.

The data are not part of the project: MTRAG human evaluations (github IBM/mt-rag-benchmark) and
the development part of AttributionBench (github OSU-NLP-Group/AttributionBench), both
Apache-2.0, brought to one JSON form, a line an answer.
"""

import gzip
import os
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

FILES = {
    "mtrag": "mtrag/human_eval.jsonl.gz",
    "attributionbench": "attributionbench/dev.jsonl.gz",
}
DATA_VARIABLE = "RAGMON_SHARED_DATA"


class Example(Struct, frozen=True):
    """One answer with its human label ``hallucinated``."""

    id: str
    group: str  # never split between training and validation
    query: str
    context: list[str]
    answer: str
    hallucinated: bool
    generator: str | None = None  # for slices of a report only
    subset: str | None = None


def data_folder(root: Path) -> Path | None:
    """``$RAGMON_SHARED_DATA``, else ``../shared/data`` beside the repository; None if absent."""
    folder = Path(os.environ.get(DATA_VARIABLE) or root.parent / "shared" / "data")
    present = all((folder / name).is_file() for name in FILES.values())
    return folder if present else None


def read(path: Path) -> list[Example]:
    """All answers of one file, in its order."""
    with gzip.open(path, "rb") as lines:
        return [msgspec.json.decode(line, type=Example) for line in lines]


def fold_of(group: str, folds: int) -> int:
    """The same fold for a group on every machine."""
    return zlib.crc32(group.encode()) % folds


def join_claims(
    claims: Sequence[Example],
    count: int,
    *,
    seed: int = 0,
    max_characters: int = 4_000,
) -> list[Example]:
    """Answers of two to eight claims, wrong when any claim is; four in ten are.

    Human labels of long answers come either as an overall impression (MTRAG) or as "holds an
    unsupported span". These stand for the second kind, which no data set here has.
    """
    rng = random.Random(seed)  # noqa: S311 - a reproducible sample, not a secret
    short = [c for c in claims if sum(map(len, c.context)) <= max_characters]
    wrong = [claim for claim in short if claim.hallucinated]
    right = [claim for claim in short if not claim.hallucinated]
    return [_joined(rng, f"joined-{i}", right, wrong) for i in range(count)]


def _joined(
    rng: random.Random, name: str, right: Sequence[Example], wrong: Sequence[Example]
) -> Example:
    size = rng.randint(2, 8)
    bad = 0
    if rng.random() < 0.4:
        bad = 1 + sum(rng.random() < 0.25 for _ in range(size - 1))
    parts = rng.sample(wrong, bad) + rng.sample(right, size - bad)
    rng.shuffle(parts)
    context = [chunk for part in parts for chunk in part.context]
    rng.shuffle(context)
    return Example(
        id=name,
        group=name,
        query=parts[0].query,
        context=context,
        answer=" ".join(f"{part.answer.strip().rstrip('.')}." for part in parts),
        hallucinated=bad > 0,
        subset="joined claims",
    )


def split(
    examples: Sequence[Example], held_out: Callable[[Example], bool]
) -> tuple[list[Example], list[Example]]:
    """(training, held out)."""
    return [e for e in examples if not held_out(e)], [e for e in examples if held_out(e)]
