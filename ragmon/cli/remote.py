"""Asking a running ragmon, for the commands."""

import argparse
import getpass
import os
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ragmon.cli.connection import EXAMPLE_URL, Connection, Trust
from ragmon.cli.input_files import check_files
from ragmon.environment import CLIENT_TOKEN
from ragmon.errors import RemoteError, SettingsError

if TYPE_CHECKING:
    import requests

_TOKEN_HINT = f"Pass a token with --token-file or {CLIENT_TOKEN}"

Content = TypeVar("Content")


def arguments(
    parser: argparse.ArgumentParser, *flags: str, default: str | None = EXAMPLE_URL
) -> None:
    """Declare the address and the token; ``flags`` are other names of ``--url``."""
    parser.add_argument(
        "--url",
        *flags,
        dest="url",
        default=default,
        metavar="URL",
        help=f"address of the ragmon daemon (default {default})"
        if default
        else f"address of a ragmon daemon, such as {EXAMPLE_URL}",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"file that holds the bearer token (or set {CLIENT_TOKEN})",
    )
    parser.add_argument(
        "--ca-file",
        type=Path,
        metavar="FILE",
        help="PEM file of the authorities to trust, where the daemon has tls and a CA of your own",
    )
    parser.add_argument(
        "--cert-file",
        type=Path,
        metavar="FILE",
        help="PEM file of the certificate to show, where the daemon has tls.client_ca_file",
    )
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="PEM file of its key")


def session(args: argparse.Namespace) -> Connection:
    """Requests with the token and the certificates of the command line.

    Raises:
        SettingsError: a file of them cannot be used.
    """
    return Connection(_authorization(args), _trust(args))


def bulk_session(args: argparse.Namespace) -> "requests.Session":
    """The same for ``Sender``, which sends much and keeps its connections open.

    Raises:
        SettingsError: see ``session``.
    """
    from ragmon.http_client import timed_session  # noqa: PLC0415 - see ``connection``

    opened = timed_session()
    opened.max_redirects = 0
    trust = _trust(args)
    if trust.ca_file is not None:
        opened.verify = str(trust.ca_file)
    if trust.cert_file is not None:
        opened.cert = (str(trust.cert_file), str(trust.key_file))
    opened.headers.update(_authorization(args))
    return opened


def _authorization(args: argparse.Namespace) -> dict[str, str]:
    token = os.environ.get(CLIENT_TOKEN, "")
    if args.token_file is not None:
        try:
            token = args.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise SettingsError(f"cannot read {args.token_file}: {reason}") from error
    return {"Authorization": f"Bearer {token}"} if token else {}


def _trust(args: argparse.Namespace) -> Trust:
    """The certificates of the command line; some commands take none."""
    names = ("ca_file", "cert_file", "key_file")
    trust = Trust(*(getattr(args, name, None) for name in names))
    check_files(filter(None, trust))
    if (trust.cert_file is None) is not (trust.key_file is None):
        raise SettingsError("give --cert-file and --key-file")
    return trust


def user() -> str:
    """Name of the user; empty in a container whose user has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return ""


def get(opened: Connection, url: str, path: str, kind: type[Content], **params: str) -> Content:
    """The answer of one GET.

    Raises:
        RemoteError: see ``ask``.
    """
    return ask(opened, "GET", url, path, kind, params=params)


def post(opened: Connection, url: str, path: str, kind: type[Content], content: object) -> Content:
    """The answer of one POST of JSON.

    Raises:
        RemoteError: see ``ask``.
    """
    return ask(opened, "POST", url, path, kind, body=msgspec.json.encode(content))


def ask(
    opened: Connection,
    method: str,
    url: str,
    path: str,
    kind: type[Content],
    *,
    params: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Content:
    """The answer of any request.

    Args:
        opened: see ``session``.
        method: of HTTP.
        url: of the daemon.
        path: below it.
        kind: type of the JSON answer, see ``ragmon.api_schema``.
        params: of the query.
        body: JSON.

    Raises:
        RemoteError: no answer, one that is no success, or one of another form.
    """
    answer = opened.request(method, url.rstrip("/") + path, params=params, body=body)
    if not answer.ok:
        message = f"{url}{path} answered {answer.status}: {detail(answer.content, answer.reason)}"
        hint = _TOKEN_HINT if answer.status == HTTPStatus.UNAUTHORIZED else ""
        raise RemoteError(message, status=answer.status, hint=hint)
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteError(
            f"{url}{path} answered in an unknown form: {error}",
            hint="Use the same version of ragmon for the command and the daemon",
        ) from error


def detail(content: bytes, reason: str) -> str:
    """Detail of a problem answer, else the beginning of its text."""
    try:
        return str(msgspec.json.decode(content)["detail"])
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError):
        return content.decode("utf-8", "replace")[:200] or reason
