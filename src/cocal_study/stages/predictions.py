"""Confidences of every method in the responses of a checkpoint."""

import logging
from collections.abc import Iterator
from pathlib import Path

from cocal.runtime.machine import fix_threads
from cocal.store import write_frame
from cocal_study.config.evaluation import EstimatorSettings, EvaluationSets
from cocal_study.config.method import Experience, Method, PromptFormat
from cocal_study.config.methods import METHODS
from cocal_study.planning import plan, results
from cocal_study.provenance.lineage import Source
from cocal_study.stages.base import Cell, Out, Pool
from cocal_study.stages.jobs import NO_GPU, Job, Rule, Rules


class Predictions(Cell):
    """Estimates confidences with every method, or with companions that are compared with one another."""

    settings: EstimatorSettings = EstimatorSettings()
    samples: EvaluationSets
    pool: Pool = 10
    methods: str | None = None
    """comma-separated names (default: those of --settings that are evaluated on this policy)"""
    responses: dict[PromptFormat, Path]
    """one folder of {set}.parquet per prompt format: answer=FOLDER verbal=FOLDER"""
    features: dict[PromptFormat, Path] = {}
    """one folder of {set}.zarr per prompt format"""
    companions: dict[Experience, tuple[Path, ...]] = {}
    """folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), prompts=FOLDER"""
    output: Out

    @property
    def names(self) -> list[str]:
        """Names of the methods."""
        if self.methods:
            return self.methods.split(",")
        return [name for name in self.settings.methods if METHODS[name].policy == self.algorithm]

    @property
    def chosen(self) -> list[Method]:
        """The named methods that exist."""
        return [METHODS[name] for name in self.names if name in METHODS]

    def sources(self):
        formats = {method.prompt_format for method in self.chosen}
        read_by_companions = {method.prompt_format for method in self.chosen if method.experience}
        of_responses = [
            Source(folder / f"{name}{ending}", prompt_format=prompt_format, dataset=name)
            for folders, ending, needed in (
                (self.responses, ".parquet", formats),
                (self.features, ".zarr", read_by_companions),
            )
            for prompt_format, folder in folders.items()
            if prompt_format in needed
            for name in self.samples.root
        ]
        # companions learn from GRPO's rollouts, also where RLCR or DCPO trained the policy (appendix D)
        return of_responses + [
            Source(folder, experience=experience, algorithm="grpo")
            for experience, folders in self.companions.items()
            for folder in folders
        ]

    def named(self):
        return sorted({method.estimate for method in self.chosen})

    def declared(self):
        """The parts of the methods' declarations that predictions depend on, so not their looks."""
        return [[method.name, method.target, method.columns] for method in self.chosen]

    def run(self) -> None:
        from cocal_study.methods.base.predictions import Checkpoint, predict
        from cocal_study.methods.base.responses import Inputs
        from cocal_study.store.contracts import PREDICTIONS

        depends_on = {"estimators": self.settings, "samples": self.samples, "pool": self.pool, "methods": self.names}
        attributes = self.attributes(self.output, depends_on, **self.cell)
        loaded = {}
        if self.companions:
            from cocal.companion.companions import load_companions  # loads torch

            fix_threads()
            loaded = {kind: [load_companions(path) for path in paths] for kind, paths in self.companions.items()}
        inputs = Inputs(self.settings, self.pool, self.features, loaded)
        table = predict(self.names, self.samples, self.responses, inputs, Checkpoint(**self.cell))
        write_frame(self.output, table, PREDICTIONS, attributes)
        logging.info("%s: %d rows", self.output, len(table))


class PredictionRules(Rules):
    """A table of predictions has all methods of a checkpoint, or companions that are compared with one another
    (`cocal_study.planning.comparisons`)."""

    def rules(self) -> Iterator[Rule]:
        predictions = {"output": results.predictions_file("{backbone}", "{algorithm}", "{step}", "{comparison}")}
        yield Rule(name="predictions", make=self._predictions, places=predictions, start=NO_GPU)

    def _predictions(self, backbone: str, algorithm: str, step: str, comparison: str, **made: str) -> Job:
        from cocal_study.planning.comparisons import comparison_of, samples_of  # loads the baselines' modules

        planned = comparison_of(self.study, backbone, algorithm, int(step), comparison)
        methods, cell = [METHODS[name] for name in planned.methods], (backbone, algorithm, planned.step)
        formats = dict.fromkeys(method.prompt_format for method in methods)
        read = dict.fromkeys(method.prompt_format for method in methods if method.experience)
        return self._job(
            Predictions,
            settings=plan.estimator_settings(self.study, planned.methods),
            samples=samples_of(self.study, planned.domains),
            # comparisons of companions compare no answers
            **({"pool": self.study.generation.pool} if comparison == planned.sampling else {}),
            backbone=backbone,
            algorithm=algorithm,
            step=step,
            responses={kind: results.responses_folder(*cell, kind + planned.sampling) for kind in formats},
            features={kind: results.features_folder(*cell, kind + planned.sampling) for kind in read},
            companions=planned.companions,
            **made,
        )
