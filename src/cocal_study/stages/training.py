"""Policies that are trained here, and their rollouts."""

from cocal.answers.settings import VerifierSettings
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm
from cocal.store import digest, read_frame
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import In, Out, OutFolder, OutSteps, PromptSet, Stage, Unfinished


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
