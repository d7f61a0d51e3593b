"""Hidden states of the prompts of policy training."""

from pathlib import Path
from typing import ClassVar

from cocal.features.settings import FeatureSettings
from cocal.store.lineage import Source, descent, inherited
from cocal_study.stages.base import OutFolder
from cocal_study.stages.shared import ReadByCheckpoints


class Prompts(ReadByCheckpoints):
    """Runs one pass over the prompts of every stage."""

    command: ClassVar[str] = "prompts"

    settings: FeatureSettings = FeatureSettings()
    """JSON: layers, dtype, batch_tokens"""
    rollouts: Path
    """folder of rollout tables"""
    output: OutFolder
    """feature store to write"""

    def reads(self):
        return [self.rollouts, *self.readers]

    def run(self) -> None:
        """Read every prompt once."""
        from cocal.runtime.machine import fix_threads
        from cocal.store import read_frame
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.replay import StepCheckpoints, extract_prompts

        fix_threads()
        checkpoints = StepCheckpoints(self.checkpoints, self.exact)
        columns = ["dataset", "question_id", "response_id", "step", "sample", "prompt_ids"]
        # the responses to a question share its prompt, so only the first of them is read
        rollouts = read_frame(self.rollouts, RESPONSES, columns, where=[("sample", "=", 0)])
        facts = inherited(self.rollouts, "backbone", "algorithm") | {"experience": "prompts"}
        sources = [Source(path, experience="rollouts") for path in (self.rollouts, *checkpoints.folders)]
        extract_prompts(
            checkpoints,
            rollouts[rollouts["step"] <= checkpoints.last],
            self.settings,
            output=self.output,
            attributes=descent(self.output, self.command, self.settings, sources, **facts),
        )
