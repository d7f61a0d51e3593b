"""Equivalence of mathematical answers, decided deterministically and with bounded time and memory."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Hashable, Sequence
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from cocal.answers.alignment import aligned
from cocal.answers.comparison import compare_all, prepare
from cocal.answers.judge import Rows, Verdicts, decided_rows, forms_of, partition
from cocal.answers.notation import decided
from cocal.answers.settings import VerifierSettings
from cocal.answers.spelling import canonical_integer, depths, plain_answer
from cocal.errors import ConfigError, ContractError
from cocal.runtime.machine import processors

if TYPE_CHECKING:
    from pebble import ProcessPool

logger = logging.getLogger(__name__)

Pair = tuple[str | None, str | None]
"""Forms of a gold answer and of an answer, in the order that some rules need; None for an answer without a form."""

_CHUNK = 16
"""Number of comparisons that are sent to a process together; each takes a few milliseconds."""
_CHUNK_TIMEOUT = 1.0
"""Seconds of processor time for a chunk; if they do not suffice, each of its comparisons gets the full time."""
_MIN_ANSWERS = 100
"""Number of answers after which the share of undecided ones is checked."""
_GRACE = 60.0
"""Seconds beyond `wall_timeout` after which a pool that has not reported the end of a chunk is replaced."""
_MAX_BROKEN_POOLS = 3
"""Number of process pools in a row that may break without judging anything."""


class Verifier:
    """The judge of mathematics (section 3: a rule-based verifier; appendix B.1: deterministic answer matching).

    Two answers are equivalent if their texts differ only in typesetting (`cocal.answers.spelling`), two plain integers
    if they are the same number. `cocal.answers.notation` decides on units, bases, words and ordered lists. Computer
    algebra decides everything else (`cocal.answers.algebra`), in processes that are killed when a comparison takes too
    much processor time or memory; such a comparison stays undecided and counts as not equivalent, as do two answers
    that computer algebra cannot read: a number found inside a text never stands for it. A number that is too large to
    evaluate (`cocal.answers.sizes`) equals nothing but its own text, since a process that is ended counts as a
    time-out; an answer beyond `settings.max_answer_length` or `settings.max_nesting` equals nothing.

    Comparisons are bounded by processor time, so that verdicts do not depend on other work on the machine. If a process
    ends for another reason or exceeds `settings.wall_timeout`, its comparison is tried once more. There are half as
    many processes as this one has processors, at most eight; they start with the first comparison that needs one. To
    end them, close the verifier or use it as a context manager.
    """

    def __init__(self, settings: VerifierSettings) -> None:
        self._settings = settings
        # each process of a training on this machine has a verifier
        share = processors() // 2 // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self._workers = max(1, min(8, share))
        self._processes: ProcessPool | None = None
        self._answers = self._given_up = 0
        self._exceeded: set[Pair] = set()
        self._bounds = (
            f"exceeded verifier.timeout = {settings.timeout:g} s of processor time or verifier.memory_mb = "
            f"{settings.memory_mb}, or twice crashed or outlasted verifier.wall_timeout = {settings.wall_timeout:g} s"
        )

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
        """See `Judge.correct`: an answer is right if it is equivalent to any of its gold answers. It is undecided if it
        is equivalent to none and one of its comparisons was given up. The questions are not used.

        Raises:
            ConfigError: if no checking process can start within `settings.memory_mb`.
            ContractError: if more than `settings.max_timeouts` of the answers stay undecided.
        """
        pairs, rows = [], []
        for row, (accepted, answer) in enumerate(zip(golds, answers, strict=True)):
            if answer is not None:
                pairs += [(gold, answer) for gold in accepted]
                rows += [row] * len(accepted)
        forms = {text: self._form(text) for pair in pairs for text in pair}
        pairs = [_compared(forms[gold], forms[answer]) for gold, answer in pairs]
        verdicts = {pair: _obvious(*pair) for pair in pairs}
        verdicts |= self._judge([pair for pair, verdict in verdicts.items() if verdict is None])
        right, undecided, exceeded = np.zeros((3, len(answers)), dtype=bool)
        at = np.array(rows, dtype=np.intp)
        np.logical_or.at(right, at, [verdicts[pair] is True for pair in pairs])
        np.logical_or.at(undecided, at, [verdicts[pair] is None for pair in pairs])
        np.logical_or.at(exceeded, at, [pair in self._exceeded for pair in pairs])
        self._count(answers, exceeded & ~right)
        return Verdicts(right, right | ~undecided)

    def explained(self, gold: str, answer: str) -> "Explained":
        """The verdict on one pair, with the rule that decided and what was compared.

        Raises:
            ConfigError: if no checking process can start within `settings.memory_mb`.
        """
        first, second = _compared(self._form(gold), self._form(answer))
        if first is None or second is None:
            bounds = f"{self._settings.max_answer_length} characters or {self._settings.max_nesting} nested brackets"
            return Explained(False, f"An answer beyond {bounds} is not compared.", first, second)
        verdict, rule = decided(first, second)
        if verdict is None:
            verdict = self._judge([(first, second)])[first, second]
            rule = "Neither is read, or it takes too long." if verdict is None else "Computer algebra compares them."
        return Explained(bool(verdict), rule, first, second)

    def classes(
        self, answers: Sequence[str | None], pools: Sequence[Hashable] | None = None, questions: Sequence[str] = ()
    ) -> Verdicts:
        """See `Judge.classes`: any two members of a class are equivalent, with one or the other as the gold answer. An
        answer is undecided if its comparison with an answer of another class is. Without `pools` all answers are one
        pool; the questions are not used. Raises a ContractError if the comparisons of more than `settings.max_timeouts`
        of the answers are given up."""
        open_pairs: list[Rows] = []
        given_up: list[Rows] = []

        def linked(pairs: list[Rows]) -> list[bool]:
            given = ((answers[first] or "", answers[second] or "") for first, second in pairs)
            texts = [_compared(self._form(first), self._form(second)) for first, second in given]
            verdicts = {pair: _obvious(*pair) for pair in texts}
            undecided = [pair for pair, verdict in verdicts.items() if verdict is None]
            judged = self._judge(list(dict.fromkeys(both for a, b in undecided for both in ((a, b), (b, a)))))
            outcomes = [{verdicts[a, b]} - {None} or {judged[a, b], judged[b, a]} for a, b in texts]
            open_pairs.extend(pair for pair, of_pair in zip(pairs, outcomes, strict=True) if None in of_pair)
            given_up.extend(
                pair for pair, (a, b) in zip(pairs, texts, strict=True) if self._exceeded & {(a, b), (b, a)}
            )
            return [True in of_pair for of_pair in outcomes]

        forms = forms_of(answers, self._form)
        known = [0] * len(answers) if pools is None else pools
        labels = partition(forms, known, linked)
        self._count(answers, ~decided_rows(forms, known, labels, given_up))
        return Verdicts(labels, decided_rows(forms, known, labels, open_pairs))

    def _count(self, answers: Sequence[str | None], exceeded: np.ndarray) -> None:
        """Count the answers and those whose comparison was given up; raise a ContractError if these are too many."""
        self._answers += sum(answer is not None for answer in answers)
        self._given_up += int(np.count_nonzero(exceeded))
        if self._answers >= _MIN_ANSWERS and self._given_up > self._settings.max_timeouts * self._answers:
            raise ContractError(
                f"verifier: {self._given_up} of {self._answers} answers stay undecided, more than "
                f"verifier.max_timeouts = {self._settings.max_timeouts:g}: their comparisons {self._bounds}. Raise "
                "these bounds, or look at the answers and raise verifier.max_timeouts"
            )

    def _form(self, text: str) -> str | None:
        """The form of an answer, which equivalent answers may share; None if it is too long or too deeply nested."""
        if len(text) > self._settings.max_answer_length:
            return None
        if number := canonical_integer(text):
            return number
        plain = plain_answer(text)
        if max(depths(plain), default=0) > self._settings.max_nesting:
            return None
        return canonical_integer(plain) or plain

    def _judge(self, pairs: list[Pair]) -> dict[Pair, bool | None]:
        """The verdicts of computer algebra; None if neither answer can be read, or if the comparison was given up.

        The pairs of a chunk that fails are judged one by one with the full time for each. A pair whose process failed
        before it reached its bounds is judged once more.
        """
        chunks = [pairs[start : start + _CHUNK] for start in range(0, len(pairs), _CHUNK)]
        together = self._compare(chunks, min(_CHUNK_TIMEOUT, self._settings.timeout))
        singles = [[pair] for chunk in together.exhausted + together.lost for pair in chunk]
        alone = self._compare(singles, self._settings.timeout)
        again = self._compare(alone.lost, self._settings.timeout)
        given_up = [pair for (pair,) in alone.exhausted + again.exhausted + again.lost]
        self._exceeded |= set(given_up)
        if given_up:
            logger.warning(
                "verifier: %d of %d comparisons stay undecided and count as not equivalent: they %s",
                len(given_up),
                len(pairs),
                self._bounds,
            )
        return together.verdicts | alone.verdicts | again.verdicts | dict.fromkeys(given_up)

    def _compare(self, chunks: list[list[Pair]], timeout: float) -> "_Outcome":
        """Compare chunks in processes that may spend `timeout` seconds of processor time on each chunk."""
        from pebble import ProcessExpired

        verdicts: dict[Pair, bool | None] = {}
        exhausted, broken, broken_pools = [], [], 0
        while chunks:
            if self._processes is not None and not self._processes.active:
                self.close()
            pool = self._processes = self._processes or _start(self._settings.memory_mb, self._workers)
            wall = self._settings.wall_timeout
            futures = [pool.schedule(compare_all, args=(chunk, timeout), timeout=wall) for chunk in chunks]
            lost = []
            for chunk, future in zip(chunks, futures, strict=True):
                try:
                    verdicts |= zip(chunk, future.result(wall + _GRACE), strict=True)
                except MemoryError:
                    exhausted.append(chunk)
                except ProcessExpired as end:
                    (exhausted if end.exitcode == -signal.SIGPROF else broken).append(chunk)
                except TimeoutError:
                    if future.done():
                        broken.append(chunk)
                    else:  # the pool itself hangs, as it may where a process was killed from outside
                        lost.append(chunk)
                        self._processes = None
                        pool.stop()  # which ends its other chunks; to wait for it could take for ever
                except (BrokenProcessPool, CancelledError):
                    lost.append(chunk)  # a process died between two chunks and broke its pool
            broken_pools = broken_pools + 1 if len(lost) == len(chunks) else 0
            if broken_pools == _MAX_BROKEN_POOLS:
                raise RuntimeError(f"verifier: the processes of {broken_pools} pools died without judging anything")
            chunks = lost
        return _Outcome(verdicts, exhausted, broken)


class Explained(NamedTuple):
    """A verdict on a gold answer and an answer.

    Attributes:
        correct: Whether they are equivalent; False where this stays undecided.
        rule: The rule that decided, in words.
        gold, answer: The forms that were compared; None for a text that is too long or nested too deeply.
    """

    correct: bool
    rule: str
    gold: str | None
    answer: str | None


class _Outcome(NamedTuple):
    """The verdicts of finished chunks, those that used up their time or memory, and those whose process ended
    otherwise."""

    verdicts: dict[Pair, bool | None]
    exhausted: list[list[Pair]]
    lost: list[list[Pair]]


def _compared(gold: str | None, answer: str | None) -> Pair:
    """The two forms without what only one of them states, such as a unit."""
    if gold is None or answer is None or gold == answer:
        return gold, answer
    first, second = aligned(gold, answer)
    return canonical_integer(first) or first, canonical_integer(second) or second


def _obvious(gold: str | None, answer: str | None) -> bool | None:
    """The verdict on two forms if it needs no computer algebra, otherwise None."""
    if gold is None or answer is None:
        return False
    return decided(gold, answer)[0]


def _start(memory_mb: int, workers: int) -> "ProcessPool":
    """Start a pool of processes and test that they can compare.

    A fork server creates them. Forking this process would copy the locks of its threads (torch, pebble) in whatever
    state they are, and spawning would import the computer algebra again for each process that was killed.
    """
    from pebble import ProcessPool

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cocal.answers.comparison", "cocal.answers.algebra"])
    of_pebble = cast(Any, context)  # pebble's annotation names a module
    pool = ProcessPool(workers, initializer=prepare, initargs=(memory_mb,), context=of_pebble)
    try:
        pool.schedule(compare_all, args=([], 0.0)).result()
    except BrokenProcessPool:
        pool.stop()
        pool.join()
        import __main__  # the script that this process was started with, which its checking processes import

        script = getattr(__main__, "__file__", None)
        remedy = "its message is printed above. Raise the bound, or repair the installation of math-verify"
        if script and "__main__" not in Path(script).read_text(encoding="utf-8", errors="replace"):
            remedy = f"each imports {script}; put `if __name__ == '__main__':` around what this script does"
        raise ConfigError(f"verifier: no checking process can start with memory_mb = {memory_mb}: {remedy}") from None
    return pool
