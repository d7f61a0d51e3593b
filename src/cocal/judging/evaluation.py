"""Evaluation responses of one checkpoint, set by set: sampled, then judged. What a killed run has finished it keeps."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from cocal.config.evaluation import GenerationSettings
from cocal.judging.opening import Judging
from cocal.judging.verdicts import judge_set
from cocal.prompts import Prompts
from cocal.store import digest, provenance, read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES, SAMPLED
from cocal.store.run_folder import RunFolder
from cocal.study.plan import ResponsePlan


@dataclass(frozen=True)
class Evaluated:
    """Which responses of which checkpoint are wanted.

    Attributes:
        backbone: its name.
        algorithm: how the policy was trained; base if it was not.
        step: rollout step of the checkpoint.
        prompt_format: prompt format.
        plan: question sets, how many responses, how long.
        questions: by set, in the contract of cocal.store.contracts.QUESTIONS.
    """

    backbone: str
    algorithm: str
    step: int
    prompt_format: str
    plan: ResponsePlan
    questions: Mapping[str, pd.DataFrame]

    def identity(self, name: str) -> str:
        """Names checkpoint, format and set; chooses the noise."""
        return f"{self.backbone}/{self.algorithm}/{self.step}/{self.prompt_format}/{name}"


def sample_sets(
    wanted: Evaluated, checkpoint: Path, settings: GenerationSettings, prompts: Prompts, run: RunFolder
) -> None:
    """Sample the sets that are not there yet. The policy is in memory here alone: a judge may need all of it.

    Args:
        wanted: sets and format.
        checkpoint: policy to sample from.
        settings: sampling parameters and engine.
        prompts: prompt set.
        run: gets `sampled/{set}.parquet`.
    """
    files = {name: run.path / f"sampled/{name}.parquet" for name in wanted.plan.sets}
    if all(file.exists() for file in files.values()):
        logging.info("all sets were sampled earlier")
        return

    from cocal.checkpoints.loading import load_tokenizer
    from cocal.generation.engines import open_engine
    from cocal.generation.responses import Sampler, sample_responses

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
            logging.info(
                "%s: %d responses, mean length %.1f, truncated %.1f %%",
                name,
                len(frame),
                frame["length"].mean(),
                100 * frame["truncated"].mean(),
            )


def judge_sets(
    wanted: Evaluated, judging: Judging, golds: Mapping[str, str], depends_on: dict, run: RunFolder, cache: Path
) -> dict[str, str]:
    """Judge the sets that are not judged yet. Another judge, or a corrected answer, needs no new responses.

    Args:
        wanted: sets.
        judging: judges, and what verdicts depend on.
        golds: by set, digest of what counts as right.
        depends_on: all that the responses depend on, for the provenance.
        run: holds what `sample_sets` left; gets the verdicts of each judge in a folder of their own.
        cache: folder of a language model's replies.

    Returns:
        By set, its file in the run.
    """
    folder = f"judged-{digest(judging.settings | {'golds': golds})}"
    cell = {"backbone": wanted.backbone, "algorithm": wanted.algorithm, "step": wanted.step}
    with judging.open(cache) as judges:
        for name, how in wanted.plan.sets.items():
            file, questions = run.path / folder / f"{name}.parquet", wanted.questions[name]
            if file.exists():
                logging.info("%s: judged earlier", name)
                continue
            source = run.path / f"sampled/{name}.parquet"
            judge = judges[questions["domain"].iloc[0]]
            frame = judge_set(read_frame(source, SAMPLED), questions, judge, pool=how.pool, source=str(source))
            facts = cell | read_provenance(source) | judging.provenance(judge)
            write_frame(file, frame, RESPONSES, provenance("responses", depends_on | judging.settings, **facts))
            logging.info("%s: accuracy %.3f", name, frame["correct"].mean())
    return {name: f"{folder}/{name}.parquet" for name in wanted.plan.sets}
