"""Baselines that learn from the same responses as the companions, and their confidences in evaluation responses."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from cocal.answers.settings import VerifierSettings
from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Count
from cocal.store import read_frame, write_document, write_frame
from cocal_study.config.evaluation import EstimatorSettings, EvaluationSets
from cocal_study.config.method import Baseline
from cocal_study.config.methods import METHODS
from cocal_study.planning import baselines, plan, results
from cocal_study.planning.comparisons import RECALIBRATED, samples_of
from cocal_study.provenance.lineage import Source
from cocal_study.stages.base import Cell, In, Out, Pool, TrainingSet
from cocal_study.stages.jobs import NO_GPU, Job, Rule, Rules


class Recalibrate(Cell):
    """Lets baselines of the companions learn from the same rollouts, and scores responses with them."""

    baselines: tuple[str, ...]
    settings: EstimatorSettings = EstimatorSettings()
    split: CompanionSettings = CompanionSettings()
    """JSON: settings of companions, of which only the split of the questions is used"""
    verifier: VerifierSettings = VerifierSettings()
    samples: EvaluationSets
    pool: Pool = 10
    rollouts: In
    questions: TrainingSet
    evaluated: tuple[In, ...]
    """evaluation sets, from which nothing may learn"""
    responses: Path
    """folder of {set}.parquet, to score"""
    previous_stage: Count | None = None
    """last step before the last stage; baselines also learn from that stage's rollouts alone"""
    rollout_features: Path | None = None
    """feature store of the rollouts, for baselines that read states"""
    resampled: Path | None = None
    """folder of PostCal's responses, for PostCal and CoCal to learn from"""
    resampled_features: Path | None = None
    features: Path | None = None
    """folder of {set}.zarr, for baselines that read states"""
    companions: dict[Literal["rollouts", "resampled", "one-layer"], Path] = {}
    """folders of fitted companions: rollouts=FOLDER (CoCal), resampled=FOLDER (PostCal), one-layer=FOLDER (of one
    hidden layer)"""
    output_calibrators: Out
    output: Out

    @property
    def compared(self) -> list[Baseline]:
        """The baselines. Raises ConfigError if there is no such baseline."""
        if unknown := [name for name in self.baselines if name not in baselines.BASELINES]:
            raise ConfigError(f"--baselines: there is no {unknown[0]!r}; there are {', '.join(baselines.BASELINES)}")
        return [baselines.BASELINES[name] for name in self.baselines]

    def sources(self):
        # all must be of the same backbone, policy and step
        prompt_format, sets = METHODS[self.compared[0].method].prompt_format, self.samples.root
        parents = super().sources()
        tables = {name: self.responses / f"{name}.parquet" for name in sets}
        parents += [Source(path, prompt_format=prompt_format, dataset=name) for name, path in tables.items()]
        parents += [Source(self.features / f"{name}.zarr", dataset=name) for name in sets if self.features]
        parents += [Source(self.rollout_features)] if self.rollout_features else []
        resampled = (self.resampled, self.resampled_features)
        parents += [Source(path, experience="resampled") for path in resampled if path]
        kinds = {"one-layer": "rollouts"}
        return parents + [
            Source(path, experience=kinds.get(kind, kind), source_step=self.step)
            for kind, path in self.companions.items()
        ]

    def named(self):
        return sorted({baseline.score or baseline.learn for baseline in self.compared} - {""})

    def declared(self):
        """The parts of the baselines' declarations that results depend on."""
        given = ("name", "method", "learn", "reader", "columns", "blocks", "poolings")
        return [[getattr(baseline, name) for name in given] for baseline in self.compared]

    def run(self) -> None:
        from cocal_study.methods.base.predictions import Checkpoint
        from cocal_study.methods.recalibration.calibrators import fit_baselines
        from cocal_study.methods.recalibration.confidences import (
            Scorer,
            columns_of,
            learn_scores,
            predict_baselines,
            scores_to_learn_from,
            tables_of,
        )
        from cocal_study.store.contracts import PREDICTIONS

        names = list(self.baselines)
        kinds = dict.fromkeys(baseline.reader for baseline in self.compared if baseline.reader)
        if self.companions.keys() != kinds.keys():
            raise ConfigError(
                f"--companions: these baselines need one folder of each of {', '.join(kinds) or 'no kind'}"
            )
        depends_on = {"baselines": names, "estimators": self.settings, "split": self.split, "samples": self.samples}
        depends_on |= {"pool": self.pool, "verifier": self.verifier, "previous_stage": self.previous_stage}
        bases = self._bases()
        companions: dict[Any, Any] = {}
        if self.companions:
            from cocal.companion.companions import load_companions  # loads torch

            fix_threads()
            companions = {kind: load_companions(folder) for kind, folder in self.companions.items()}
        rollouts, states = bases["all"]
        learnt = learn_scores(names, rollouts, states)
        scorer = Scorer(names, self.settings, companions, learnt, self.pool)
        plain = [baseline for baseline in self.compared if baseline.score]
        scores = scorer.of_tables(tables_of(rollouts, self.rollouts, columns_of(plain))) if plain else {}
        experience: dict[Any, tuple] = {
            basis: (table, scores_to_learn_from(scorer.on(basis), table, states, scores))
            for basis, (table, states) in bases.items()
        }
        fits = fit_baselines(experience)
        cell = Checkpoint(**self.cell)
        table = predict_baselines(scorer, fits, self.samples.root, self.responses, self.features, cell)
        made = self.attributes(self.output_calibrators, depends_on, **self.cell)
        write_document(self.output_calibrators, fits.model_dump(mode="json"), made)
        write_frame(self.output, table, PREDICTIONS, self.attributes(self.output, depends_on, **self.cell))
        logging.info("%s: %d rows of %d fits", self.output, len(table), len(fits.fits))

    def _bases(self) -> dict[Any, tuple[Any, Any]]:
        """The responses of each basis (a table), and their states where a baseline reads them (a FeatureReader)."""
        import pandas as pd

        from cocal.answers.equivalence import Verifier
        from cocal.features.store import open_features
        from cocal_study.generation.labels import check_features
        from cocal_study.methods.recalibration.confidences import columns_of, read_experience, with_classes
        from cocal_study.store.contracts import QUESTIONS

        evaluated = pd.concat([read_frame(path, QUESTIONS) for path in self.evaluated], ignore_index=True)

        def read(folder: Path, features: Path | None, columns: Sequence[str] = ()) -> tuple[Any, Any]:
            table = read_experience(folder, self.questions, self.step, self.split, evaluated, columns)
            states = features and open_features(features)
            if states is not None:
                check_features(table, states)
            return table, states

        pooled = any(METHODS[baseline.method].needs_pool for baseline in self.compared)
        columns = columns_of(baseline for baseline in self.compared if baseline.learn) + ["answer"] * pooled
        rollouts, states = read(self.rollouts, self.rollout_features, columns)
        if pooled:
            with Verifier(self.verifier) as judge:
                rollouts = with_classes(rollouts, judge)
        bases = {"all": (rollouts, states)}
        if self.previous_stage:
            if self.previous_stage >= self.step:
                raise ConfigError(f"--previous-stage {self.previous_stage}: must lie before the step {self.step}")
            bases["last"] = rollouts[rollouts["step"] > self.previous_stage], states
        if self.resampled:
            bases["resampled"] = read(self.resampled, self.resampled_features)
        return bases


