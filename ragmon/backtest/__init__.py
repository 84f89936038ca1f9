"""The detectors over what is past: what would have fired, when, and what each rule would cost.

``logs`` and ``stored`` read queries, ``history`` lives through them with the detectors and the
alert machine as shipped, ``costs`` counts, ``table`` prints.
"""
