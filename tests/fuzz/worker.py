"""One target under atheris, in a process of its own: ``python -m tests.fuzz.worker NAME [flags]``.

The flags are libFuzzer's. Only the package is instrumented: a branch of a generator is no finding.
"""

import sys

import atheris

from tests.fuzz import corpora
from tests.fuzz.quiet import silence


def main() -> None:
    """Fuzz until libFuzzer's flags say that it is enough; the process ends then."""
    name, flags = sys.argv[1], sys.argv[2:]
    silence()
    with atheris.instrument_imports(include=["ragmon"]):
        target = corpora.target(name)
    from tests.fuzz.guard import guarded

    mutators = {}
    if hasattr(target, "mutate"):
        mutators["custom_mutator"] = lambda data, most, seed: target.mutate(
            bytes(data), most, seed, atheris.Mutate
        )
    atheris.Setup([sys.argv[0], *flags], guarded(target.run), **mutators)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
