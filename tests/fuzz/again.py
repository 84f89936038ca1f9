"""``python -m tests.fuzz.again TARGET FILE…``: the inputs once more, with the whole traceback."""

import sys
from pathlib import Path

from tests.fuzz.corpora import target
from tests.fuzz.guard import guarded
from tests.fuzz.quiet import silence


def main() -> None:
    """Run each file; the first is run twice, since the first call fills caches."""
    silence()
    run = guarded(target(sys.argv[1]).run)
    for path in (sys.argv[2], *sys.argv[2:]):
        run(Path(path).read_bytes())
        print(f"{path}: nothing found")


if __name__ == "__main__":
    main()
