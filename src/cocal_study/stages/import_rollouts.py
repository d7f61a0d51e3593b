"""Rollouts that another engine dumped."""

from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar, Literal

from cocal.answers.settings import VerifierSettings
from cocal.features.settings import FeatureSettings
from cocal.objectives import PROMPT_FORMATS
from cocal.settings.base import Algorithm
from cocal.store.lineage import Source, identities, inherited
from cocal_study.config.policy import PolicySettings
from cocal_study.stages.base import OutFolder
from cocal_study.stages.shared import ReadByCheckpoints


class ImportRollouts(ReadByCheckpoints):
    """Turns rollout dumps of slime, TRL or JSON lines into rollout tables."""

    command: ClassVar[str] = "import-rollouts"
    computed: ClassVar[bool] = False

    settings: PolicySettings
    """JSON: the policy training that made the rollouts"""
    algorithm: Algorithm
    """algorithm of that training"""
    verifier: VerifierSettings = VerifierSettings()
    """JSON: bounds of the verifier"""
    format: Literal["slime", "trl", "jsonl"]
    """format of the dumps"""
    dumps: Path
    """folder of dumps, one file per step"""
    questions: Path
    """training set"""
    policy: Path
    """checkpoint of the tokenizer and vocabulary"""
    correctness: Literal["verifier", "reward"] = "verifier"
    """what decides which responses are correct: our verifier, or the reward of the dumps"""
    reward_key: str = "reward"
    """name of the reward where dumps have several"""
    tokenise: str | None = None
    """prompt set for tokenising dumps that have only text; the ids may differ from those that were sampled"""
    features: FeatureSettings = FeatureSettings()
    """JSON: batch_tokens, for log-probabilities that dumps lack"""
    run_folder: Path
    """working folder; a killed run resumes from it"""
    output: OutFolder
    """folder for the tables, one per step"""

    def sources(self):
        return [Source(self.policy, algorithm="base", step=0), Source(self.questions)]

    def reads(self):
        return [self.policy, self.questions, self.dumps, *self.readers]

    def run(self) -> None:
        """Import the dumps, or resume their import, and publish the tables."""
        from cocal.answers.equivalence import Verifier
        from cocal.models.loading import read_vocabulary
        from cocal.runtime.machine import fix_threads
        from cocal.store import digest, read_frame
        from cocal.store.contracts import QUESTIONS
        from cocal.store.run_folder import RunFolder, file_states
        from cocal_study.generation.replay import Rescorer, StepCheckpoints
        from cocal_study.policy.importing import Dumps, StepTables, import_rollouts
        from cocal_study.policy.recorder import Outputs
        from cocal_study.questions.build import questions_digests
        from cocal_study.questions.prompts import Prompts

        fix_threads()
        questions = read_frame(self.questions, QUESTIONS)
        prompts = Prompts(self.tokenise) if self.tokenise else None
        dumps = Dumps.of(self.format, self.dumps, self.settings.steps, self.reward_key)
        checkpoints = StepCheckpoints(self.checkpoints, self.exact) if self.readers else None
        depends_on = {
            "policy": self.settings,
            "verifier": self.verifier,
            "format": self.format,
            "correctness": self.correctness,
            "reward_key": self.reward_key,
            "tokenised_text": prompts and prompts.identity(PROMPT_FORMATS[self.algorithm]),
            "missing_logprobs": "computed" if checkpoints else "refused",
        }
        inputs = {
            "dumps": file_states(dumps.files.values()),
            "checkpoints": checkpoints and checkpoints.state(),
        } | questions_digests(questions)
        facts = inherited(self.policy, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.output, depends_on, **facts)
        with Verifier(self.verifier) if self.correctness == "verifier" else nullcontext() as judge:
            tables = StepTables(
                self.settings,
                self.algorithm,
                questions=questions,
                vocabulary=read_vocabulary(self.policy),
                judge=judge,
                scorer=checkpoints and Rescorer(checkpoints, self.features.batch_tokens),
                prompts=prompts,
            )
            run_folder = RunFolder(self.run_folder, digest(depends_on | inputs | {"parents": identities(attributes)}))
            import_rollouts(dumps, tables, run_folder, Outputs({}, self.output, attributes=attributes))
