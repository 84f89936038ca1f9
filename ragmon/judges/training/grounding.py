"""Writes the artefact of the grounding judge: ``python -m ragmon.judges.training.grounding``.

Needs the two data files named in ``corpus`` (``--data`` or $RAGMON_SHARED_DATA) and numpy; the
result depends on nothing else, so a second run writes the same bytes.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ragmon.judges.grounding.model import ARTEFACT, Artefact, Provenance
from ragmon.judges.training import corpus
from ragmon.judges.training.fit import fit

VERSION = "2"
_ROOT = Path(__file__).parents[3]
_OUTPUT = Path(__file__).parents[1] / "grounding" / ARTEFACT
_DATA = (
    "MTRAG human evaluations (github IBM/mt-rag-benchmark), Apache-2.0",
    "AttributionBench, development part (github OSU-NLP-Group/AttributionBench), Apache-2.0",
)
_CLAIM_SUBSETS = frozenset({"LFQA", "Stanford-GenSearch"})  # those whose labels words can explain
_JOINED = 600


def train(folder: Path) -> Artefact:
    """The artefact from all the data in a folder."""
    data = {name: corpus.read(folder / path) for name, path in corpus.FILES.items()}
    return fit(
        list(data.values()),
        joined(data["attributionbench"]),
        version=VERSION,
        provenance=Provenance(
            script="ragmon/judges/training/grounding.py",
            data=_DATA,
            licence="Apache-2.0",
            trained_on=sum(map(len, data.values())),
        ),
    )


def joined(claims: Sequence[corpus.Example], count: int = _JOINED) -> list[corpus.Example]:
    """Answers joined from the claims of ``_CLAIM_SUBSETS``."""
    return corpus.join_claims([c for c in claims if c.subset in _CLAIM_SUBSETS], count)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, write the artefact, print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=corpus.data_folder(_ROOT))
    parser.add_argument("--output", type=Path, default=_OUTPUT)
    options = parser.parse_args(arguments)
    if options.data is None:
        parser.error(f"no data: give --data or set {corpus.DATA_VARIABLE}")
    artefact = msgspec.json.format(msgspec.json.encode(train(options.data)), indent=1)
    options.output.write_bytes(artefact + b"\n")
    sys.stdout.write(f"{options.output}: {len(artefact) + 1} bytes\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
