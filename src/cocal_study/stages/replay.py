"""Hidden states of stored rollouts, whose training kept none."""

from pathlib import Path
from typing import ClassVar

from cocal.features.settings import FeatureSettings
from cocal.store.lineage import Source, identities, inherited
from cocal_study.stages.base import OutFolder
from cocal_study.stages.shared import ReadByCheckpoints


class Replay(ReadByCheckpoints):
    """Runs one pass over the exact token ids of every rollout."""

    command: ClassVar[str] = "replay"

    settings: FeatureSettings = FeatureSettings()
    """JSON: layers, dtype, batch_tokens"""
    rollouts: Path
    """folder of rollout tables"""
    run_folder: Path
    """working folder; a killed run resumes from it"""
    output: OutFolder
    """feature store to write"""

    def reads(self):
        return [self.rollouts, *self.readers]

    def run(self) -> None:
        """Read the rollouts step by step, or resume."""
        from cocal.runtime.machine import fix_threads
        from cocal.store import digest
        from cocal.store.lineage import descent
        from cocal.store.run_folder import RunFolder, file_states
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
