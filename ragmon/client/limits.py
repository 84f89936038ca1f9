"""Version of the client, and the sizes that the server accepts.

They stand here because ``ragmon-client`` is installed without the server's modules;
``tests/client/test_limits.py`` compares them with ``ragmon/records.py`` and ``ragmon/__init__.py``.
"""

from __future__ import annotations

VERSION = "0.1.0"

MAX_ID = 256
MAX_TEXT = 1_000_000
MAX_CHUNKS = 1_000
MAX_TAGS = 64
MAX_STEPS = 200
MAX_DIMENSIONS = 8_192
MAX_FEEDBACK_TEXT = 10_000
