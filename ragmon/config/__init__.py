"""Settings: what they are, where they come from, and what ragmon is built from by them."""

from ragmon.config.loading import Loaded, load
from ragmon.config.settings import Settings

__all__ = ["Loaded", "Settings", "load"]
