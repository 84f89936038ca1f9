"""The HTTP side of everything that is asked of ragmon."""
