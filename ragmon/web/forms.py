"""Forms of the pages: read within limits, and refused unless one of our own pages sent them.

Browsers send cookies by themselves, also with a request that another page made up. So a form has to
come from a page of the same origin, by what the browser says, and bring the token that only such a
page can read.
"""

import hmac
from urllib.parse import parse_qsl

from msgspec.structs import replace
from starlette.requests import Request

from ragmon.asgi import BodyLimits, Problem, header, read_body
from ragmon.web.endpoint import FORM
from ragmon.web.sessions import form_token

_FIELD = "form_token"  # that holds the token
_MOST_BYTES = 1 << 16
_MOST_FIELDS = 40


async def read_form(request: Request, limits: BodyLimits, secret: str) -> dict[str, str]:
    """The fields of a form, without its token; a repeated one counts once.

    Args:
        request: a POST; who sent it need not be known yet.
        limits: of its body.
        secret: of the browser; empty: it has none, so that no form of it is taken.

    Raises:
        Problem: 403 unless a page of ragmon sent it, 400, 413 or 415 where it is no form.
    """
    if not header(request.scope, b"origin"):  # another one is refused before any route
        _check_site(header(request.scope, b"sec-fetch-site"))
    media = header(request.scope, b"content-type").partition(";")[0].strip().lower()
    if media != FORM:
        raise Problem(415, f"send the form as {FORM}", reason="unsupported_media")
    small = replace(limits, body=min(limits.body, _MOST_BYTES), decompressed=_MOST_BYTES)
    with limits.memory.open() as memory:
        body = await read_body(request.scope, request.receive, small, memory)
    fields = _fields(body)
    expected, brought = form_token(secret), fields.pop(_FIELD, "")
    if not expected or not hmac.compare_digest(expected.encode(), brought.encode()):
        detail = "this form is older than your session: go back, reload the page, send it again"
        raise Problem(403, detail, reason="stale_form")
    return fields


def _check_site(site: str) -> None:
    if site != "same-origin":
        detail = "only a page of ragmon sends forms; programs use /v1 with a bearer token"
        raise Problem(403, detail, reason="foreign_form")


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="replace",
            max_num_fields=_MOST_FIELDS,
        )
    except (ValueError, UnicodeDecodeError):
        detail = f"the form has more than {_MOST_FIELDS} fields, or is not encoded as one"
        raise Problem(400, detail, reason="bad_form") from None
    return dict(pairs)
