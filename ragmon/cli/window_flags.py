"""The pipeline and the time that many commands ask about, as arguments."""

import argparse


def pipeline_argument(group: argparse._ActionsContainer, text: str = "only this pipeline") -> None:
    """Declare ``--pipeline``; empty means all."""
    group.add_argument("--pipeline", default="", metavar="NAME", help=text)


def since_argument(
    group: argparse._ActionsContainer, default: str, of: str = "the oldest query"
) -> None:
    """Declare ``--since``.

    Args:
        group: or parser.
        default: age, such as 24h; empty: the beginning.
        of: the thing whose age it is.
    """
    text = f"age or time of {of} (default {default or 'the beginning'})"
    group.add_argument("--since", default=default, metavar="TIME", help=text)


def until_argument(group: argparse._ActionsContainer) -> None:
    """Declare ``--until``."""
    group.add_argument("--until", default="", metavar="TIME", help="end, exclusive (default now)")
