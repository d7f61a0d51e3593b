"""A language model that judges factual answers: their equivalence, as in appendix B.1, and their correctness, for which
the paper names no judge."""

import logging
from collections.abc import Hashable, Sequence

import numpy as np

from cocal.answers.judge import LONGEST, ExactMatch, Verdicts, exact_form
from cocal.answers.partition import Rows, decided_rows, forms_of
from cocal.config.evaluation import LlmJudgeSettings
from cocal.errors import ContractError
from cocal.generation.judging.judgements import Judgements
from cocal.generation.judging.prompts import JudgePrompts, parse_reply

logger = logging.getLogger(__name__)

_BATCH = 16384
"""Number of messages that are sent and stored together, the most judgements that a killed job can lose."""
_MIN_REPLIES = 100
"""Number of replies from which too many unparsable ones stop the job at once; with fewer, the table is finished."""


class LlmJudge:
    """Asks a language model whether an answer means the same as an accepted answer or as another response's answer.

    It is a judge of factual answers (`cocal.answers.judge.Judge`). An answer longer than `cocal.answers.judge.LONGEST`
    is not sent to the model; as for exact match, it is wrong and equivalent to no other.

    Args:
        settings: Settings that say which answers are judged and how replies are read.
        judgements: The model's replies.
        prompts: Templates of the messages.
    """

    def __init__(self, settings: LlmJudgeSettings, judgements: Judgements, prompts: JudgePrompts) -> None:
        self._settings = settings
        self._judgements = judgements
        self._prompts = prompts
        self._replies: dict[str, str] = {}
        self._engines: set[str] = set()

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """See `cocal.answers.judge.Judge.correct`. An answer is undecided if the reply about it is no verdict.

        Raises:
            ContractError: if too many replies are no verdict.
        """
        verdicts = np.zeros(len(answers), dtype=bool)
        if self._settings.exact:
            verdicts |= ExactMatch().correct(golds, answers, questions).values
        open_rows = [
            row
            for row, answer in enumerate(answers)
            if answer is not None and len(answer) <= LONGEST and not verdicts[row]
        ]
        messages = [self._prompts.correctness(questions[row], golds[row], answers[row]) for row in open_rows]
        replies = self._ask(messages)
        decided = np.ones(len(answers), dtype=bool)
        verdicts[open_rows] = [reply is True for reply in replies]
        decided[open_rows] = [reply is not None for reply in replies]
        return Verdicts(verdicts, decided)

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """See `cocal.answers.judge.Judge.classes`.

        A language model's equivalence is neither symmetric nor transitive. Each class is therefore represented by its
        first answer, and an answer belongs to the first class whose representative it is equivalent to: all answers of
        a pool are compared with the first one, those that remain with the first of them, and so on. The class of the
        first answer, which is the evaluated one if only one is evaluated, thus holds exactly the answers found
        equivalent to it (appendix B.1). A pool of n distinct answers costs n - 1 judgements if all agree and
        n (n - 1) / 2 if none do. All pools are asked together, in one round for each representative. The order of the
        answers within a pool matters, the order of the pools does not. An answer is undecided if its comparison with
        an answer of another class had no verdict.

        Raises:
            ContractError: if too many replies are no verdict.
        """
        forms = forms_of(answers, exact_form if self._settings.exact else _same_text)
        rest: dict[Hashable, dict[Hashable, list[int]]] = {}
        for row, (form, pool) in enumerate(zip(forms, pools, strict=True)):
            if form is not None:
                rest.setdefault(pool, {}).setdefault(form, []).append(row)
        labels = np.full(len(answers), -1, dtype=np.int64)
        open_pairs: list[Rows] = []
        label = 0
        while rest:
            pairs: list[Rows] = []
            for members in rest.values():
                representative, *others = members.values()
                labels[representative] = label
                pairs += [(representative[0], rows[0]) for rows in others]
            joined = dict(zip(pairs, self._equivalent(pairs, answers, questions), strict=True))
            open_pairs += [pair for pair, verdict in joined.items() if verdict is None]
            left = {}
            for pool, members in rest.items():
                (_, representative), *others = members.items()
                for form, rows in others:
                    if joined[representative[0], rows[0]]:
                        labels[rows] = label
                    else:
                        left.setdefault(pool, {})[form] = rows
            rest = left
            label += 1
        return Verdicts(labels, decided_rows(forms, pools, labels, open_pairs))

    def provenance(self) -> dict[str, object]:
        """Return the engines and the numbers of distinct and of unparsable judgements since the last call.

        Raises:
            ContractError: if too many replies were no verdict.
        """
        self._refuse_nonsense(least=1)
        count, unparsable = len(self._replies), len(self._unparsable())
        share = unparsable / max(count, 1)
        logger.info("judge: %d of %d distinct replies (%.2f %%) are no verdict", unparsable, count, 100 * share)
        found = {"engines": sorted(self._engines), "judgements": count, "unparsable": unparsable}
        self._replies, self._engines = {}, set()
        return found

    def _equivalent(
        self, pairs: list[Rows], answers: Sequence[str | None], questions: Sequence[str]
    ) -> list[bool | None]:
        """Say of each pair of rows whether its answers are equivalent: None without a verdict, False if one of them is
        too long."""
        asked = [pair for pair in pairs if max(len(answers[row]) for row in pair) <= LONGEST]
        orders = [[(a, b) for a, b in asked]]
        if self._settings.both_orders:
            orders.append([(b, a) for a, b in asked])
        replies = [
            self._ask([self._prompts.equivalence(questions[a], answers[a], answers[b]) for a, b in order])
            for order in orders
        ]
        found = {pair: _both(said) for pair, said in zip(asked, zip(*replies, strict=True), strict=True)}
        return [found.get(pair, False) for pair in pairs]

    def _ask(self, messages: list[str]) -> list[bool | None]:
        """Return the verdicts on messages, None if a reply is no verdict."""
        distinct = list(dict.fromkeys(messages))
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            replies = self._judgements.replies(batch)
            self._replies |= dict(zip(batch, replies["reply"], strict=True))
            self._engines |= set(replies["engine"])
            self._refuse_nonsense(least=_MIN_REPLIES)
        return [parse_reply(self._replies[message]) for message in messages]

    def _unparsable(self) -> list[str]:
        """Return the replies that are no verdict."""
        return [reply for reply in self._replies.values() if parse_reply(reply) is None]

    def _refuse_nonsense(self, least: int) -> None:
        """Raise an error if there are at least `least` replies and too many of them are no verdict."""
        count, unparsable = len(self._replies), self._unparsable()
        if count >= least and len(unparsable) > self._settings.max_unparsable * count:
            raise ContractError(
                f"judge {self._settings.checkpoint}: {len(unparsable)} of {count} replies, such as "
                f'{unparsable[0][:80]!r}, are neither "certain" nor "uncertain", more than judge.max_unparsable = '
                f"{self._settings.max_unparsable:g}: correct the prompts, raise judge.max_tokens, or use another judge"
            )


def _both(replies: Sequence[bool | None]) -> bool | None:
    """Return False if one reply is no, otherwise None if one is no verdict, otherwise True."""
    return False if False in replies else (None if None in replies else True)


def _same_text(answer: str) -> str | None:
    """Return the answer itself as the form that equal texts share, or None if it is too long."""
    return answer if len(answer) <= LONGEST else None
