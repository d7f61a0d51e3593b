"""Policies that are trained here, with TRL or with slime, the paper's engine, and their rollouts."""

from pathlib import Path
from typing import Any, ClassVar

from cocal.answers.settings import VerifierSettings
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm
from cocal.store import check_folder, digest, read_frame
from cocal.store.run_folder import RunFolder
from cocal_study.config.backbone import BackboneChoice
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.objectives import PROMPT_FORMATS
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import In, Out, OutFolder, OutSteps, PromptSet, Stage, Unfinished


class _Trains(Stage):
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

    def sources(self):
        return [Source(self.base, algorithm="base", step=0), Source(self.questions)]

    def _given(self, backbone: dict[str, str], states: Path | None = None, **more: Any) -> tuple[dict[str, Any], ...]:
        """The arguments that both trainers take, and what a run depends on."""
        from cocal_study.policy.recorder import Outputs
        from cocal_study.questions.build import questions_digests
        from cocal_study.store.contracts import QUESTIONS

        policy, prompts = self.settings.for_training(self.algorithm), Prompts(self.prompts)
        questions = read_frame(self.questions, QUESTIONS)
        depends_on = {"policy": policy, "verifier": self.verifier, "algorithm": self.algorithm}
        depends_on |= {"prompts": prompts.identity(PROMPT_FORMATS[self.algorithm]), **more}
        facts = backbone | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs = {"parents": identities(attributes)} | questions_digests(questions)
        stages = {step: self.stages / f"step-{step}" for step in policy.stages}
        outputs = Outputs(stages, self.rollouts, states, self.cost, attributes)
        given = {"settings": policy, "algorithm": self.algorithm, "questions": questions, "prompts": prompts}
        return given | {"outputs": outputs}, depends_on | inputs


class Train(_Trains):
    """Trains a policy and records its rollouts, or resumes a training."""

    features: FeatureSettings = FeatureSettings()
    output_features: OutFolder | None = None
    """feature store of the rollouts, for companions"""

    def run(self) -> None:
        from cocal.answers.equivalence import Verifier
        from cocal_study.policy.train import train_policy

        fix_threads()
        features = self.features if self.output_features else None
        given, depends_on = self._given(inherited(self.base, "backbone"), self.output_features, features=features)
        with Verifier(self.verifier) as verifier:
            train_policy(
                **given,
                base=self.base,
                features=self.features,
                verifier=verifier,
                run_folder=self.run_folder,
                run_digest=digest(depends_on),
            )


class Slime(_Trains):
    """Trains a policy with slime, or resumes a training, and imports its rollouts and checkpoints."""

    computed: ClassVar[bool] = False

    backbone_name: str
    """name of the backbone in policy.slime.torch_dist"""
    backbone: BackboneChoice
    per_node: str = ""
    """script that joins several nodes by Ray"""

    def named(self):
        return ["cocal_study.slime.hooks"]

    def run(self) -> None:
        from cocal_study.slime.run import train_with_slime

        check_folder(self.base)  # slime would not notice a changed file
        given, depends_on = self._given({"backbone": self.backbone_name})
        # a run may resume with slime on other machines, but not with another computation
        computed = depends_on | {"policy": given["settings"].rollout_settings(self.algorithm)}
        folder = RunFolder(self.run_folder.absolute(), digest(computed))
        converted = Path(given["settings"].slime.torch_dist[self.backbone_name])
        train_with_slime(
            **given,
            backbone=self.backbone.root,
            base=self.base.absolute(),
            converted=converted,
            verifier=self.verifier,
            per_node=self.per_node,
            run=folder,
        )
