"""Samples and judges the evaluation responses of one checkpoint; a killed run keeps the sets that it has finished."""

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from cocal.answers.judge import ExactMatch, Judge
from cocal.errors import ContractError
from cocal.models.loading import load_tokenizer
from cocal.store import digest, read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.run_folder import RunFolder
from cocal_study.config.evaluation import GenerationSettings
from cocal_study.generation.engines import open_engine
from cocal_study.generation.judge import Judging
from cocal_study.generation.responses import Sampler, sample_responses
from cocal_study.planning.plan import ResponsePlan
from cocal_study.questions.prompts import Prompts
from cocal_study.store.contracts import SAMPLED


def with_verdicts(
    sampled: pd.DataFrame, asked: pd.DataFrame, groups: Sequence[Hashable], judge: Judge, *, pool: bool
) -> pd.DataFrame:
    """Add verdicts to sampled responses (`cocal.store.contracts.RESPONSES`). `asked` has the question of each response
    (columns question, answer, aliases, domain), and accuracies are taken over the groups, whose answers are compared
    with one another if they are a pool."""
    golds = [[answer, *aliases] for answer, aliases in zip(asked["answer"], asked["aliases"], strict=True)]
    answers = [None if pd.isna(answer) else answer for answer in sampled["answer"]]
    texts = asked["question"].tolist()
    correct, decided = judge.correct(golds, answers, texts)
    classes = np.nan
    if pool:
        labels, settled = judge.classes(answers, groups, texts)
        classes, decided = labels.astype(np.float64), decided & settled
    factual = (asked["domain"] == "factual").to_numpy()
    exact = pd.Series(ExactMatch().correct(golds, answers, texts).values, dtype="boolean").where(factual)
    accuracy = pd.Series(correct).groupby(np.asarray(groups)).transform("mean").to_numpy(dtype=np.float64)
    return sampled.assign(
        answer_class=classes, correct=correct, exact_match=exact.array, decided=decided, group_accuracy=accuracy
    )


def judge_set(sampled: pd.DataFrame, questions: pd.DataFrame, judge: Judge, *, pool: bool, source: str) -> pd.DataFrame:
    """Add verdicts to evaluation responses (`cocal_study.store.contracts.SAMPLED`, in any order), where all responses
    to a question of the set form a group. Raises ContractError if a response belongs to another set, or its question
    is not in the set.
    """
    texts = questions.set_index("question_id")[["dataset", "question", "answer", "aliases", "domain"]]
    ids = sampled["question_id"]
    unknown = np.flatnonzero(~ids.isin(texts.index) | (sampled["dataset"] != texts["dataset"].iloc[0]))
    if len(unknown):
        first = unknown[0]
        raise ContractError(
            f"{source}: question {ids.iloc[first]!r} of set {sampled['dataset'].iloc[first]!r}, at row {first}, is not "
            f"among the questions of {texts['dataset'].iloc[0]!r} ({len(unknown)} such row(s)); give the set that was "
            "asked"
        )
    return with_verdicts(sampled, texts.loc[ids], ids.tolist(), judge, pool=pool)


@dataclass(frozen=True)
class Evaluated:
    """The checkpoint and the responses that an evaluation needs."""

    backbone: str
    algorithm: str
    """Algorithm that trained the policy; "base" if it was not trained."""
    step: int
    prompt_format: str
    plan: ResponsePlan
    questions: Mapping[str, pd.DataFrame]
    """Question table of each set (`cocal_study.store.contracts.QUESTIONS`)."""

    def identity(self, name: str) -> str:
        """The text that names checkpoint, format and set; the sampling seeds depend on it."""
        return f"{self.backbone}/{self.algorithm}/{self.step}/{self.prompt_format}/{name}"


def sample_sets(
    wanted: Evaluated, checkpoint: Path, settings: GenerationSettings, prompts: Prompts, run: RunFolder
) -> None:
    """Sample the sets that were not sampled yet, then free the policy's memory, which a judge may need. The working
    folder gets `sampled/{set}.parquet`."""
    files = {name: run.path / f"sampled/{name}.parquet" for name in wanted.plan.sets}
    if all(file.exists() for file in files.values()):
        logging.info("all sets were sampled earlier")
        return

    with open_engine(settings.engine, checkpoint) as engine:
        sampler = Sampler(engine, load_tokenizer(checkpoint), prompts)
        attributes = {"engine": engine.label}
        for name, file in files.items():
            if file.exists() and read_provenance(file) == attributes:  # another engine's responses may differ
                logging.info("%s: sampled earlier", name)
                continue
            frame = sample_responses(
                wanted.questions[name],
                wanted.prompt_format,
                wanted.plan.sets[name],
                sampler,
                settings,
                identity=wanted.identity(name),
                step=wanted.step,
            )
            write_frame(file, frame, SAMPLED, attributes)
            length, truncated = frame["length"].mean(), 100 * frame["truncated"].mean()
            logging.info("%s: %d responses, mean length %.1f, truncated %.1f %%", name, len(frame), length, truncated)


def judge_sets(
    wanted: Evaluated,
    judging: Judging,
    golds: Mapping[str, str],
    attributes: Mapping[str, Mapping[str, str]],
    run: RunFolder,
    cache: Path,
) -> dict[str, str]:
    """Judge the sets that were not judged yet; a new judge or a corrected answer needs no new responses.

    The verdicts of each judge get a subfolder of the working folder of `sample_sets`, relative to which the file of
    each set is returned. Engine and judge are added to the provenance of each set's responses, `attributes`.
    """
    folder = f"judged-{digest(judging.settings | {'golds': golds})}"
    with judging.open(cache) as judges:
        for name, how in wanted.plan.sets.items():
            file, questions = run.path / folder / f"{name}.parquet", wanted.questions[name]
            if file.exists():
                logging.info("%s: judged earlier", name)
                continue
            source = run.path / f"sampled/{name}.parquet"
            judge = judges[questions["domain"].iloc[0]]
            frame = judge_set(read_frame(source, SAMPLED), questions, judge, pool=how.pool, source=str(source))
            made_by = read_provenance(source) | judging.provenance(judge)
            write_frame(file, frame, RESPONSES, {**attributes[name], **made_by})
            logging.info("%s: accuracy %.3f", name, frame["correct"].mean())
    return {name: f"{folder}/{name}.parquet" for name in wanted.plan.sets}
