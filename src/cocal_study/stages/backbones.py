"""Base policies, and checkpoints that exist elsewhere."""

from typing import ClassVar

from cocal.errors import ConfigError
from cocal.models.hub import download
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm, Count
from cocal.store import read_frame, write_text
from cocal.store.provenance import canonical
from cocal_study.config.backbone import BackboneChoice, PretrainingSettings
from cocal_study.config.data import FactsWorldSettings
from cocal_study.provenance.lineage import Source, descent, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World
from cocal_study.stages.base import In, Out, OutFolder, OutSteps, Seed, Stage


class Backbone(Stage):
    """Makes the base policy of a backbone."""

    settings: BackboneChoice
    name: str | None = None
    """name of the backbone, which its policies and their products must share"""
    questions: tuple[In, ...] = ()
    """question sets to hold out of the corpus"""
    prompts: str | None = None
    """prompt set of the corpus, needed to pre-train"""
    world: FactsWorldSettings = FactsWorldSettings()
    seed: Seed = 42
    output: OutFolder

    def run(self) -> None:
        from cocal_study.backbones.importing import existing, import_checkpoint
        from cocal_study.backbones.pretraining import CorpusWriter, pretrain
        from cocal_study.store.contracts import QUESTIONS

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


class Hub(Stage):
    """Downloads a checkpoint and checks it."""

    computed: ClassVar[bool] = False

    name: str
    """owner/name on the hub"""
    revision: str
    output: Out
    """JSON file to write when the checkpoint is there"""

    def run(self) -> None:
        from cocal.models.loading import load_tokenizer, require_complete

        folder = download(self.name, self.revision)
        require_complete(folder)
        load_tokenizer(folder)
        write_text(self.output, canonical({"name": self.name, "revision": self.revision}) + "\n")


class ImportCheckpoints(Stage):
    """Checks the checkpoint of every stage and puts it in its place."""

    computed: ClassVar[bool] = False

    backbone: BackboneChoice
    algorithm: Algorithm = "grpo"
    """algorithm that trained them (default: grpo)"""
    base: In
    """base policy, whose vocabulary the stages must have"""
    stages: dict[Count, In]
    """STEP=FOLDER: checkpoint of each stage"""
    output: OutSteps

    def run(self) -> None:
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
