"""Hidden states of evaluation responses, of stored rollouts and of their prompts."""

from pathlib import Path
from typing import Any, cast

from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config.evaluation import EvaluationSets
from cocal_study.config.features import FeatureSettings
from cocal_study.provenance.lineage import Source, descent, identities, inherited
from cocal_study.stages.base import OutFolder, OutStores, ReadByCheckpoints, Stage, Unfinished


class Features(Stage):
    """Reads the states of responses, or takes those that vLLM kept."""

    settings: FeatureSettings = FeatureSettings()
    samples: EvaluationSets
    responses: Path
    """folder that holds {set}.parquet"""
    checkpoint: Path
    kept: Path | None = None
    """states that vLLM kept of these responses; no pass is made"""
    prompt: bool = False
    """also store the state of the last prompt token"""
    task_response: bool = False
    """stop before the first <reason> or confidence statement"""
    output: OutStores
    """folder for {set}.zarr"""

    def reads(self):
        tables = [self.responses / f"{name}.parquet" for name in self.samples.root]
        return [self.checkpoint, *tables, *([self.kept] if self.kept else [])]

    def writes(self):
        return [self.output / f"{name}.zarr" for name in self.samples.root]

    def run(self) -> None:
        from cocal.models.loading import load_policy, load_tokenizer
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.evaluated import copy_features, extract_features, poolings_of, task_responses

        fix_threads()
        settings = self.settings
        policy = None if self.kept else load_policy(self.checkpoint)
        columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
        for name, samples in self.samples.root.items():
            table, output = self.responses / f"{name}.parquet", self.output / f"{name}.zarr"
            frame = read_frame(table, RESPONSES, columns)
            frame = frame[frame["sample"] < samples].reset_index(drop=True)
            facts = {"task_response": self.task_response}
            facts |= inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset")
            if self.task_response:
                frame = task_responses(frame, load_tokenizer(self.checkpoint))
            sources = [Source(table), Source(self.checkpoint)]
            attributes = descent(output, self.command, settings, sources, **facts)
            if self.kept:
                copy_features(self.kept / f"{name}.zarr", frame, output=output, attributes=attributes)
            else:
                made = {"output": output, "attributes": attributes, "poolings": poolings_of(self.prompt)}
                extract_features(cast(Any, policy), frame, settings, **made)


class _OfRollouts(ReadByCheckpoints):
    """Stages that read the states of stored rollouts."""

    settings: FeatureSettings = FeatureSettings()
    rollouts: Path

    def reads(self):
        return [self.rollouts, *self.readers]


class Replay(_OfRollouts):
    """Runs one pass over the exact token ids of every rollout."""

    run_folder: Unfinished
    output: OutFolder

    def run(self) -> None:
        from cocal_study.generation.replay import StepCheckpoints, replay, step_tables

        fix_threads()
        checkpoints = StepCheckpoints(self.checkpoints, self.exact)
        tables = file_states(step_tables(self.rollouts).values())
        weights = "of every step" if self.exact else "of the stage that follows"
        depends_on = {"features": self.settings, "weights": weights}
        sources = [Source(self.rollouts), *map(Source, checkpoints.folders)]
        facts = inherited(self.rollouts, "backbone", "algorithm", "experience")
        attributes = descent(self.output, self.command, depends_on, sources, **facts)
        inputs = {"rollouts": tables, "checkpoints": checkpoints.state(), "parents": identities(attributes)}
        replay(
            checkpoints,
            self.rollouts,
            self.settings,
            run=RunFolder(self.run_folder, digest(depends_on | inputs)),
            output=self.output,
            attributes=attributes,
        )


class Prompts(_OfRollouts):
    """Runs one pass over the prompts of every stage."""

    output: OutFolder

    def run(self) -> None:
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.replay import StepCheckpoints, extract_prompts

        fix_threads()
        checkpoints = StepCheckpoints(self.checkpoints, self.exact)
        columns = ["dataset", "question_id", "response_id", "step", "sample", "prompt_ids"]
        rollouts = read_frame(self.rollouts, RESPONSES, columns)
        facts = inherited(self.rollouts, "backbone", "algorithm") | {"experience": "prompts"}
        sources = [Source(path, experience="rollouts") for path in (self.rollouts, *checkpoints.folders)]
        extract_prompts(
            checkpoints,
            rollouts[rollouts["step"] <= checkpoints.last],
            self.settings,
            output=self.output,
            attributes=descent(self.output, self.command, self.settings, sources, **facts),
        )
