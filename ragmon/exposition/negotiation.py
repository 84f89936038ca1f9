"""Format of ``/metrics``, chosen by Accept (RFC 9110, 12.5.1).

A header that is broken, or asks for nothing that there is, gets the plainest answer: a scrape is
worth more than a 406.
"""

from functools import lru_cache
from typing import NamedTuple

from ragmon.content_coding import HeaderPart, header_parts

_SCHEMES = ("allow-utf-8", "underscores", "dots", "values")


class Format(NamedTuple):
    """A format that a scraper may ask for."""

    kind: str  # text, openmetrics or protobuf
    media: str
    parameters: tuple[tuple[str, str], ...]  # what tells it apart from others of this media type
    escaping: str = "underscores"
    is_escaping_said: bool = False  # whether the scraper asked for it
    explicit_only: bool = False  # ``*/*`` is no request for it

    @property
    def content_type(self) -> str:
        """The header of the answer, with the version and the escaping in use."""
        parts = [self.media, *(f"{name}={value}" for name, value in self.parameters)]
        if self.kind != "protobuf":
            parts.append("charset=utf-8")
        if self.is_escaping_said:
            parts.append(f"escaping={self.escaping}")
        return "; ".join(parts)


TEXT = Format("text", "text/plain", (("version", "0.0.4"),))
TEXT_1 = Format("text", "text/plain", (("version", "1.0.0"),), explicit_only=True)
OPENMETRICS = Format("openmetrics", "application/openmetrics-text", (("version", "1.0.0"),))
PROTOBUF = Format(
    "protobuf",
    "application/vnd.google.protobuf",
    (("proto", "io.prometheus.client.MetricFamily"), ("encoding", "delimited")),
    explicit_only=True,
)

_OFFERS = (TEXT, TEXT_1, OPENMETRICS, PROTOBUF)
_DEFAULTS = {"text/plain": "0.0.4", "application/openmetrics-text": "1.0.0"}
"""Versions meant by a media type without one."""


@lru_cache(256)
def choose_format(accept: str) -> Format:
    """The format that a scraper likes best; text 0.0.4 where it names none that there is."""
    ranges = list(header_parts(accept))
    ranked: list[tuple[float, int, int, Format]] = []
    for offer in _OFFERS:
        fitting = [part for part in ranges if _fits(part, offer)]
        if not fitting:
            continue
        # The most specific range speaks for an offer, whatever less specific ones say.
        most = max(fitting, key=lambda part: (_specificity(part), part.quality))
        if most.quality > 0.0:
            asked = _with_escaping(offer, most.parameters.get("escaping"))
            ranked.append((most.quality, _specificity(most), -most.position, asked))
    return max(ranked, key=lambda row: row[:3])[-1] if ranked else TEXT


def _fits(part: HeaderPart, offer: Format) -> bool:
    kind = offer.media.partition("/")[0]
    if part.name != offer.media:
        return part.name in ("*/*", f"{kind}/*") and not offer.explicit_only
    asked = {"version": _DEFAULTS.get(offer.media, ""), **part.parameters}
    return all(asked.get(name) == value.lower() for name, value in offer.parameters)


def _specificity(part: HeaderPart) -> int:
    if part.name == "*/*":
        return 0
    return 1 if part.name.endswith("/*") else 2 + bool(part.parameters)


def _with_escaping(offer: Format, scheme: str | None) -> Format:
    if scheme is None or offer is TEXT:
        return offer
    known = scheme if scheme in _SCHEMES else "underscores"
    return offer._replace(escaping=known, is_escaping_said=True)
