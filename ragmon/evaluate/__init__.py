"""The same metrics over a golden set: score a run, compare two, gate a release.

``cases`` are questions with what is known to be right; a *run* is what the RAG system did with
them (one ``QueryRecord`` a case). ``loaders`` read both from files, ``run`` asks a live service or
reads labelled queries from the store; ``score`` turns cases and a run into a matrix of per-case
scores, from ``ranking`` (labels), answers, judges and the monitor's own signals; ``document`` is
the evaluation as JSON; ``compare`` holds the gate, the comparison of two evaluations and pairwise
preference; ``report`` renders them for a terminal, as HTML, Markdown and JUnit.
"""
