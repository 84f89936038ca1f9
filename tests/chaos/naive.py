"""The control: a worker that goes on behind a batch that it could not commit.

It does what a consumer does whose author takes a commit for a thing that may be skipped: nothing
is sought back. The position is still committed with the records.
"""

from ragmon.errors import StoreError, StoreFencedError
from ragmon.sources.kafka.shared import SharedSource


def apply() -> None:
    """Make the workers of this process so."""
    careful = SharedSource.step

    def step(self: SharedSource) -> bool:
        kept, self.begin_again = self.begin_again, _nothing  # type: ignore[method-assign]
        try:
            return careful(self)
        except StoreFencedError:
            kept()
            raise
        except StoreError:
            return False
        except BaseException:
            kept()
            raise
        finally:
            self.begin_again = kept  # type: ignore[method-assign]

    SharedSource.step = step  # type: ignore[method-assign]


def _nothing() -> None:
    """Throw nothing away."""
