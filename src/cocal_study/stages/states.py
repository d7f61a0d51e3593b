"""Hidden states of evaluation responses, of stored rollouts and of their prompts."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config.evaluation import EvaluationSets
from cocal_study.config.features import FeatureSettings
from cocal_study.planning import plan, results
from cocal_study.provenance.lineage import Source, descent, identities, inherited
from cocal_study.stages.base import OutFolder, OutStores, ReadByCheckpoints, Stage, Unfinished
from cocal_study.stages.jobs import CELL, DOMAINS, Job, Rule, Rules


class Features(Stage):
    """Reads the states of responses."""

    settings: FeatureSettings = FeatureSettings()
    samples: EvaluationSets
    responses: Path
    """folder that holds {set}.parquet"""
    checkpoint: Path
    prompt: bool = False
    """also store the state of the last prompt token"""
    task_response: bool = False
    """stop before the first <reason> or confidence statement"""
    output: OutStores
    """folder for {set}.zarr"""

    def reads(self):
        return [self.checkpoint, *(self.responses / f"{name}.parquet" for name in self.samples.root)]

    def writes(self):
        return [self.output / f"{name}.zarr" for name in self.samples.root]

    def run(self) -> None:
        from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
        from cocal.models.loading import load_policy
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.evaluated import extract_features, task_responses

        fix_threads()
        settings, policy = self.settings, load_policy(self.checkpoint)
        poolings = (*RESPONSE_POOLINGS, PROMPT) if self.prompt else RESPONSE_POOLINGS
        columns = ["dataset", "question_id", "response_id", "sample", "prompt_ids", "response_ids", "length"]
        for name, samples in self.samples.root.items():
            table, output = self.responses / f"{name}.parquet", self.output / f"{name}.zarr"
            frame = read_frame(table, RESPONSES, columns)
            frame = frame[frame["sample"] < samples].reset_index(drop=True)
            facts = {"task_response": self.task_response}
            facts |= inherited(table, "backbone", "algorithm", "step", "prompt_format", "dataset")
            if self.task_response:
                frame = task_responses(frame, policy.tokenizer)
            attributes = descent(output, self.command, settings, [Source(table), Source(self.checkpoint)], **facts)
            extract_features(policy, frame, settings, output=output, attributes=attributes, poolings=poolings)


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


class StateRules(Rules):
    """States of evaluation responses, with a job for each checkpoint, prompt format and domain, of rollouts whose
    training kept none, and of their prompts."""

    def rules(self) -> Iterator[Rule]:
        for begin, domain in DOMAINS.items():
            if names := self._sets[domain]:
                yield Rule(
                    name=f"{begin}features",
                    make=partial(self._features, domain),
                    places={"output": results.features_folder(*CELL)},
                    files=[results.features_file(*CELL, name) for name in names],
                    gpus=1,
                    shown=True,
                )
        if imported := self.trained_by("imported", "grpo"):
            unfinished = results.run_folder("replay", "{backbone}")
            places = {"output": results.states_file("{backbone}", "grpo"), "run_folder": unfinished}
            limits = {"backbone": imported}
            yield Rule(name="replay", make=self._replay, places=places, limits=limits, gpus=1, shown=True)
        places = {"output": results.states_file("{backbone}", "grpo", "prompts")}
        limits = {"backbone": self.study.backbones}
        yield Rule(name="prompt_features", make=self._prompt_features, places=places, limits=limits, gpus=1, shown=True)

    def _features(
        self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, sampling: str, **made: str
    ) -> Job:
        """Hidden states of responses: RLCR's end before its reasoning, and where a companion reads prompts, the
        prompt's state is added."""
        from cocal_study.planning.comparisons import samples_of  # loads the baselines' modules

        study, cell = self.study, (backbone, algorithm, int(step), prompt_format)
        place = (*cell[:-1], prompt_format + sampling)
        # layers are compared on the responses of GRPO's final policy alone
        compared = (algorithm, int(step), domain, sampling) == ("grpo", self._final, "mathematics", "")
        read: dict[str, Any] = {}
        if prompt_format == "rlcr":
            read["task_response"] = True
        elif prompt_format == "answer" and "prompts" in plan.experiences_of(plan.methods_of(study, *cell[:-1])):
            read["prompt"] = True
        return self._job(
            Features,
            settings=study.features if compared else study.features.model_copy(update={"layers": "final"}),
            samples=samples_of(study, [domain]),
            responses=results.responses_folder(*place),
            checkpoint=results.policy_folder(backbone, algorithm, step),
            **read,
            **made,
        )

    def _replay(self, backbone: str, **made: str) -> Job:
        """The states of rollouts whose training kept none are read afterwards: by the policies that sampled them where
        these were kept, otherwise by the checkpoint of the stage that followed (appendix F.4)."""
        return self._read_rollouts(Replay, self.study.features, backbone, made)

    def _prompt_features(self, backbone: str, **made: str) -> Job:
        """The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4)."""
        settings = self.study.features.model_copy(update={"layers": "final"})
        return self._read_rollouts(Prompts, settings, backbone, made)

    def _read_rollouts(self, stage: type[Stage], settings: FeatureSettings, backbone: str, made: dict[str, str]) -> Job:
        rollouts = results.rollouts_folder(backbone, "grpo")
        return self._job(stage, settings=settings, rollouts=rollouts, **self._readers(backbone), **made)
