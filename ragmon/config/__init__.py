"""Settings: fields, defaults and help, loaded from a file, the environment and flags."""

from ragmon.config.loading import Loaded, load
from ragmon.config.settings import Settings

__all__ = ["Loaded", "Settings", "load"]
