"""Opens the judges of mathematical and of factual answers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cocal.answers.equivalence import Verifier
from cocal.answers.judge import ExactMatch, Judge
from cocal.config.evaluation import JudgeSettings, LlmJudgeSettings, VerifierSettings
from cocal.errors import ConfigError
from cocal.generation.engine import Engine, Sampling
from cocal.generation.engines import open_engine
from cocal.generation.judging.judgements import Ask, Judgements
from cocal.generation.judging.llm import LlmJudge
from cocal.generation.judging.prompts import JudgePrompts
from cocal.models.hub import download
from cocal.models.loading import fingerprint, load_tokenizer
from cocal.models.text import chat_ids, plain_texts
from cocal.store.provenance import canonical

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Judging:
    """The checked settings of both judges, and everything else that their verdicts depend on.

    Attributes:
        verifier: Limits of the judge of mathematical answers.
        judge: Settings of the judge of factual answers.
        identity: Everything that a language model's reply depends on besides the message; empty without such a judge.
    """

    verifier: VerifierSettings
    judge: JudgeSettings
    identity: Mapping[str, object]

    @classmethod
    def of(cls, verifier: VerifierSettings, judge: JudgeSettings, domains: Sequence[str]) -> "Judging":
        """Check the judges for question sets of these domains; a language model is checked only if one is factual.

        Raises:
            ConfigError: if the judge's prompts cannot be used, or its folder holds no checkpoint.
        """
        asks = isinstance(judge, LlmJudgeSettings) and "factual" in domains
        return cls(verifier, judge, _identity(judge) if asks else {})

    @property
    def settings(self) -> dict[str, object]:
        """Everything that verdicts depend on, for digests and provenance."""
        return {"verifier": self.verifier, "judge": self.judge, "judge_identity": self.identity}

    @contextmanager
    def open(self, cache: Path) -> Iterator[Mapping[str, Judge]]:
        """Yield the judges by domain; a language model is loaded at the first message whose reply `cache` lacks."""
        with Verifier(self.verifier) as verifier:
            if not self.identity:
                yield {"mathematics": verifier, "factual": ExactMatch()}
                return
            with Judgements(lambda: _asking(self.judge), dict(self.identity), cache) as judgements:
                factual = LlmJudge(self.judge, judgements, JudgePrompts(_prompts(self.judge)))
                yield {"mathematics": verifier, "factual": factual}

    def provenance(self, judge: Judge) -> dict[str, str]:
        """Return the attributes of a table that `judge` has just judged: a language model's identity and statistics.

        Raises:
            ContractError: if too many of its replies were no verdict.
        """
        return {"judge": canonical({**self.identity, **judge.provenance()})} if isinstance(judge, LlmJudge) else {}


def _identity(settings: LlmJudgeSettings) -> dict[str, object]:
    folder = Path(settings.checkpoint)
    if settings.revision is None and not any(folder.glob("*.safetensors")):
        raise ConfigError(f"judge.checkpoint: {folder} holds no .safetensors; give the folder of a checkpoint")
    return {
        "checkpoint": settings.label if settings.local else settings.checkpoint,
        "revision": settings.revision or fingerprint(folder),
        "engine": settings.engine.kind,
        "max_tokens": settings.max_tokens,
        "temperature": 0,
        "prompts": JudgePrompts(_prompts(settings)).digest,
    }


def _prompts(settings: LlmJudgeSettings) -> Path | None:
    return Path(settings.prompts) if settings.prompts else None


@contextmanager
def _asking(settings: LlmJudgeSettings) -> Iterator[tuple[Ask, str]]:
    """Load the judge, which is downloaded if a revision is given; yield the function that asks it and its engine."""
    here, revision = Path(settings.checkpoint), settings.revision
    folder = here if revision is None else download(settings.checkpoint, revision)
    with open_engine(settings.engine, folder) as engine:
        yield asking(engine, load_tokenizer(folder), settings.max_tokens), engine.label


def asking(engine: Engine, tokenizer: "PreTrainedTokenizerBase", max_tokens: int) -> Ask:
    """Return a function that sends each message to the engine as a chat of one turn and decodes greedily."""
    greedy = Sampling(temperature=1.0, top_k=1, top_p=1.0, presence_penalty=0.0, max_tokens=max_tokens)

    def ask(messages: Sequence[str]) -> list[str]:
        drawn = engine.generate(chat_ids(tokenizer, messages), greedy, [0] * len(messages))
        return plain_texts(tokenizer, [completion.token_ids for (completion,) in drawn])

    return ask
