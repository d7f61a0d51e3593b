"""Samples and judges the evaluation responses of one checkpoint; a killed run keeps the sets that it has finished."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cocal.config.evaluation import GenerationSettings
from cocal.generation.engines import open_engine
from cocal.generation.judging.opening import Judging
from cocal.generation.judging.verdicts import judge_set
from cocal.generation.responses import Sampler, sample_responses
from cocal.models.loading import load_tokenizer
from cocal.questions.prompts import Prompts
from cocal.store import digest, read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES, SAMPLED
from cocal.store.run_folder import RunFolder
from cocal.study.plan import ResponsePlan


@dataclass(frozen=True)
class Evaluated:
    """The checkpoint and the responses that an evaluation needs.

    Attributes:
        backbone: Name of the backbone.
        algorithm: Algorithm that trained the policy; "base" if it was not trained.
        step: Rollout step of the checkpoint.
        prompt_format: Prompt format.
        plan: Question sets, with the number and longest length of their responses.
        questions: Question table of each set (`cocal.store.contracts.QUESTIONS`).
    """

    backbone: str
    algorithm: str
    step: int
    prompt_format: str
    plan: ResponsePlan
    questions: Mapping[str, pd.DataFrame]

    def identity(self, name: str) -> str:
        """Return the text that names checkpoint, format and set; the sampling seeds depend on it."""
        return f"{self.backbone}/{self.algorithm}/{self.step}/{self.prompt_format}/{name}"


def sample_sets(
    wanted: Evaluated, checkpoint: Path, settings: GenerationSettings, prompts: Prompts, run: RunFolder
) -> None:
    """Sample the sets that were not sampled yet, then free the policy's memory, which a judge may need.

    Args:
        wanted: Question sets and prompt format.
        checkpoint: Policy to sample from.
        settings: Sampling parameters and engine.
        prompts: Prompt set.
        run: Working folder, in which `sampled/{set}.parquet` is written.
    """
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

    Args:
        wanted: Question sets.
        judging: Judges and the settings that verdicts depend on.
        golds: Digest of the accepted answers of each set.
        attributes: Provenance of each set's responses; the engine and the judge are added to it.
        run: Working folder with the files of `sample_sets`; the verdicts of each judge get their own subfolder.
        cache: Folder of a language model's replies.

    Returns:
        The file of each set, relative to the working folder.
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
