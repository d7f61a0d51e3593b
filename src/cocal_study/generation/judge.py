"""A language model that judges factual answers: their equivalence, as in appendix B.1, and their correctness, for which
the paper names no judge."""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from cocal.answers.equivalence import Verifier
from cocal.answers.judge import LONGEST, ExactMatch, Judge, Rows, Verdicts, decided_rows, exact_form, forms_of
from cocal.answers.settings import VerifierSettings
from cocal.errors import ConfigError, ContractError
from cocal.models.hub import download
from cocal.models.loading import load_tokenizer
from cocal.models.text import chat_ids, plain_texts
from cocal.store import digest, provenance, read_frame, write_frame
from cocal.store.provenance import canonical
from cocal_study.config.engine import EngineSettings
from cocal_study.config.evaluation import JudgeSettings, LlmJudgeSettings
from cocal_study.generation.engines import Engine, Sampling, open_engine
from cocal_study.provenance.identity import identity
from cocal_study.questions.prompts import JUDGE_FORMATS, Prompts, judge_prompts
from cocal_study.store.contracts import JUDGEMENTS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Ask = Callable[[Sequence[str]], list[str]]
"""A function that returns a judge's plain-text replies to messages."""
_REPLY = re.compile(r"[\s\"'`*“”]*(?P<verdict>certain|uncertain)[\s\"'`*“”.]*", re.IGNORECASE)
_BATCH = 16384
"""Number of messages that are sent and stored together, the most judgements that a killed job can lose."""
_MIN_REPLIES = 100
"""Number of replies from which too many unparsable ones stop the job at once; with fewer, the table is finished."""


class Judgements:
    """Replies of one judge to messages; a context manager that closes the judge at its end.

    Replies are kept as Parquet files in the subfolder of `cache` that is named by the digest of `identity`, which is
    everything that a reply depends on besides its message. Files are written whole and never changed, so jobs may
    share the folder. If several jobs send the same message at the same time, the reply in the first file by name
    counts. If a file cannot be read, a warning names it and its messages are sent again. The folder may be deleted.
    `open_judge` opens the judge and yields the function that asks it and its engine's label.
    """

    def __init__(
        self, open_judge: Callable[[], AbstractContextManager[tuple[Ask, str]]], identity: dict, cache: Path
    ) -> None:
        self._open = open_judge
        self._identity = identity
        self._folder = cache / digest(identity)
        self._judge: tuple[Ask, str] | None = None
        self._stack = ExitStack()
        self._known: dict[str, tuple[str, str]] = {}
        for file in sorted(self._folder.glob("*.parquet")):
            try:
                self._add(read_frame(file, JUDGEMENTS))
            except ContractError as error:
                logging.warning("stored judgements cannot be read and are asked again: %s", error)

    def __enter__(self) -> "Judgements":
        return self

    def __exit__(self, *_: object) -> None:
        """Close the judge; a later message opens it again."""
        self._judge = None
        self._stack.close()

    def replies(self, messages: Sequence[str]) -> list[tuple[str, str]]:
        """The reply to each message and the label of its engine. Distinct new messages are sent once, in one batch."""
        keys = [_key(message) for message in messages]
        unknown = {k: m for k, m in zip(keys, messages, strict=True) if k not in self._known}
        if unknown:
            logging.info("judge: %d of %d distinct messages are new and are sent", len(unknown), len(set(keys)))
            if self._judge is None:
                self._judge = self._stack.enter_context(self._open())
            ask, engine = self._judge
            frame = pd.DataFrame({"key": list(unknown), "reply": ask(list(unknown.values())), "engine": engine})
            file = self._folder / f"{_key(''.join(unknown))}.parquet"
            write_frame(file, frame, JUDGEMENTS, provenance("judge", self._identity))
            self._add(frame)
        return [self._known[key] for key in keys]

    def _add(self, frame: pd.DataFrame) -> None:
        for key, reply, engine in zip(frame["key"], frame["reply"], frame["engine"], strict=True):
            self._known.setdefault(key, (reply, engine))


