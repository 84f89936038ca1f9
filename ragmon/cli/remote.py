"""Asking a running ragmon, for the commands."""

import argparse
import getpass
import os
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import requests
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema

from ragmon.config.loading import CLIENT_TOKEN
from ragmon.errors import RemoteError
from ragmon.http_client import timed_session

DEFAULT_URL = "http://127.0.0.1:8321"
_TOKEN_HINT = f"Pass a token with --token-file or {CLIENT_TOKEN}"
_TIMEOUT_S = (5.0, 60.0)  # to connect, to answer

Content = TypeVar("Content")


def arguments(
    parser: argparse.ArgumentParser, flag: str = "--url", default: str | None = DEFAULT_URL
) -> None:
    """Declare the address and the token."""
    parser.add_argument(
        flag,
        dest="url",
        default=default,
        metavar="URL",
        help=f"address of the ragmon daemon (default {default})"
        if default
        else f"address of a ragmon daemon, such as {DEFAULT_URL}",
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
    opened = timed_session()
    opened.max_redirects = 0
    _trust(opened, args)
    if token:
        opened.headers["Authorization"] = f"Bearer {token}"
    return opened


def _trust(opened: requests.Session, args: argparse.Namespace) -> None:
    """Take the certificates of the command line.

    Raises:
        RemoteError: one is no file, or a certificate has no key.
    """
    paths = {name: getattr(args, name, None) for name in ("ca_file", "cert_file", "key_file")}
    for path in filter(None, paths.values()):
        if not path.is_file():
            raise RemoteError(f"{path} is not a file")
    if (paths["cert_file"] is None) is not (paths["key_file"] is None):
        raise RemoteError("give --cert-file and --key-file")
    if paths["ca_file"] is not None:
        opened.verify = str(paths["ca_file"])
    if paths["cert_file"] is not None:
        opened.cert = (str(paths["cert_file"]), str(paths["key_file"]))


def user() -> str:
    """Name of the user; empty in a container whose user has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError from Python 3.13 on
        return ""


def get(
    opened: requests.Session, url: str, path: str, kind: type[Content], **params: str
) -> Content:
    """The answer of one GET.

    Raises:
        RemoteError: see ``ask``.
    """
    return ask(opened, "GET", url, path, kind, params=params)


def post(
    opened: requests.Session, url: str, path: str, kind: type[Content], content: object
) -> Content:
    """The answer of one POST of JSON.

    Raises:
        RemoteError: see ``ask``.
    """
    return ask(opened, "POST", url, path, kind, json=content)


def ask(
    opened: requests.Session,
    method: str,
    url: str,
    path: str,
    kind: type[Content],
    **sent: Any,
) -> Content:
    """The answer of any request.

    Args:
        opened: see ``session``.
        method: of HTTP.
        url: of the daemon.
        path: below it.
        kind: type of the JSON answer, see ``ragmon.api_schema``.
        sent: for ``requests``.

    Raises:
        RemoteError: no answer, one that is no success, or one of another form.
    """
    sent["verify"] = opened.verify  # told here, or REQUESTS_CA_BUNDLE would overrule it
    try:
        answer = opened.request(method, url.rstrip("/") + path, timeout=_TIMEOUT_S, **sent)
    except (InvalidURL, InvalidSchema, MissingSchema) as error:
        hint = f"Write for example {DEFAULT_URL}"
        raise RemoteError(f"{url!r} is not a URL", hint=hint) from error
    except requests.exceptions.SSLError as error:
        raise RemoteError(
            f"no TLS with {url}: {error.args[0] if error.args else error}"[:500],
            hint="Pass its authority with --ca-file; if it asks for one, your own certificate too",
        ) from error
    except requests.RequestException as error:
        raise RemoteError(
            f"no answer from {url} ({type(error).__name__})",
            hint="Start `ragmon serve`, or pass another address with --url",
        ) from error
    if not answer.ok:
        message = f"{url}{path} answered {answer.status_code}: {detail(answer)}"
        unknown = answer.status_code == requests.codes.unauthorized
        raise RemoteError(message, hint=_TOKEN_HINT if unknown else "")
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RemoteError(
            f"{url}{path} answered in an unknown form: {error}",
            hint="Use the same version of ragmon for the command and the daemon",
        ) from error


def detail(answer: requests.Response) -> str:
    """Detail of a problem answer, else the beginning of its text."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200] or answer.reason
