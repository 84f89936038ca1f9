"""The detectors over past queries: alerts that would have fired, and the cost of each rule.

``log_files`` and ``from_store`` read queries into ``queries``, ``run`` judges them with the
detectors and the alert timeline of the daemon, ``costs`` counts, ``table`` prints.
"""
