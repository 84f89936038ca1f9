"""Pictures of the dashboards for README and docs: ``python -m tests.pictures``.

``day`` plays two days of the demo into a real daemon and writes down its scrapes, ``prometheus``
serves them, ``dashboard`` lays the panels of a board out in a matplotlib figure, ``charts`` and
``values`` fill them.
"""
