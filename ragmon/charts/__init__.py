"""Charts as SVG text: lines with intervals, stacked areas, histograms, bars, timings.

Each function takes numbers and returns one ``<svg>`` to stand inline in a page that carries
``style.CHART_STYLE``; nothing is read, and no script is needed. Colours are CSS variables with a
light and a dark set, chosen to stay apart for colour-blind readers; curves also differ in their
dashes, so that a black-and-white print can be read.
"""
