"""Replies of a judge, asked for once and kept by content."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pandas as pd

from cocal.errors import ContractError
from cocal.store import digest, provenance, read_frame, write_frame
from cocal.store.contracts import JUDGEMENTS

logger = logging.getLogger(__name__)

Ask = Callable[[Sequence[str]], list[str]]
"""From messages to plain replies."""


class Judgements:
    """Replies of one judge to messages; a context manager that holds the judge while it is needed.

    Replies are kept as Parquet files in a folder of their own below `cache`, named by the digest of `identity`, one
    row a message, keyed by the digest of its text. A file is written whole and never changed, so jobs may share the
    folder; what several of them ask at the same time is asked twice, and then the first file by name is believed. A
    file that cannot be read is named in a warning and its messages are asked again. All of it may be deleted.

    Args:
        open_judge: opens the judge: gives the function that asks, and what generates.
        identity: everything that a reply depends on besides its message.
        cache: folder.
    """

    def __init__(
        self, open_judge: Callable[[], AbstractContextManager[tuple[Ask, str]]], identity: dict, cache: Path
    ) -> None:
        self._open = open_judge
        self._identity = identity
        self._folder = cache / digest(identity)
        self._judge: tuple[Ask, str] | None = None
        self._stack = ExitStack()
        self._known = self._read()

    def __enter__(self) -> "Judgements":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the judge. A later question opens it again."""
        self._judge = None
        self._stack.close()

    def replies(self, messages: Sequence[str]) -> pd.DataFrame:
        """The reply to each message, and what generated it; equal messages are asked once, all in one batch.

        Returns:
            Columns reply and engine, in the order of the messages.
        """
        keys = [_key(message) for message in messages]
        unknown = {k: m for k, m in zip(keys, messages, strict=True) if k not in self._known.index}
        if unknown:
            logger.info("judge: %d of %d distinct messages are asked", len(unknown), len(set(keys)))
            self._ask(unknown)
        return self._known.loc[keys].reset_index(drop=True)

    def _ask(self, messages: dict[str, str]) -> None:
        """Ask, and keep the replies, by key."""
        if self._judge is None:
            self._judge = self._stack.enter_context(self._open())
        ask, engine = self._judge
        frame = pd.DataFrame({"key": list(messages), "reply": ask(list(messages.values())), "engine": engine})
        name = _key("".join(messages))
        write_frame(self._folder / f"{name}.parquet", frame, JUDGEMENTS, provenance("judge", self._identity))
        self._known = pd.concat([self._known, frame.set_index("key")])

    def _read(self) -> pd.DataFrame:
        """All kept replies of this judge, by key."""
        parts = [pd.DataFrame({name: [] for name in JUDGEMENTS.columns}, dtype="str")]
        for file in sorted(self._folder.glob("*.parquet")):
            try:
                parts.append(read_frame(file, JUDGEMENTS))
            except ContractError as error:
                logger.warning("kept judgements are asked again: %s", error)
        return pd.concat(parts, ignore_index=True).drop_duplicates("key").set_index("key")


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
