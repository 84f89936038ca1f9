"""Asking a running ragmon, for the commands."""

import argparse
import getpass
import os
from pathlib import Path
from typing import Any

import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

from ragmon.config.loading import CLIENT_TOKEN
from ragmon.errors import RemoteError

DEFAULT_URL = "http://127.0.0.1:8321"
_TOKEN_HINT = f"Name it by --token-file, or in {CLIENT_TOKEN}"
_TIMEOUT_S = (5.0, 60.0)  # to connect, to answer


def arguments(parser: argparse.ArgumentParser, flag: str = "--url") -> None:
    """Where it is, and the token."""
    parser.add_argument(flag, dest="url", default=DEFAULT_URL, help=f"default {DEFAULT_URL}")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the bearer token (or the variable {CLIENT_TOKEN})",
    )


def session(args: argparse.Namespace) -> requests.Session:
    """A session that authenticates and follows no redirects.

    Raises:
        RemoteError: the token file cannot be read.
    """
    token = os.environ.get(CLIENT_TOKEN, "")
    if args.token_file is not None:
        try:
            token = args.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise RemoteError(f"cannot read {args.token_file}: {reason}") from error
    opened = requests.Session()
    opened.max_redirects = 0
    if token:
        opened.headers["Authorization"] = f"Bearer {token}"
    return opened


def user() -> str:
    """Who asks; a container may run as somebody without a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return ""


def get(opened: requests.Session, url: str, path: str, **params: str) -> Any:
    """The JSON answer of one GET.

    Raises:
        RemoteError: no answer, or one that is no success.
    """
    return ask(opened, "GET", url, path, params=params)


def post(opened: requests.Session, url: str, path: str, content: object) -> Any:
    """The JSON answer of one POST.

    Raises:
        RemoteError: no answer, or one that is no success.
    """
    return ask(opened, "POST", url, path, json=content)


def delete(opened: requests.Session, url: str, path: str) -> Any:
    """The JSON answer of one DELETE.

    Raises:
        RemoteError: no answer, or one that is no success.
    """
    return ask(opened, "DELETE", url, path)


def ask(opened: requests.Session, method: str, url: str, path: str, **sent: Any) -> Any:
    """The JSON answer of any request.

    Raises:
        RemoteError: no answer, or one that is no success.
    """
    try:
        answer = opened.request(method, url.rstrip("/") + path, timeout=_TIMEOUT_S, **sent)
    except (InvalidURL, InvalidSchema, MissingSchema) as error:
        hint = f"Write for example {DEFAULT_URL}"
        raise RemoteError(f"{url!r} is no address", hint=hint) from error
    except requests.RequestException as error:
        raise RemoteError(
            f"no answer from {url} ({type(error).__name__})",
            hint="Start `ragmon serve`, or name another address",
        ) from error
    if not answer.ok:
        said = f"{url}{path} answered {answer.status_code}: {detail(answer)}"
        unknown = answer.status_code == requests.codes.unauthorized
        raise RemoteError(said, hint=_TOKEN_HINT if unknown else "")
    return answer.json()


def detail(answer: requests.Response) -> str:
    """What a problem answer says."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200] or answer.reason
