"""Create a bearer token and print the settings that accept it; ragmon stores only its hash."""

import argparse
import secrets
from typing import get_args

from ragmon.config.sections import Scope
from ragmon.web.auth import digest

NAME = "token"
HELP = "create a bearer token"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "name", metavar="NAME", help="name of the user or application, shown in error messages"
    )
    parser.add_argument(
        "--scope",
        action="append",
        choices=get_args(Scope),
        help="permission of the token; may be repeated (default ingest)",
    )


def run(args: argparse.Namespace) -> int:
    """Print the token and its settings."""
    token = "rgm_" + secrets.token_urlsafe(32)
    scopes = ", ".join(args.scope or ["ingest"])
    print(f"Token (shown only once): {token}\n")
    print("ragmon.yaml:\n\nauth:\n  tokens:")
    print(f"    - name: {args.name}\n      scopes: [{scopes}]")
    print(f"      sha256: {digest(token).hex()}")
    return 0
