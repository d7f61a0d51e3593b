"""Policies that another engine trained elsewhere."""

from typing import ClassVar

from cocal.settings.base import Algorithm, Count
from cocal.store.lineage import Source, descent, inherited
from cocal_study.config.backbone import BackboneChoice
from cocal_study.stages.base import In, OutSteps, Stage


class ImportCheckpoints(Stage):
    """Checks the checkpoint of every stage and puts it in its place."""

    command: ClassVar[str] = "import-checkpoints"
    computed: ClassVar[bool] = False

    backbone: BackboneChoice
    """JSON: the backbone's settings"""
    algorithm: Algorithm = "grpo"
    """algorithm that trained them (default: grpo)"""
    base: In
    """base policy, whose vocabulary the stages must have"""
    stages: dict[Count, In]
    """STEP=FOLDER: checkpoint of each stage"""
    output: OutSteps
    """folder for step-N checkpoints"""

    def run(self) -> None:
        """Check and place the checkpoints."""
        from cocal_study.backbones.importing import import_checkpoint

        base = Source(self.base, algorithm="base", step=0)
        facts = inherited(self.base, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        for step, source in self.stages.items():
            output = self.output / f"step-{step}"
            import_checkpoint(
                source,
                output,
                depth=self.backbone.root.depth,
                width=self.backbone.root.width,
                attributes=descent(output, self.command, {"source": str(source)}, [base], step=step, **facts),
                base=self.base,
            )
