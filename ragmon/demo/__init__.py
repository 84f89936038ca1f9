"""A small real RAG application and its traffic, for ragmon to monitor.

A question passes ``retriever`` (BM25 over ``corpus``, the Python language reference) and
``answerer`` (the best sentences, with citations), tied together by ``application``. ``questions``
holds the questions with the chunks that answer them; ``traffic`` draws times, users and questions;
``incidents`` are the faults of the day; ``history`` has a past day of traffic, and live traffic.
"""
