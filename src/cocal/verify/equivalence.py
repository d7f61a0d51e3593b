"""Answer equivalence: deterministic, bounded in time and memory, safe against hostile answers."""

import logging
import multiprocessing
from collections.abc import Hashable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING

import numpy as np

from cocal.config.protocol import Verifier as VerifierSettings
from cocal.errors import ConfigError
from cocal.verify.comparison import compare_all, prepare
from cocal.verify.normalise import canonical_integer, is_word, nesting, plain_answer
from cocal.verify.notation import contradicted, without_unit
from cocal.verify.partition import Rows, forms_of, partition

if TYPE_CHECKING:
    from pebble import ProcessPool

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
"""Gold answer, answer: math-verify is not symmetric."""

_CHUNK = 16
"""Comparisons sent to a process together; a few milliseconds each."""
_CHUNK_TIMEOUT = 1.0
"""Seconds for a chunk, before its comparisons get the full time each."""
_BARREN_POOLS = 3
"""Pools in a row that may break before anything is judged."""


class Verifier:
    """Judges mathematics (section 3: a rule-based verifier; appendix B.1: deterministic answer matching).

    Answers that are the same text but for typesetting (`plain_answer`) are equivalent; two plain integers are
    equivalent if they are the same number, two bare words if they are the same letters; bases, ordered lists and units
    in words are read by `cocal.verify.notation`; all else is math-verify's to decide, in processes that are killed when
    a comparison takes too long or too much memory. Such a comparison counts as not equivalent, as does one with an
    answer beyond `settings.max_answer_length` or `settings.max_nesting`. However hostile the answers, f failures among
    n different comparisons cost at most f times `settings.timeout` plus as many times a chunk's time-out, beyond the
    time of the others and of new processes for those that were killed. The judge of mathematics
    (`cocal.verify.judge.Judge`).

    Args:
        settings: bounds of one comparison.
        workers: checking processes.
    """

    def __init__(self, settings: VerifierSettings, workers: int = 1) -> None:
        self._settings = settings
        self._workers = workers
        self._processes: ProcessPool | None = None

    def __enter__(self) -> "Verifier":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the checking processes. A later comparison starts new ones."""
        if self._processes is not None:
            self._processes.stop()
            self._processes.join()
            self._processes = None

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str] = ()
    ) -> np.ndarray:
        """Whether each answer is equivalent to any of its gold answers.

        Args:
            golds: accepted answers (the answer and its aliases) of each of n responses.
            answers: extracted answers, None without one.
            questions: not needed.

        Returns:
            Booleans, shape (n,); False without an answer.
        """
        pairs, rows = [], []
        for row, (accepted, answer) in enumerate(zip(golds, answers, strict=True)):
            if answer is not None:
                pairs += [(gold, answer) for gold in accepted]
                rows += [row] * len(accepted)
        verdicts = np.zeros(len(answers), dtype=bool)
        np.logical_or.at(verdicts, np.array(rows, dtype=np.intp), self.equivalent(pairs))
        return verdicts

    def equivalent(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Whether the second answer of each (gold, answer) pair is equivalent to the first.

        Equal pairs are judged once.

        Returns:
            Booleans, shape (len(pairs),).

        Raises:
            ConfigError: if no checking process can start within `settings.memory_mb`.
        """
        forms = {text: self._form(text) for pair in pairs for text in pair}
        known = [_compared(forms[gold], forms[answer]) for gold, answer in pairs]
        verdicts = {pair: _obvious(*pair) for pair in known}
        verdicts |= self._judge([pair for pair, verdict in verdicts.items() if verdict is None])
        return np.array([verdicts[pair] for pair in known], dtype=bool)

    def classes(
        self, answers: Sequence[str | None], pools: Sequence[Hashable] | None = None, questions: Sequence[str] = ()
    ) -> np.ndarray:
        """Equivalence classes of the answers within each pool.

        Two answers share a class if either, as gold, is equivalent to the other, or a chain of such pairs links them.

        Args:
            answers: extracted answers of n responses, None without one.
            pools: pool of each response (any hashable, such as the question); one pool by default.
            questions: not needed.

        Returns:
            int64 (n,): classes of each pool, numbered from 0 in the order in which they first occur; -1 without an
            answer.
        """

        def linked(pairs: list[Rows]) -> list[bool]:
            texts = [_compared(self._form(answers[first]), self._form(answers[second])) for first, second in pairs]
            verdicts = {pair: _obvious(*pair) for pair in texts}
            undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
            judged = self._judge(list(dict.fromkeys(both for a, b in undecided for both in ((a, b), (b, a)))))
            return [bool(verdicts[a, b]) or judged.get((a, b), False) or judged.get((b, a), False) for a, b in texts]

        forms = forms_of(answers, self._form)
        return partition(forms, [0] * len(answers) if pools is None else pools, linked)

    def _form(self, text: str) -> str | None:
        """The form in which equal texts are equivalent; None if the text is too long or too deep to be compared."""
        if len(text) > self._settings.max_answer_length:
            return None
        plain = plain_answer(text)
        if nesting(plain) > self._settings.max_nesting:
            return None
        return canonical_integer(plain) or plain

    def _judge(self, pairs: list[Pair]) -> dict[Pair, bool]:
        """math-verify's verdicts.

        Chunks save round trips. One that fails is judged again pair by pair with the full time each, so that only
        the pair at fault is given up.
        """
        chunks = [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
        verdicts, failed = self._compare(chunks, min(_CHUNK_TIMEOUT, self._settings.timeout))
        alone, given_up = self._compare([[pair] for chunk in failed for pair in chunk], self._settings.timeout)
        if given_up:
            logger.warning(
                "verifier: %d of %d comparisons hung or crashed (bounds: %g s, %d MiB) and count as not equivalent",
                len(given_up),
                len(pairs),
                self._settings.timeout,
                self._settings.memory_mb,
            )
        return verdicts | alone | {pair: False for chunk in given_up for pair in chunk}

    def _compare(self, chunks: list[list[Pair]], timeout: float) -> tuple[dict[Pair, bool], list[list[Pair]]]:
        """Verdicts of the chunks that came through, and the chunks that hung, crashed or ran out of memory."""
        from pebble import ProcessExpired

        verdicts: dict[Pair, bool] = {}
        failed = []
        barren = 0
        while chunks:
            pool = self._pool()
            futures = [pool.schedule(compare_all, args=(chunk,), timeout=timeout) for chunk in chunks]
            lost = []
            for chunk, future in zip(chunks, futures, strict=True):
                try:
                    verdicts |= zip(chunk, future.result(), strict=True)
                except (TimeoutError, ProcessExpired, MemoryError):
                    failed.append(chunk)
                except BrokenProcessPool:
                    lost.append(chunk)  # a process died between two chunks and took its pool with it
            barren = barren + 1 if len(lost) == len(chunks) else 0
            if barren == _BARREN_POOLS:
                raise RuntimeError(f"verifier: the processes of {barren} pools died without judging anything")
            chunks = lost
        return verdicts, failed

    def _pool(self) -> "ProcessPool":
        """The running pool; a new one if there is none or it broke."""
        if self._processes is not None and not self._processes.active:
            self.close()
        if self._processes is None:
            self._processes = _start(self._settings.memory_mb, self._workers)
        return self._processes


def _compared(gold: str | None, answer: str | None) -> tuple[str | None, str | None]:
    """The two forms as they are compared."""
    if gold is None or answer is None or gold == answer:
        return gold, answer
    first, second = without_unit(gold, answer)
    return canonical_integer(first) or first, canonical_integer(second) or second


def _obvious(gold: str | None, answer: str | None) -> bool | None:
    """The verdict on two forms where no computer algebra is needed, else None."""
    if gold is None or answer is None:
        return False
    if gold == answer:
        return True
    if is_word(gold) and is_word(answer):
        return gold.lower() == answer.lower()
    both_integers = canonical_integer(gold) is not None and canonical_integer(answer) is not None
    return False if both_integers else contradicted(gold, answer)


def _start(memory_mb: int, workers: int) -> "ProcessPool":
    """A pool whose processes are known to be able to compare.

    A fork server makes them: forking this process would copy the locks of its threads (torch, pebble) in whatever
    state they are, and spawning would import the computer algebra anew for each process that was killed.
    """
    from pebble import ProcessPool

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cocal.verify.comparison", "math_verify"])
    pool = ProcessPool(workers, initializer=prepare, initargs=(memory_mb,), context=context)
    try:
        pool.schedule(compare_all, args=([],)).result()
    except BrokenProcessPool:
        pool.stop()
        pool.join()
        raise ConfigError(
            f"verifier: no checking process can start with memory_mb = {memory_mb}; its own message stands above: "
            "raise the bound, or mend the installation of math-verify"
        ) from None
    return pool
