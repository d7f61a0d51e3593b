"""Inference times of a checkpoint and its companions on this device."""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.provenance import digest
from cocal.store.run_folder import RunFolder
from cocal_study.config.engine import gpus_of
from cocal_study.config.evaluation import GenerationSettings, ResponseLengths, TimingSettings
from cocal_study.planning import plan, results
from cocal_study.planning.costs import device_name, write_cost
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import Out, PromptSet, Stage, Unfinished
from cocal_study.stages.jobs import Job, Rule, Rules


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
            SingleCompanion(load_companions(path), policy) for path in (self.prompt_companions, self.companions)
        )
        sets = {
            name: PromptSet(
                chat_ids(policy.tokenizer, [prompts.message("answer", text) for text in texts]), lengths[name]
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


class LatencyRules(Rules):
    """Times of this device, which differ from run to run and which only the tables of times depend on."""

    def rules(self) -> Iterator[Rule]:
        timed = {"output": results.cost_file("{backbone}", "latency")}
        timed["run_folder"] = results.run_folder("latency", "{backbone}")
        # all other rules take one thread, so on a machine of two cores nothing runs beside what is timed
        yield Rule(name="latency", make=self._latency, places=timed, threads=2, **self._sampling)

    def _latency(self, backbone: str, **made: str) -> Job:
        study, last = self.study, plan.restricted(self._final)
        (replayed,), (prompted,) = (plan.fitted(backbone, kind, last) for kind in ("rollouts", "prompts"))
        return self._job(
            Latency,
            settings=study.generation,
            datasets={name: study.datasets[name].max_response_length for name in self._sets["mathematics"]},
            questions=results.QUESTIONS,
            checkpoint=results.policy_folder(backbone, "grpo", self._final),
            companions=replayed,
            prompt_companions=prompted,
            prompts=study.prompts,
            timing=study.timing,
            texts=self._texts("answer"),
            **made,
        )
