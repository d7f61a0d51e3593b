"""A base policy, by pre-training or from a checkpoint that exists."""

from typing import ClassVar

from cocal.errors import ConfigError
from cocal_study.config.backbone import BackboneChoice, PretrainingSettings
from cocal_study.config.data import FactsWorldSettings
from cocal_study.stages.base import In, OutFolder, Seed, Stage


class Backbone(Stage):
    """Makes the base policy of a backbone."""

    command: ClassVar[str] = "backbone"

    settings: BackboneChoice
    """JSON: settings of the backbone"""
    name: str | None = None
    """name of the backbone, which its policies and their products must share"""
    questions: tuple[In, ...] = ()
    """question sets to hold out of the corpus"""
    prompts: str | None = None
    """prompt set of the corpus, needed to pre-train"""
    world: FactsWorldSettings = FactsWorldSettings()
    """JSON: settings of the facts world"""
    seed: Seed = 42
    """seed of the facts world (default: 42)"""
    output: OutFolder
    """checkpoint folder"""

    def run(self) -> None:
        """Pre-train, or check and copy what exists."""
        from cocal.runtime.machine import fix_threads
        from cocal.store import read_frame
        from cocal.store.contracts import QUESTIONS
        from cocal.store.lineage import descent
        from cocal_study.backbones.importing import existing, import_checkpoint
        from cocal_study.backbones.pretraining import CorpusWriter, pretrain
        from cocal_study.questions.prompts import Prompts
        from cocal_study.questions.synthetic import World

        fix_threads()
        settings, world = self.settings.root, self.world
        facts = {"backbone": self.name, "algorithm": "base", "step": 0}
        if not isinstance(settings, PretrainingSettings):
            made_from = settings.model_copy(update={"imported": {}})
            with existing(settings) as source:
                import_checkpoint(
                    source,
                    self.output,
                    depth=settings.depth,
                    width=settings.width,
                    architecture=settings.architecture,
                    attributes=descent(self.output, self.command, made_from, [], **facts),
                )
            return
        if self.prompts is None:
            raise ConfigError("--prompts: a backbone that is pre-trained needs the prompt set of its study")
        held_out = [q for path in self.questions for q in read_frame(path, QUESTIONS, ["question"])["question"]]
        people = World(world.people, world.popularity_exponent, self.seed)
        prompts = Prompts(self.prompts)
        writer = CorpusWriter(settings.corpus, prompts, people, held_out, settings.seed)
        depends_on = {"backbone": settings, "world": world, "prompts": prompts.identity(), "seed": self.seed}
        attributes = self.attributes(self.output, depends_on, **facts)
        if settings.start is None:
            pretrain(settings, writer, self.output, attributes)
        else:
            with existing(settings.start) as source:
                pretrain(settings, writer, self.output, attributes, source)
