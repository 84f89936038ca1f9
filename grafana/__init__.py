"""Grafana dashboards as code: ``python -m grafana.generate`` writes them.

A board is one file in ``grafana/boards``; what it is made of stands in ``panels`` and ``metrics``.
"""
