"""Documents in retrieval: how often and where each is retrieved, cited, and behind bad answers.

``gathering`` counts one pass over records, a piece at a time; ``blame`` compares answers with a
document with answers to like questions without it; ``twins`` finds texts that are nearly the same;
``changes`` tells which documents came and went; ``findings`` puts it all into the report of
``report``.
"""
