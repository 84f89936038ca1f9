"""Whoever looks at a page: shown on it, and the token of its forms."""

from contextvars import ContextVar
from typing import NamedTuple


class Visitor(NamedTuple):
    """One person, as pages need to know."""

    name: str = ""  # of the token that signed in; empty: nobody did, or none is needed
    may_change: bool = False  # may send the forms that change something
    may_label: bool = False  # may send labels
    form_token: str = ""  # that every form has to bring


NOBODY = Visitor()
VISITOR: ContextVar[Visitor] = ContextVar("visitor", default=NOBODY)
"""Of the request that is being answered; set before a page is made, so that none can forget it."""
