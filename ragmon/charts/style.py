"""The style sheet of every chart.

The colours are those of Okabe and Ito (https://jfly.uni-koeln.de/color/), which colour-blind
readers tell apart, darkened on white and lightened on black until a line has a contrast of 3 : 1.
"""

COLOURS = 6
"""Curves that differ by colour; the next ones begin anew."""

CHART_STYLE = """
:root{--c1:#0072b2;--c2:#c45200;--c3:#00805d;--c4:#a8578a;--c5:#8a7300;--c6:#2b86b8;
--chart-ink:#111827;--chart-dim:#5b6472;--chart-line:#d5dae1;--chart-soft:#f3f5f8}
@media(prefers-color-scheme:dark){:root{--c1:#56b4e9;--c2:#f08a3c;--c3:#2fc49a;--c4:#e39ac4;
--c5:#d8c53a;--c6:#8fd0f5;--chart-ink:#e5e9f0;--chart-dim:#9aa4b2;--chart-line:#39424f;
--chart-soft:#1c222b}}
.chart{width:100%;height:auto;display:block}
.chart text{font:12px system-ui,sans-serif;fill:var(--chart-ink)}
.chart .dim{fill:var(--chart-dim)}
.chart .grid{stroke:var(--chart-line)}.chart .axis{stroke:var(--chart-dim)}
.chart .curve{fill:none;stroke-width:1.8;stroke-linejoin:round}
.chart .band{opacity:.18}.chart .layer{opacity:.75}
.chart .expected{fill:var(--chart-dim);opacity:.16}
.chart .mark{stroke:var(--chart-dim);stroke-dasharray:4 3}
.chart .noted{paint-order:stroke;stroke:var(--card,Canvas);stroke-width:3px;stroke-opacity:.75}
.chart .span{fill:var(--c2);opacity:.12}
.chart .span.silence,.chart .span.baseline{fill:var(--chart-dim)}
.chart .track{fill:var(--chart-soft)}.chart .bar{fill:var(--c1);opacity:.8}
.chart .before{fill:none;stroke:var(--chart-ink);stroke-width:1.4;stroke-dasharray:3 2}
.chart .whisker{stroke:var(--chart-ink);stroke-width:1.5}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;margin:.2rem 0}
.legend svg{width:1.6rem;height:.6rem;margin-right:.35rem;vertical-align:middle}
@media(max-width:48rem){.chart.wide{overflow:visible}.chart.wide text{font-size:20px}
.chart.wide .noted{font-size:16px}.chart.wide .minor{display:none}
.chart.wide .below{transform:translateY(7px)}}
@media print{.chart .band,.chart .layer{opacity:.35}}
"""


_DASHES = (None, "6 3", "2 2", "8 3 2 3", "10 4", "1 3")


def colour(at: int) -> str:
    """The CSS colour of the curve with this number."""
    return f"var(--c{at % COLOURS + 1})"


def dashes(at: int) -> str | None:
    """The dashes of the curve with this number; None is a whole line."""
    return _DASHES[at % COLOURS]
