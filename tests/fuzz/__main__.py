"""``python -m tests.fuzz``: all targets for some minutes, or some, or the corpora made small."""

import argparse
import sys

from tests.fuzz import campaign, corpora

_AT_ONCE = 2


def main() -> int:
    """The exit status: 1 when something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(corpora.TARGETS)}; none: all")
    parser.add_argument("--minutes", type=float, default=15.0, help="of all targets together")
    parser.add_argument("--at-once", type=int, default=_AT_ONCE, help="processes at a time")
    parser.add_argument(
        "--keep", action="store_true", help="write the minimised corpora, fuzz nothing"
    )
    asked = parser.parse_args()
    names = asked.targets or list(corpora.TARGETS)
    if unknown := set(names) - set(corpora.TARGETS):
        parser.error(f"no target is called {', '.join(sorted(unknown))}")
    if asked.keep:
        for name in names:
            print(f"{name}: {corpora.keep(name, campaign.minimised(name))} inputs kept")
        return 0
    seconds = 60.0 * asked.minutes * asked.at_once / len(names)
    outcomes = campaign.fuzz(names, campaign.lasting(seconds), asked.at_once)
    print(campaign.table(outcomes))
    for outcome in outcomes:
        if outcome.finding:
            print(f"\n{outcome.target}: {outcome.artifact}\n{outcome.finding}")
            print(f"again: python -m tests.fuzz.again {outcome.target} {outcome.artifact}")
    return int(any(outcome.finding for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
