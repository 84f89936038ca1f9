"""Topics: what people ask, grouped by the words they use, and which groups are served worse.

Nothing here does I/O or reads a clock. ``terms`` turns questions into numbers, ``sample`` keeps
what the model is fitted to, ``model`` finds topics and assigns questions to them, ``outcomes``
compares each topic with the rest, ``identity`` recognizes topics of an earlier day.
"""
