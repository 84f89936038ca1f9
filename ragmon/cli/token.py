"""Make a bearer token and the settings that accept it; ragmon keeps only its hash."""

import argparse
import secrets
from typing import get_args

from ragmon.config.sections import Scope
from ragmon.web.auth import digest

NAME = "token"
HELP = "make a bearer token"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="who will use it; appears in answers")
    parser.add_argument(
        "--scope",
        action="append",
        choices=get_args(Scope),
        help="what it allows; may be repeated (default ingest)",
    )


def run(args: argparse.Namespace) -> int:
    """Print both."""
    token = "rgm_" + secrets.token_urlsafe(32)
    scopes = ", ".join(args.scope or ["ingest"])
    print(f"Token, shown only now: {token}\n")
    print("ragmon.yaml:\n\nauth:\n  tokens:")
    print(f"    - name: {args.name}\n      scopes: [{scopes}]")
    print(f"      sha256: {digest(token).hex()}")
    return 0
