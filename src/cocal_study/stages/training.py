"""Policies that are trained here, and their rollouts."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from cocal.answers.settings import VerifierSettings
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm
from cocal.store import digest, read_frame
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.planning import results
from cocal_study.policy.launch import train_command
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import In, Out, OutFolder, OutSteps, PromptSet, Stage, Unfinished
from cocal_study.stages.jobs import Job, Rule, Rules


class Train(Stage):
    """Trains a policy and records its rollouts, or resumes a training."""

    settings: PolicySettings
    verifier: VerifierSettings = VerifierSettings()
    algorithm: Algorithm
    base: In
    questions: In
    prompts: PromptSet
    run_folder: Unfinished
    stages: OutSteps
    rollouts: OutFolder
    """folder for the rollout tables, one per step"""
    cost: Out | None = None
    """JSON file for the time of the training"""
    features: FeatureSettings = FeatureSettings()
    output_features: OutFolder | None = None
    """feature store of the rollouts, for companions"""

    def sources(self):
        return [Source(self.base, algorithm="base", step=0), Source(self.questions)]

    def run(self) -> None:
        from cocal.answers.equivalence import Verifier
        from cocal_study.policy.recorder import Outputs
        from cocal_study.policy.train import train_policy
        from cocal_study.questions.build import questions_digests
        from cocal_study.store.contracts import QUESTIONS

        fix_threads()
        policy, prompts = self.settings.for_training(self.algorithm), Prompts(self.prompts)
        questions = read_frame(self.questions, QUESTIONS)
        depends_on = {"policy": policy, "verifier": self.verifier, "algorithm": self.algorithm}
        depends_on |= {"prompts": prompts.identity(OBJECTIVES[self.algorithm].prompt_format)}
        depends_on |= {"features": self.features if self.output_features else None}
        facts = inherited(self.base, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs = {"parents": identities(attributes)} | questions_digests(questions)
        stages = {step: self.stages / f"step-{step}" for step in policy.stages}
        with Verifier(self.verifier) as verifier:
            train_policy(
                settings=policy,
                algorithm=self.algorithm,
                questions=questions,
                prompts=prompts,
                outputs=Outputs(stages, self.rollouts, self.output_features, self.cost, attributes),
                base=self.base,
                features=self.features,
                verifier=verifier,
                run_folder=self.run_folder,
                run_digest=digest(depends_on | inputs),
            )


class TrainingRules(Rules):
    """A rule for each algorithm, whose policies TRL trains. Companions learn from GRPO alone, so TRL keeps the features
    of its rollouts."""

    def rules(self) -> Iterator[Rule]:
        trl = self.study.policy.trl
        *start, _ = train_command(trl, f"{self._scripts}/accelerate.sh")  # the stage's words begin with "train"
        for algorithm in OBJECTIVES:
            if not (backbones := self.trained_by("trl", algorithm)):
                continue
            made = {
                "rollouts": results.rollouts_folder("{backbone}", algorithm),
                "cost": results.cost_file("{backbone}", f"train-{algorithm}"),
            }
            if algorithm == "grpo":
                made["output_features"] = results.states_file("{backbone}", algorithm)
            folder = results.training_folder("{backbone}", algorithm)
            unfinished = results.run_folder("train", "{backbone}", algorithm)
            yield Rule(
                name=f"train_{algorithm}",
                make=partial(self._train, algorithm),
                places=made | {"stages": folder, "run_folder": unfinished},
                files=[*self.stage_folders(algorithm), *made.values()],
                limits={"backbone": backbones},
                threads=None,
                early=True,
                gpus=trl.devices,
                environment="gpu" if trl.vllm else "cocal",
                start=start,
                shown=True,
            )

    def _train(self, algorithm: Algorithm, backbone: str, **made: str) -> Job:
        given: dict[str, Any] = {}
        if algorithm == "grpo":  # training has its own batch size
            own = {"batch_tokens": FeatureSettings().batch_tokens}
            given["features"] = self.study.features.model_copy(update=own)
        return self._job(
            Train,
            algorithm=algorithm,
            settings=self.study.policy.for_training(algorithm),
            verifier=self.study.verifier,
            prompts=self.study.prompts,
            base=results.policy_folder(backbone, "base", 0),
            questions=self._training_set,
            texts=self._texts(OBJECTIVES[algorithm].prompt_format),
            **given,
            **made,
        )
