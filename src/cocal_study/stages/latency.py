"""Inference times of a checkpoint and its companions on this device."""

from pathlib import Path
from typing import ClassVar

from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.provenance import digest
from cocal.store.run_folder import RunFolder
from cocal_study.config.engine import gpus_of
from cocal_study.config.evaluation import GenerationSettings, ResponseLengths, TimingSettings
from cocal_study.planning.costs import device_name, write_cost
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import Out, PromptSet, Stage, Unfinished


class Latency(Stage):
    """Times a policy and its companions; a killed run on the same device keeps the times of whole sets."""

    computed: ClassVar[bool] = False

    settings: GenerationSettings = GenerationSettings()
    datasets: ResponseLengths
    questions: Path
    checkpoint: Path
    companions: Path
    """CoCal's companions on last+mean states"""
    prompt_companions: Path
    """pre-generation companions on prompt states"""
    prompts: PromptSet
    timing: TimingSettings = TimingSettings()
    run_folder: Unfinished
    output: Out

    def sources(self):
        cell = inherited(self.checkpoint, "step")
        steps = {"source_step": cell["step"]} if cell else {}
        return [
            Source(self.checkpoint),
            Source(self.companions, experience="rollouts", **steps),
            Source(self.prompt_companions, experience="prompts", **steps),
            *map(Source, self._tables()),
        ]

    def reads(self):
        return [self.checkpoint, self.companions, self.prompt_companions, *self._tables()]

    def _tables(self) -> list[Path]:
        return [self.questions / f"{name}.parquet" for name in self.datasets.root]

    def named(self):
        return [self.settings.engine.opens]

    def run(self) -> None:
        from cocal.companion.companions import load_companions
        from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
        from cocal.models.loading import load_policy
        from cocal.models.text import chat_ids
        from cocal_study.generation.engines import open_engine
        from cocal_study.generation.latency import PromptSet, SingleCompanion, measure_latency
        from cocal_study.generation.transformers_engine import TransformersEngine
        from cocal_study.store.contracts import QUESTIONS

        settings, timing, lengths, prompts = self.settings, self.timing, self.datasets.root, Prompts(self.prompts)
        fix_threads(gpus_of(settings.engine))
        asked = {path.stem: read_frame(path, QUESTIONS)["question"] for path in self._tables()}
        depends_on = {"generation": settings, "lengths": lengths, "prompts": prompts.identity("answer")}
        cell = inherited(self.checkpoint, "backbone", "algorithm", "step")
        attributes = self.attributes(self.output, depends_on, **cell)
        timed = {"parents": identities(attributes), "options": [timing.samples, timing.seed], "device": device_name()}
        run = RunFolder(self.run_folder, digest(depends_on | timed))
        policy = load_policy(self.checkpoint)
        pre, post = (
            SingleCompanion(load_companions(path), policy, poolings, path)
            for path, poolings in ((self.prompt_companions, [PROMPT]), (self.companions, RESPONSE_POOLINGS))
        )
        sets = {
            name: PromptSet(
                chat_ids(policy.tokenizer, [prompts.message("answer", one) for one in texts]), lengths[name]
            )
            for name, texts in asked.items()
        }
        engine = settings.engine.of_concurrency(timing.concurrent)
        with open_engine(engine, self.checkpoint, policy) as generator:
            latency = measure_latency(
                sets,
                pipeline=TransformersEngine.of(policy, batch_size=1),
                generator=generator,
                pre=pre,
                post=post,
                settings=settings,
                timing=timing,
                kept=run.path / "times.json",
            )
        write_cost(self.output, latency, attributes)
        run.publish({})