def _key(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class LlmJudge:
    """Asks a language model whether an answer means the same as an accepted answer or as another response's answer.

    It is a judge of factual answers (`cocal.answers.judge.Judge`). An answer longer than `cocal.answers.judge.LONGEST`
    is not sent to the model; as for exact match, it is wrong and equivalent to no other. All methods raise a
    ContractError if too many replies are no verdict.
    """

    def __init__(self, settings: LlmJudgeSettings, judgements: Judgements, prompts: Prompts) -> None:
        self._settings = settings
        self._judgements = judgements
        self._prompts = prompts
        self._replies: dict[str, str] = {}
        self._engines: set[str] = set()

    def correct(
        self, golds: Sequence[Sequence[str]], answers: Sequence[str | None], questions: Sequence[str]
    ) -> Verdicts:
        """An answer is undecided if the reply about it is no verdict."""
        verdicts = np.zeros(len(answers), dtype=bool)
        if self._settings.exact:
            verdicts |= ExactMatch().correct(golds, answers, questions).values
        asked = [_same_text(answer) if answer is not None else None for answer in answers]
        open_rows = [row for row, answer in enumerate(asked) if answer is not None and not verdicts[row]]
        messages = [
            self._prompts.message("correctness", questions[row], accepted=_listed(golds[row]), answer=asked[row] or "")
            for row in open_rows
        ]
        replies = self._ask(messages)
        decided = np.ones(len(answers), dtype=bool)
        verdicts[open_rows] = [reply is True for reply in replies]
        decided[open_rows] = [reply is not None for reply in replies]
        return Verdicts(verdicts, decided)

    def classes(self, answers: Sequence[str | None], pools: Sequence[Hashable], questions: Sequence[str]) -> Verdicts:
        """A language model's equivalence is neither symmetric nor transitive. Each class is therefore represented by
        its first answer, and an answer belongs to the first class whose representative it is equivalent to: all
        answers of a pool are compared with the first one, those that remain with the first of them, and so on. The
        class of the first answer, which is the evaluated one if only one is evaluated, thus holds exactly the answers
        found equivalent to it (appendix B.1). A pool of n distinct answers costs n - 1 judgements if all agree and
        n (n - 1) / 2 if none do. All pools are asked together, in one round for each representative. An answer is
        undecided if its comparison with an answer of another class had no verdict.
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
        """The engines and the numbers of distinct and of unparsable judgements since the last call."""
        count, unparsable = len(self._replies), self._refuse_nonsense(least=1)
        share = unparsable / max(count, 1)
        logging.info("judge: %d of %d distinct replies (%.2f %%) are no verdict", unparsable, count, 100 * share)
        facts = {"engines": sorted(self._engines), "judgements": count, "unparsable": unparsable}
        self._replies, self._engines = {}, set()
        return facts

    def _equivalent(
        self, pairs: list[Rows], answers: Sequence[str | None], questions: Sequence[str]
    ) -> list[bool | None]:
        """Whether the answers of each pair of rows are equivalent: None without a verdict, False if one is too long.
        With both orders, one "no" gives False, and otherwise one reply without a verdict gives None."""
        said = [answer or "" for answer in answers]
        asked = [pair for pair in pairs if max(len(said[row]) for row in pair) <= LONGEST]
        orders = [[(a, b) for a, b in asked]]
        if self._settings.both_orders:
            orders.append([(b, a) for a, b in asked])
        messages = [
            [self._prompts.message("equivalence", questions[a], first=said[a], second=said[b]) for a, b in order]
            for order in orders
        ]
        replies = [self._ask(texts) for texts in messages]
        verdicts = {
            pair: False if False in said else None if None in said else True
            for pair, said in zip(asked, zip(*replies, strict=True), strict=True)
        }
        return [verdicts.get(pair, False) for pair in pairs]

    def _ask(self, messages: list[str]) -> list[bool | None]:
        distinct = list(dict.fromkeys(messages))
        for start in range(0, len(distinct), _BATCH):
            batch = distinct[start : start + _BATCH]
            for message, (reply, engine) in zip(batch, self._judgements.replies(batch), strict=True):
                self._replies[message] = reply
                self._engines.add(engine)
            self._refuse_nonsense(least=_MIN_REPLIES)
        return [parse_reply(self._replies[message]) for message in messages]

    def _refuse_nonsense(self, least: int) -> int:
        """Count the replies that are no verdict; raise ContractError if too many of at least `least` replies are."""
        count = len(self._replies)
        unparsable = [reply for reply in self._replies.values() if parse_reply(reply) is None]
        if count >= least and len(unparsable) > self._settings.max_unparsable * count:
            raise ContractError(
                f"judge {self._settings.checkpoint}: {len(unparsable)} of {count} replies, such as "
                f'{unparsable[0][:80]!r}, are neither "certain" nor "uncertain", more than judge.max_unparsable = '
                f"{self._settings.max_unparsable:g}: correct the prompts, raise judge.max_tokens, or use another judge"
            )
        return len(unparsable)


def parse_reply(reply: str) -> bool | None:
    """Return True for "certain", False for "uncertain" and None for any other reply. Case and any quotes, emphasis or
    full stop around the word are ignored, but a longer reply is no verdict: "not certain" is not "certain"."""
    match = _REPLY.fullmatch(reply)
    return None if match is None else match["verdict"].lower() == "certain"


def _listed(accepted: Sequence[str]) -> str:
    """The accepted answers once each, as JSON."""
    return json.dumps(list(dict.fromkeys(accepted)), ensure_ascii=False)


def _same_text(answer: str) -> str | None:
    """The answer itself as the form that equal texts share, or None if it is too long."""
    return answer if len(answer) <= LONGEST else None


@dataclass(frozen=True)
class Judging:
    """The checked settings of the judges of mathematical and of factual answers."""

    verifier: VerifierSettings
    judge: JudgeSettings
    identity: Mapping[str, object]
    """Everything that a language model's reply depends on besides the message; empty without such a judge."""

    @classmethod
    def of(cls, verifier: VerifierSettings, judge: JudgeSettings, domains: Sequence[str]) -> "Judging":
        """Check the judges for question sets of these domains; a language model is checked only if one is factual.
        Raises ConfigError if the judge's prompts cannot be used, or its folder holds no checkpoint."""
        if not isinstance(judge, LlmJudgeSettings) or "factual" not in domains:
            return cls(verifier, judge, {})
        folder = Path(judge.checkpoint)
        if judge.revision is None and not any(folder.glob("*.safetensors")):
            raise ConfigError(f"judge.checkpoint: {folder} holds no .safetensors; give the folder of a checkpoint")
        of_judge = {
            "checkpoint": judge.label if judge.local else judge.checkpoint,
            "revision": judge.revision or identity(folder),
            "engine": judge.engine.kind,
            "max_tokens": judge.max_tokens,
            "temperature": 0,
            "prompts": judge_prompts(judge.prompts).digest(*JUDGE_FORMATS),
        }
        return cls(verifier, judge, of_judge)

    @property
    def settings(self) -> dict[str, object]:
        """Everything that verdicts depend on, for digests and provenance."""
        return {"verifier": self.verifier, "judge": self.judge, "judge_identity": self.identity}

    @property
    def engines(self) -> list[EngineSettings]:
        """The engine of a language model that judges; none without one."""
        return [self.judge.engine] if self.identity and isinstance(self.judge, LlmJudgeSettings) else []

    @contextmanager
    def open(self, cache: Path) -> Iterator[Mapping[str, Judge]]:
        """Yield the judges by domain; a language model is loaded at the first message whose reply `cache` lacks."""
        with Verifier(self.verifier) as verifier:
            judge = self.judge
            if not self.identity or not isinstance(judge, LlmJudgeSettings):
                yield {"mathematics": verifier, "factual": ExactMatch()}
                return
            with Judgements(lambda: _asking(judge), dict(self.identity), cache) as judgements:
                factual = LlmJudge(judge, judgements, judge_prompts(judge.prompts))
                yield {"mathematics": verifier, "factual": factual}

    def provenance(self, judge: Judge) -> dict[str, str]:
        """Attributes of a table that `judge` has just judged: a language model's identity and statistics."""
        return {"judge": canonical({**self.identity, **judge.provenance()})} if isinstance(judge, LlmJudge) else {}


@contextmanager
def _asking(settings: LlmJudgeSettings) -> Iterator[tuple[Ask, str]]:
    """Load the judge, which is downloaded if a revision is given; yield the function that asks it and its engine."""
    name, revision = settings.checkpoint, settings.revision
    folder = Path(name) if revision is None else download(name, revision)
    with open_engine(settings.engine, folder) as engine:
        yield asking(engine, load_tokenizer(folder), settings.max_tokens), engine.label


def asking(engine: Engine, tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> Ask:
    """A function that sends each message to the engine as a chat of one turn and decodes greedily."""
    greedy = Sampling(temperature=1.0, top_k=1, top_p=1.0, presence_penalty=0.0, max_tokens=max_tokens)

    def ask(messages: Sequence[str]) -> list[str]:
        drawn = engine.generate(chat_ids(tokenizer, messages), greedy, [0] * len(messages))
        return plain_texts(tokenizer, [completion.token_ids for (completion,) in drawn])

    return ask
