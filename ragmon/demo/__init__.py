"""A small real RAG application and its traffic, for ragmon to monitor.

A question passes ``retriever`` (BM25 over ``corpus``, the Python language reference) and
``answerer`` (the best sentences, with citations), tied together by ``application``. ``questions``
knows which chunks answer which question; ``traffic`` decides who asks what and when; ``incidents``
what goes wrong; ``history`` plays a day of it, ``live`` goes on from there.
"""
