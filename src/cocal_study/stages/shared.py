"""Fields that several stages share."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from cocal.answers.settings import VerifierSettings
from cocal.companion.settings import CompanionSettings
from cocal.settings.base import Algorithm, Count
from cocal.store.lineage import Source
from cocal_study.config.evaluation import JudgeChoice
from cocal_study.config.policy import PolicySettings
from cocal_study.planning.results import JUDGEMENTS, SOURCES
from cocal_study.policy.objectives import PROMPT_FORMATS
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import In, Index, Out, OutFolder, OutSteps, Stage, from_environment

Unfinished = Annotated[Path, Field(description="working folder; a killed run resumes from it")]
PromptSet = Annotated[str, Field(description="prompt set: a folder of cocal_study/questions/prompts")]
TrainingSet = Annotated[In, Field(description="whole training set, with validation questions")]
Pool = Annotated[Count, Field(description="responses per question in the self-consistency pool (default: 10)")]


class Cached(Stage):
    """Stages that read sources of questions."""

    cache: Path = from_environment("COCAL_SOURCES", SOURCES)
    """source files, in the layout of their hosts (default: the variable COCAL_SOURCES, else results/sources)"""


class Cell(Stage):
    """Stages of one checkpoint, whose products name it."""

    backbone: str
    algorithm: str
    """algorithm that trained the policy, or base"""
    step: Index

    @property
    def cell(self) -> dict[str, Any]:
        """Backbone, algorithm and step."""
        return {"backbone": self.backbone, "algorithm": self.algorithm, "step": self.step}


class Judges(Stage):
    """Stages that judge answers."""

    verifier: VerifierSettings = VerifierSettings()
    judge: JudgeChoice = JudgeChoice.model_validate({"kind": "exact-match"})
    judgements: Path = Path(JUDGEMENTS)
    """folder that caches a language model's replies; jobs share it, and it may be deleted"""

    def judging(self, domains: list[str]):
        """The judges of these domains (`cocal_study.generation.judge.Judging`)."""
        from cocal_study.generation.judge import Judging

        return Judging.of(self.verifier, self.judge.root, domains)


class FromRollouts(Stage):
    """Stages whose companions learn from stored rollouts."""

    settings: CompanionSettings = CompanionSettings()
    rollouts: In
    questions: TrainingSet
    features: In


class ReadByCheckpoints(Stage):
    """Stages in which checkpoints read stored rollouts (`cocal_study.generation.replay`)."""

    checkpoints: tuple[Path, ...] = ()
    """step-N of every stage; each reads the rollout steps after the stage before it, up to N"""
    exact: Path | None = None
    """folder of the weights of every step; weight_v000001 (of slime) or step-0 sampled step 1 and reads it"""

    @property
    def readers(self) -> list[Path]:
        """The folders that are given."""
        return [self.exact] if self.exact else list(self.checkpoints)


class Trains(Stage):
    """Stages that train a policy."""

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

    def depends_on(self, policy: PolicySettings) -> dict[str, Any]:
        """What the rollouts depend on, beside the files."""

        texts = Prompts(self.prompts).identity(PROMPT_FORMATS[self.algorithm])
        return {"policy": policy, "verifier": self.verifier, "algorithm": self.algorithm, "prompts": texts}

    def outputs(self, policy: PolicySettings, attributes: dict[str, str], **more: Path | None):
        """Where the training puts its products (`cocal_study.policy.recorder.Outputs`)."""
        from cocal_study.policy.recorder import Outputs

        stages = {step: self.stages / f"step-{step}" for step in policy.stages}
        return Outputs(stages, self.rollouts, cost=self.cost, attributes=attributes, **more)
