"""The dashboards, one file a question; each exports ``BOARD``."""
