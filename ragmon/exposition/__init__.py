"""``/metrics``: the windows, the counters, and the monitor itself, in the format asked for."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragmon.content_coding import Encoded, encode, parts
from ragmon.exposition.negotiation import Format
from ragmon.exposition.protobuf import ProtobufRenderer
from ragmon.exposition.text import Family, render


class Renderers(NamedTuple):
    """Renderers that go on from one page to the next."""

    windows: ProtobufRenderer
    own: ProtobufRenderer


class RenderedPage:
    """Answers made of the same windows: in each format they are rendered and compressed once.

    What ragmon says of itself is added anew each time, behind them.
    """

    def __init__(self, families: Sequence[Family], renderers: Renderers) -> None:
        self.families = families
        self._renderers = renderers
        self._kept: dict[tuple[Format, str], Encoded] = {}

    def has(self, form: Format, coding: str) -> bool:
        """True when little is left to do for such an answer."""
        return (form, coding) in self._kept

    def prepare(self, form: Format, coding: str) -> None:
        """Render and compress what the windows say; on one thread at a time."""
        text = _rendered(self._renderers.windows, self.families, form)
        self._kept[form, coding] = encode(coding, text)

    def answer(self, form: Format, coding: str, own: Iterable[Family]) -> tuple[bytes, ...]:
        """The whole answer in parts: what was prepared, which is not copied, and ragmon's own."""
        rest = _rendered(self._renderers.own, own, form)
        if form.kind == "openmetrics":
            rest += b"# EOF\n"
        return parts(coding, self._kept[form, coding], rest)


def page(families: Iterable[Family], form: Format) -> bytes:
    """One answer of all families, as it is read once."""
    text = _rendered(ProtobufRenderer(), families, form)
    return text + b"# EOF\n" if form.kind == "openmetrics" else text


def _rendered(protobuf: ProtobufRenderer, families: Iterable[Family], form: Format) -> bytes:
    if form.kind == "protobuf":
        return protobuf.render(families, form.escaping)
    return render(families, form)
