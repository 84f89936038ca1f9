"""Pictures of the dashboards: ``python -m grafana.drawing`` (six minutes).

The demo's application is asked for two days on a clock that runs fast, with a real daemon; its
``/metrics`` page is read every five minutes of them; a real Prometheus holds what was read and
answers every expression of every panel. Only the drawing is ours, where Grafana is not at hand.
"""
