"""Policies that are trained here, with TRL or with slime, the paper's engine, and their rollouts."""

from pathlib import Path
from typing import ClassVar

from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.lineage import identities, inherited
from cocal.store.run_folder import RunFolder
from cocal_study.config.backbone import BackboneChoice
from cocal_study.config.features import FeatureSettings
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import OutFolder
from cocal_study.stages.shared import Trains


class Train(Trains):
    """Trains a policy and records its rollouts, or resumes a training."""

    features: FeatureSettings = FeatureSettings()
    output_features: OutFolder | None = None
    """feature store of the rollouts, for companions"""

    def run(self) -> None:
        from cocal.answers.equivalence import Verifier
        from cocal.models.loading import fingerprint
        from cocal.store.contracts import QUESTIONS
        from cocal_study.policy.train import train_policy
        from cocal_study.questions.build import questions_digests

        settings, features = self.settings.for_training(self.algorithm), self.features
        questions = read_frame(self.questions, QUESTIONS)
        fix_threads()
        depends_on = self.depends_on(settings)
        depends_on |= {"features": features if self.output_features else None}
        facts = inherited(self.base, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs = {"base": fingerprint(self.base), "parents": identities(attributes)} | questions_digests(questions)
        with Verifier(self.verifier) as verifier:
            train_policy(
                settings,
                self.algorithm,
                base=self.base,
                questions=questions,
                prompts=Prompts(self.prompts),
                features=features,
                verifier=verifier,
                run_folder=self.run_folder,
                run_digest=digest(depends_on | inputs),
                outputs=self.outputs(settings, attributes, features=self.output_features),
            )


class Slime(Trains):
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
        from cocal.models.loading import fingerprint
        from cocal.store.contracts import QUESTIONS
        from cocal_study.questions.build import questions_digests
        from cocal_study.slime.run import SlimePaths, train_with_slime

        settings = self.settings.for_training(self.algorithm)
        questions = read_frame(self.questions, QUESTIONS)
        depends_on = self.depends_on(settings)
        # a run may resume with slime on other machines, but not with another computation
        computed = depends_on | {"policy": settings.rollout_settings(self.algorithm)}
        facts = {"backbone": self.backbone_name, "algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs = {"base": fingerprint(self.base), "parents": identities(attributes)} | questions_digests(questions)
        folder = RunFolder(self.run_folder.absolute(), digest(computed | inputs))
        converted = Path(settings.slime.torch_dist[self.backbone_name])
        train_with_slime(
            settings,
            self.algorithm,
            backbone=self.backbone.root,
            paths=SlimePaths(self.base.absolute(), converted, folder.path),
            questions=questions,
            prompts=Prompts(self.prompts),
            verifier=self.verifier,
            per_node=self.per_node,
            run=folder,
            outputs=self.outputs(settings, attributes),
        )
