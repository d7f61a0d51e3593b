"""Answer equivalence: deterministic, bounded in time and memory, safe against hostile answers."""

import logging
import multiprocessing
import signal
from collections.abc import Hashable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cocal.answers.comparison import compare_all, prepare
from cocal.answers.judge import Verdicts
from cocal.answers.normalise import canonical_integer, is_word, nesting, plain_answer
from cocal.answers.notation import contradicted, without_unit
from cocal.answers.partition import Rows, decided_rows, forms_of, partition
from cocal.config.evaluation import VerifierSettings
from cocal.errors import ConfigError, ContractError

if TYPE_CHECKING:
    from pebble import ProcessPool

logger = logging.getLogger(__name__)

Pair = tuple[str, str]
"""Gold answer, answer: math-verify is not symmetric."""

_CHUNK = 16
"""Comparisons sent to a process together; a few milliseconds each."""
_CHUNK_TIMEOUT = 1.0
"""Seconds of processor time for a chunk, before its comparisons get the full time each."""
_ENOUGH = 100
"""Answers after which a share of undecided ones is telling."""
_BARREN_POOLS = 3
"""Pools in a row that may break before anything is judged."""


class Verifier:
    """Judges mathematics (section 3: a rule-based verifier; appendix B.1: deterministic answer matching).

    Answers that are the same text but for typesetting (`plain_answer`) are equivalent; two plain integers are
    equivalent if they are the same number, two bare words if they are the same letters; bases, ordered lists and units
    in words are read by `cocal.answers.notation`; all else is math-verify's to decide, in processes that are killed
    when a comparison takes too much processor time or memory. Such a comparison stays undecided and counts as not
    equivalent; one with an answer beyond `settings.max_answer_length` or `settings.max_nesting` is decided: it is not
    equivalent.
    Processor time, and not the clock, bounds a comparison, so that a verdict does not depend on what else the machine
    does. A process that ends for another reason, or that outlasts `settings.wall_timeout`, says nothing about its
    comparison, which is then tried once more.
    However hostile the answers, f failures among n different comparisons cost at most f times `settings.timeout` plus
    as many times a chunk's time-out, beyond the time of the others and of new processes for those that were killed.
    The judge of mathematics (`cocal.answers.judge.Judge`).

    Processes start with the first comparison that needs one; close the verifier, or use it as a context manager, to
    end them.

    Args:
        settings: bounds of one comparison.
        workers: checking processes.
    """

    def __init__(self, settings: VerifierSettings, workers: int = 1) -> None:
        self._settings = settings
        self._workers = workers
        self._processes: ProcessPool | None = None
        self._answers = self._undecided = 0

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
    ) -> Verdicts:
        """Whether each answer is equivalent to any of its gold answers.

        Args:
            golds: accepted answers (the answer and its aliases) of each of n responses.
            answers: extracted answers, None without one.
            questions: not needed.

        Returns:
            bool (n,); False without an answer. Undecided is an answer that is equivalent to no gold answer, and of
            which the comparison with one was given up.

        Raises:
            ContractError: if more than `settings.max_timeouts` of the answers stay undecided.
        """
        pairs, rows = [], []
        for row, (accepted, answer) in enumerate(zip(golds, answers, strict=True)):
            if answer is not None:
                pairs += [(gold, answer) for gold in accepted]
                rows += [row] * len(accepted)
        right, given_up = np.zeros((2, len(answers)), dtype=bool)
        verdicts = self._verdicts(pairs)
        np.logical_or.at(right, np.array(rows, dtype=np.intp), [verdict is True for verdict in verdicts])
        np.logical_or.at(given_up, np.array(rows, dtype=np.intp), [verdict is None for verdict in verdicts])
        return self._counted(answers, right, right | ~given_up)

    def equivalent(self, pairs: Sequence[Pair]) -> np.ndarray:
        """Whether the second answer of each (gold, answer) pair is equivalent to the first.

        Equal pairs are judged once.

        Returns:
            Booleans, shape (len(pairs),); False where nothing was decided.

        Raises:
            ConfigError: if no checking process can start within `settings.memory_mb`.
        """
        return np.array([verdict is True for verdict in self._verdicts(pairs)], dtype=bool)

    def _verdicts(self, pairs: Sequence[Pair]) -> list[bool | None]:
        """Verdict of each pair; None where the comparison was given up."""
        forms = {text: self._form(text) for pair in pairs for text in pair}
        known = [_compared(forms[gold], forms[answer]) for gold, answer in pairs]
        verdicts = {pair: _obvious(*pair) for pair in known}
        verdicts |= self._judge([pair for pair, verdict in verdicts.items() if verdict is None])
        return [verdicts[pair] for pair in known]

    def classes(
        self, answers: Sequence[str | None], pools: Sequence[Hashable] | None = None, questions: Sequence[str] = ()
    ) -> Verdicts:
        """Equivalence classes of the answers within each pool.

        Two answers share a class if either, as gold, is equivalent to the other, or a chain of such pairs links them.

        Args:
            answers: extracted answers of n responses, None without one.
            pools: pool of each response (any hashable, such as the question); one pool by default.
            questions: not needed.

        Returns:
            int64 (n,): classes of each pool, numbered from 0 in the order in which they first occur; -1 without an
            answer. Undecided is an answer whose comparison with one of another class was given up.

        Raises:
            ContractError: if more than `settings.max_timeouts` of the answers stay undecided.
        """
        open_pairs: list[Rows] = []

        def linked(pairs: list[Rows]) -> list[bool]:
            texts = [_compared(self._form(answers[first]), self._form(answers[second])) for first, second in pairs]
            verdicts = {pair: _obvious(*pair) for pair in texts}
            undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
            judged = self._judge(list(dict.fromkeys(both for a, b in undecided for both in ((a, b), (b, a)))))
            found = [{verdicts[a, b]} - {None} or {judged[a, b], judged[b, a]} for a, b in texts]
            open_pairs.extend(pair for pair, of_pair in zip(pairs, found, strict=True) if None in of_pair)
            return [True in of_pair for of_pair in found]

        forms = forms_of(answers, self._form)
        known = [0] * len(answers) if pools is None else pools
        labels = partition(forms, known, linked)
        return self._counted(answers, labels, decided_rows(forms, known, labels, open_pairs))

    def _counted(self, answers: Sequence[str | None], values: np.ndarray, decided: np.ndarray) -> Verdicts:
        """The verdicts, unless too many of all answers so far are undecided."""
        self._answers += sum(answer is not None for answer in answers)
        self._undecided += int(np.count_nonzero(~decided))
        if self._answers >= _ENOUGH and self._undecided > self._settings.max_timeouts * self._answers:
            raise ContractError(
                f"verifier: {self._undecided} of {self._answers} answers stay undecided, more than "
                f"verifier.max_timeouts = {self._settings.max_timeouts:g}: their comparisons {self._bounds}. Raise "
                "these bounds, or look at the answers and raise verifier.max_timeouts"
            )
        return Verdicts(values, decided)

    @property
    def _bounds(self) -> str:
        """The bounds, for messages."""
        bounds = self._settings
        return (
            f"exceeded verifier.timeout = {bounds.timeout:g} s of processor time or verifier.memory_mb = "
            f"{bounds.memory_mb}, or twice crashed or outlasted verifier.wall_timeout = {bounds.wall_timeout:g} s"
        )

    def _form(self, text: str) -> str | None:
        """The form in which equal texts are equivalent; None if the text is too long or too deep to be compared."""
        if len(text) > self._settings.max_answer_length:
            return None
        plain = plain_answer(text)
        if nesting(plain) > self._settings.max_nesting:
            return None
        return canonical_integer(plain) or plain

    def _judge(self, pairs: list[Pair]) -> dict[Pair, bool | None]:
        """math-verify's verdicts; None where a comparison was given up.

        Chunks save round trips. One that fails is judged again pair by pair with the full time each, so that only
        the pair at fault is given up; a pair that did not use up its bounds is judged a second time.
        """
        chunks = [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
        together = self._compare(chunks, min(_CHUNK_TIMEOUT, self._settings.timeout))
        singles = [[pair] for chunk in together.exhausted + together.lost for pair in chunk]
        alone = self._compare(singles, self._settings.timeout)
        again = self._compare(alone.lost, self._settings.timeout)
        given_up = [pair for (pair,) in alone.exhausted + again.exhausted + again.lost]
        if given_up:
            logger.warning(
                "verifier: %d of %d comparisons stay undecided and count as not equivalent: they %s",
                len(given_up),
                len(pairs),
                self._bounds,
            )
        return together.verdicts | alone.verdicts | again.verdicts | dict.fromkeys(given_up)

    def _compare(self, chunks: list[list[Pair]], timeout: float) -> "_Outcome":
        """Compare chunks in processes that may each spend `timeout` seconds of processor time on one."""
        from pebble import ProcessExpired

        verdicts: dict[Pair, bool] = {}
        exhausted, broken = [], []
        barren = 0
        while chunks:
            pool = self._pool()
            wall = self._settings.wall_timeout
            futures = [pool.schedule(compare_all, args=(chunk, timeout), timeout=wall) for chunk in chunks]
            lost = []
            for chunk, future in zip(chunks, futures, strict=True):
                try:
                    verdicts |= zip(chunk, future.result(), strict=True)
                except MemoryError:
                    exhausted.append(chunk)
                except ProcessExpired as end:
                    (exhausted if end.exitcode == -signal.SIGPROF else broken).append(chunk)
                except TimeoutError:
                    broken.append(chunk)
                except BrokenProcessPool:
                    lost.append(chunk)  # a process died between two chunks and took its pool with it
            barren = barren + 1 if len(lost) == len(chunks) else 0
            if barren == _BARREN_POOLS:
                raise RuntimeError(f"verifier: the processes of {barren} pools died without judging anything")
            chunks = lost
        return _Outcome(verdicts, exhausted, broken)

    def _pool(self) -> "ProcessPool":
        """The running pool; a new one if there is none or it broke."""
        if self._processes is not None and not self._processes.active:
            self.close()
        if self._processes is None:
            self._processes = _start(self._settings.memory_mb, self._workers)
        return self._processes


class _Outcome(NamedTuple):
    """What became of chunks of comparisons.

    Attributes:
        verdicts: of the chunks that came through.
        exhausted: chunks that used up their processor time or memory.
        lost: chunks whose process outlasted the clock or ended for another reason.
    """

    verdicts: dict[Pair, bool]
    exhausted: list[list[Pair]]
    lost: list[list[Pair]]


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
    context.set_forkserver_preload(["cocal.answers.comparison", "math_verify"])
    pool = ProcessPool(workers, initializer=prepare, initargs=(memory_mb,), context=context)
    try:
        pool.schedule(compare_all, args=([], 0.0)).result()
    except BrokenProcessPool:
        pool.stop()
        pool.join()
        raise ConfigError(
            f"verifier: no checking process can start with memory_mb = {memory_mb}; its own message stands above: "
            "raise the bound, or mend the installation of math-verify"
        ) from None
    return pool
