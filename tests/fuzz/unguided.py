"""``python -m tests.fuzz.unguided TARGET INPUTS [SEED]``: changed inputs, without the engine.

Ten to thirty times as many a second as under the engine, since nothing is instrumented: what the
engine's corpus reaches is tried with the millions of neighbours that it has no time for.
"""

import sys
import time
from pathlib import Path

from tests.fuzz import corpora
from tests.fuzz.campaign import WORK
from tests.fuzz.guard import guarded
from tests.fuzz.mutations import mutated
from tests.fuzz.quiet import silence


def main() -> int:
    """The exit status: 1 when an input failed, which is then written down."""
    name, count = sys.argv[1], int(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) > 3 else str(time.time_ns())
    silence()
    target = corpora.target(name)
    run = guarded(target.run)
    started = time.process_time()
    try:
        for data in mutated(name, _beginnings(name), count, seed):
            try:
                run(data)
            except Exception:
                path = _write(name, data)
                print(f"{name}: {path}\nagain: python -m tests.fuzz.again {name} {path}")
                raise
    finally:
        getattr(target, "close", lambda: None)()
    spent = time.process_time() - started
    print(f"| {name} | {count:,} | {count / spent:,.0f} | nothing found, seed {seed} |")
    return 0


def _beginnings(name: str) -> list[bytes]:
    """Kept inputs, and those that an engine left in the working folder."""
    folder = WORK / "corpus" / name
    grown = sorted(folder.iterdir()) if folder.is_dir() else []
    return [*corpora.inputs(name), *(path.read_bytes() for path in grown)]


def _write(name: str, data: bytes) -> Path:
    folder = WORK / "failing" / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"unguided-{time.time_ns()}"
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    sys.exit(main())
