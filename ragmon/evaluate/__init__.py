"""The same metrics over a golden set: score a run, compare two, gate a release.

``cases`` are questions with what is known to be right; a *run* is what the RAG system did with
them (one ``QueryRecord`` a case). ``loaders`` read both from files, ``endpoint`` and ``stored``
make runs; ``scoring`` turns them into a matrix of per-case scores, from ``ranking`` (labels),
``generation`` (answers) and the monitor's own signals; ``strata``, ``significance``, ``gate`` and
``comparison`` say what the scores prove; ``report`` shows it.
"""
