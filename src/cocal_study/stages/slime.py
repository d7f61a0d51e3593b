"""A policy trained with slime, the paper's engine, in its container."""

from pathlib import Path
from typing import ClassVar

from cocal.store.lineage import identities
from cocal_study.config.backbone import BackboneChoice
from cocal_study.stages.shared import Trains


class Slime(Trains):
    """Trains a policy with slime, or resumes a training, and imports its rollouts and checkpoints."""

    command: ClassVar[str] = "slime"
    computed: ClassVar[bool] = False

    backbone_name: str
    """name of the backbone in policy.slime.torch_dist"""
    backbone: BackboneChoice
    """JSON: the backbone's settings"""
    per_node: str = ""
    """script that joins several nodes by Ray"""

    def named(self):
        return ["cocal_study.slime.hooks"]

    def run(self) -> None:
        """Train with slime, import its dumps and checkpoints, and publish them."""
        from cocal.models.loading import fingerprint
        from cocal.store import digest, read_frame
        from cocal.store.contracts import QUESTIONS
        from cocal.store.run_folder import RunFolder
        from cocal_study.questions.build import questions_digests
        from cocal_study.questions.prompts import Prompts
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
