"""Base policies, and checkpoints that exist elsewhere."""

from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from typing import ClassVar, cast

from cocal.errors import ConfigError
from cocal.models.hub import download
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm, Count
from cocal.store import digest, read_frame, write_text
from cocal.store.provenance import canonical
from cocal.store.run_folder import RunFolder
from cocal_study.config.backbone import BackboneChoice, BackboneSettings, PretrainingSettings
from cocal_study.config.data import FactsWorldSettings
from cocal_study.config.evaluation import LlmJudgeSettings
from cocal_study.planning import results
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.provenance.lineage import Source, descent, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World
from cocal_study.stages.base import In, Out, OutFolder, OutSteps, Seed, Stage, Unfinished
from cocal_study.stages.jobs import Job, Rule, Rules


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
    run_folder: Unfinished | None = None
    """working folder of a pre-training; a killed run resumes from it"""

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
        inputs = {"parents": identities(attributes)}
        run = RunFolder(self.run_folder, digest(depends_on | inputs)) if self.run_folder else None
        with nullcontext() if settings.start is None else existing(settings.start) as source:
            pretrain(settings, writer, self.output, attributes, source, run and run.path / "training.pt")
        if run:
            run.publish({})


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


class BackboneRules(Rules):
    """A backbone is made here or exists, and its training may have been run elsewhere. Snakemake deletes the outputs of
    a failed job, so unfinished work lies in results/runs, from which the next attempt resumes."""

    def rules(self) -> Iterator[Rule]:
        made = [name for name, backbone in self.study.backbones.items() if backbone.source == "pretraining"]
        existing = [name for name in self.study.backbones if name not in made]
        base = {"output": results.policy_folder("{backbone}", "base", 0)}
        unfinished = {"run_folder": results.run_folder("backbone", "{backbone}")}
        how = {"threads": None, "early": True, "shown": True}
        yield Rule(name="backbone", make=self._backbone, places=base | unfinished, limits={"backbone": made}, **how)
        how |= {"places": base, "limits": {"backbone": existing}}
        yield Rule(name="existing_backbone", make=self._existing, local=True, **how)
        for algorithm in OBJECTIVES:
            if imported := self.trained_by("imported", algorithm):
                yield Rule(
                    name=f"import_{algorithm}",
                    make=partial(self._imported, algorithm),
                    places={"output": results.training_folder("{backbone}", algorithm)},
                    files=self.stage_folders(algorithm),
                    limits={"backbone": imported},
                )
        if self.judge_from_hub:
            yield Rule(name="judge_checkpoint", make=self._judge, places={"output": results.JUDGE}, local=True)

    def _backbone_settings(self, backbone: str) -> BackboneSettings:
        """The backbone without its name in print and imported trainings, which concern only other rules."""
        return self.study.backbones[backbone].model_copy(update={"imported": {}, "label": backbone})

    def _backbone(self, backbone: str, **made: str) -> Job:
        study = self.study
        return self._job(
            Backbone,
            name=backbone,
            settings=self._backbone_settings(backbone),
            questions=[results.questions_file(name) for name in study.datasets],
            world=study.world,
            prompts=study.prompts,
            seed=study.seed,
            texts=self._texts(),
            **made,
        )

    def _existing(self, backbone: str, **made: str) -> Job:
        return self._job(Backbone, name=backbone, settings=self._backbone_settings(backbone), **made)

    def _imported(self, algorithm: Algorithm, backbone: str, **made: str) -> Job:
        return self._job(
            ImportCheckpoints,
            algorithm=algorithm,
            backbone=self._backbone_settings(backbone),
            base=results.policy_folder(backbone, "base", 0),
            stages=self.study.backbones[backbone].imported[algorithm].stages,
            **made,
        )

    def _judge(self, **made: str) -> Job:
        judge = cast(LlmJudgeSettings, self.study.judge)
        return self._job(Hub, name=judge.checkpoint, revision=judge.revision, **made)
