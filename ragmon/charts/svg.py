"""Elements of SVG as text."""

import re
from html import escape

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def text_of(value: str) -> str:
    """A text that no reader can take for markup; characters that XML forbids become a mark."""
    return escape(_CONTROL.sub("\ufffd", value))


def element(name: str, *children: str, **attributes: str | float | None) -> str:
    """One element.

    Args:
        name: of the element.
        children: finished elements and escaped texts.
        attributes: without their values' quotes; ``class_`` and ``text_anchor`` are ``class``
            and ``text-anchor``. None leaves an attribute out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(children)
    return f"<{name}{written}>{inner}</{name}>" if inner else f"<{name}{written}/>"


def picture(width: float, height: float, title: str, *children: str, class_: str = "chart") -> str:
    """The whole picture; ``title`` is read out by screen readers."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        class_=class_,
        role="img",
        aria_label=title,
    )


def label(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    class_: str = "",
    at: float | None = None,
) -> str:
    """A text whose baseline is at y.

    Args:
        x: of its anchor.
        y: of its baseline.
        text: that is shown.
        anchor: ``start``, ``middle`` or ``end``.
        class_: for the style sheet.
        at: the moment that it tells, unix seconds, so that a script can tell it in another zone.
    """
    return element(
        "text",
        text_of(text),
        x=x,
        y=y,
        text_anchor=None if anchor == "start" else anchor,
        class_=class_ or None,
        data_at=None if at is None else f"{at:.0f}",
    )


def points(pairs: list[tuple[float, float]]) -> str:
    """Coordinates of a polyline or polygon."""
    written = " ".join([f"{x:.1f},{y:.1f}" for x, y in pairs])
    return written.replace(".0,", ",").replace(".0 ", " ").removesuffix(".0")


def _value(value: str | float) -> str:
    return text_of(value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
