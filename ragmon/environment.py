"""Environment variables that are no settings."""

CLIENT_TOKEN = "RAGMON_API_TOKEN"  # noqa: S105 - the name of the variable
"""Bearer token of the commands that ask another ragmon."""
