"""Arguments that select stored queries, as the parameters of ``GET /v1/queries`` do."""

import argparse

from ragmon.cli import window_flags
from ragmon.web.query_endpoints import FIELDS

_OPTIONAL = ("version", *FIELDS, "failure_mode", "feedback", "min_score", "max_score", "words")


def arguments(parser: argparse.ArgumentParser, *, since: str) -> None:
    """Declare them.

    Args:
        parser: of the command.
        since: age of the oldest query, where none is given; empty: the beginning.
    """
    window_flags.pipeline_argument(parser)
    parser.add_argument("--version", metavar="NAME", help="only exactly this version")
    parser.add_argument(
        "--tag",
        action="append",
        default=[],
        type=_tag,
        metavar="KEY=VALUE",
        help="only where the tag has exactly this value; may be repeated, all must fit",
    )
    for name in (*FIELDS, "failure-mode", "feedback", "min-score", "max-score"):
        shown = name.replace("-", " ")
        parser.add_argument(f"--{name}", metavar="VALUE", help=f"only this {shown}")
    parser.add_argument("--words", metavar="TEXT", help="only with these words in their texts")
    parser.add_argument(
        "--failing", default="", metavar="NAMES", help="failures separated by commas"
    )
    window_flags.since_argument(parser, since)
    window_flags.until_argument(parser)


def parameters(args: argparse.Namespace) -> dict[str, str]:
    """The parameters of the API that they stand for."""
    asked = {name: getattr(args, name) for name in ("pipeline", "failing", "since", "until")}
    asked |= {f"tag.{key}": value for key, value in args.tag}
    return asked | {
        name: getattr(args, name) for name in _OPTIONAL if getattr(args, name) is not None
    }


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as tenant=acme")
    return key, value
