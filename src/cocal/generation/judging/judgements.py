"""A judge's replies, which are stored by the content of their messages so that no message is sent twice."""

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
"""A function that returns a judge's plain-text replies to messages."""


class Judgements:
    """Replies of one judge to messages; a context manager that closes the judge at its end.

    Replies are kept as Parquet files in the subfolder of `cache` that is named by the digest of `identity`. Each row
    holds one message's reply, under the digest of the message. Files are written whole and never changed, so jobs may
    share the folder. If several jobs send the same message at the same time, the reply in the first file by name
    counts. If a file cannot be read, a warning names it and its messages are sent again. The folder may be deleted.

    Args:
        open_judge: Function that opens the judge and yields the function that asks it and its engine's label.
        identity: Everything that a reply depends on besides its message.
        cache: Folder of all judges' replies.
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
        """Close the judge; a later message opens it again."""
        self._judge = None
        self._stack.close()

    def replies(self, messages: Sequence[str]) -> pd.DataFrame:
        """Return the reply to each message; distinct new messages are sent once, in one batch.

        Returns:
            Table with the columns reply and engine (the label of the engine), in the order of the messages.
        """
        keys = [_key(message) for message in messages]
        unknown = {k: m for k, m in zip(keys, messages, strict=True) if k not in self._known.index}
        if unknown:
            logger.info("judge: %d of %d distinct messages are new and are sent", len(unknown), len(set(keys)))
            self._ask(unknown)
        return self._known.loc[keys].reset_index(drop=True)

    def _ask(self, messages: dict[str, str]) -> None:
        """Send messages, given by key, and store the replies."""
        if self._judge is None:
            self._judge = self._stack.enter_context(self._open())
        ask, engine = self._judge
        frame = pd.DataFrame({"key": list(messages), "reply": ask(list(messages.values())), "engine": engine})
        name = _key("".join(messages))
        write_frame(self._folder / f"{name}.parquet", frame, JUDGEMENTS, provenance("judge", self._identity))
        self._known = pd.concat([self._known, frame.set_index("key")])

    def _read(self) -> pd.DataFrame:
        """Read all stored replies of this judge, indexed by key."""
        parts = [pd.DataFrame({name: [] for name in JUDGEMENTS.columns}, dtype="str")]
        for file in sorted(self._folder.glob("*.parquet")):
            try:
                parts.append(read_frame(file, JUDGEMENTS))
            except ContractError as error:
                logger.warning("stored judgements cannot be read and are asked again: %s", error)
        return pd.concat(parts, ignore_index=True).drop_duplicates("key").set_index("key")


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
