"""Writing in a thread of its own, so that the work that gives the next results does not wait for a disk."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class WriteBehind:
    """Runs writes one after the other in a thread of its own.

    At most one write is under way, so no more than one step's results wait in memory. An error of a write is raised
    by the next call, and what has not been waited for must not be taken as written.
    """

    def __init__(self):
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="write-behind")
        self._under_way: Future | None = None

    def start(self, write: Callable[[], None]) -> None:
        """Start a write as soon as the one before it has ended.

        Raises:
            Exception: what the write before it raised.
        """
        self.wait()
        self._under_way = self._thread.submit(write)

    def wait(self) -> None:
        """Wait until all that was started is written.

        Raises:
            Exception: what the write raised; it is raised once.
        """
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
