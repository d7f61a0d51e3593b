"""A policy trained with TRL, and its rollouts; `accelerate launch` starts it on several GPUs."""

from functools import partial
from typing import ClassVar

from cocal.companion.settings import OnlineSettings
from cocal.errors import ConfigError
from cocal.features.settings import FeatureSettings
from cocal.store.lineage import identities, inherited
from cocal_study.stages.base import OutFolder
from cocal_study.stages.shared import Trains


class Train(Trains):
    """Trains a policy and records its rollouts, or resumes a training."""

    command: ClassVar[str] = "train"
    # companions that learn inside a training are a flag that no study gives
    without: ClassVar[tuple[str, ...]] = ("cocal.companion.learner",)

    features: FeatureSettings = FeatureSettings()
    """JSON: layers and dtype of the live features"""
    output_features: OutFolder | None = None
    """feature store of the rollouts, for companions"""
    online: OnlineSettings | None = None
    """companions that learn from each rollout step inside the training, for which no feature store is needed: their
    settings and the window of steps, such as '{}' or '{"window": 10}'"""
    output_online: OutFolder | None = None
    """folder for these companions and their scores on each step"""

    def run(self) -> None:
        """Train the policy and publish the results."""
        from cocal.answers.equivalence import Verifier
        from cocal.models.loading import fingerprint
        from cocal.runtime.machine import fix_threads
        from cocal.store import digest, read_frame
        from cocal.store.contracts import QUESTIONS
        from cocal_study.policy.train import train_policy
        from cocal_study.questions.build import questions_digests
        from cocal_study.questions.prompts import Prompts

        settings, features = self.settings.for_training(self.algorithm), self.features
        if (self.online is None) != (self.output_online is None):
            raise ConfigError("--online and --output-online belong together: give both or none")
        questions = read_frame(self.questions, QUESTIONS)
        fix_threads()
        depends_on = self.depends_on(settings)
        depends_on |= {"features": features if self.output_features or self.online else None}
        depends_on |= {"online": self.online} if self.online else {}
        facts = inherited(self.base, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs = {"base": fingerprint(self.base), "parents": identities(attributes)} | questions_digests(questions)
        open_learner = None
        if self.online:
            from cocal.companion.learner import OnlineLearner

            open_learner = partial(OnlineLearner, self.online)
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
                outputs=self.outputs(settings, attributes, features=self.output_features, online=self.output_online),
                open_learner=open_learner,
            )