class RecalibrationRules(Rules):
    """Baselines that learn from what the companions learn from."""

    def rules(self) -> Iterator[Rule]:
        recalibrated = {
            "output": results.predictions_file("{backbone}", "{algorithm}", self._final, RECALIBRATED),
            "output_calibrators": results.calibrators_file("{backbone}", "{algorithm}", self._final),
        }
        limits = {"algorithm": self.study.policy.algorithms}
        yield Rule(name="recalibrate", make=self._recalibrate, places=recalibrated, limits=limits, start=NO_GPU)

    def _recalibrate(self, backbone: str, algorithm: str, **made: str) -> Job:
        """Platt scaling and isotonic regression of the baselines on one policy, fitted on its rollouts, all of them and
        those of the last stage, and on PostCal's responses where the study has PostCal."""
        study, cell = self.study, (backbone, algorithm, self._final)
        compared = baselines.baselines_of(study, algorithm)
        methods = list(dict.fromkeys(baseline.method for baseline in compared))
        (prompt_format,) = {METHODS[name].prompt_format for name in methods}
        more: dict[str, Any] = {}
        if earlier := study.policy.stages[:-1]:
            more["previous_stage"] = earlier[-1]
        readers = baselines.reader_folders(study, algorithm)
        if readers:
            more["companions"] = readers
        if any(baseline.reads_states for baseline in compared):
            more["features"] = results.features_folder(*cell, prompt_format)
        if any(baseline.reads_states and baseline.reader != "resampled" for baseline in compared):
            more["rollout_features"] = results.states_file(backbone, "grpo")
        if "resampled" in readers:
            more["resampled"] = results.rollouts_folder(backbone, "postcal")
            more["resampled_features"] = results.states_file(backbone, "postcal")
        return self._job(
            Recalibrate,
            baselines=[baseline.name for baseline in compared],
            settings=plan.estimator_settings(study, methods),
            split=study.companion,
            verifier=study.verifier,
            samples=samples_of(study, plan.domains_of(study, *cell)),
            pool=study.generation.pool,
            backbone=backbone,
            algorithm=algorithm,
            step=self._final,
            rollouts=results.rollouts_folder(backbone, algorithm),
            questions=self._training_set,
            evaluated=[results.questions_file(name) for names in self._sets.values() for name in names],
            responses=results.responses_folder(*cell, prompt_format),
            **more,
            **made,
        )
