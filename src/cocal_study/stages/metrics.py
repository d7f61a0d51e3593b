"""The metric cube of predictions, with bootstrap intervals, and the metrics of its resamples."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import Literal

from cocal.metrics.settings import MetricSettings
from cocal.store import read_frame
from cocal_study.config.evaluation import MacroAverages
from cocal_study.planning import results
from cocal_study.provenance.lineage import inherited
from cocal_study.stages.base import In, Out, Stage
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.store.datasets import write_dataset


class Metrics(Stage):
    """Computes a metric cube."""

    settings: MetricSettings = MetricSettings()
    groups: MacroAverages = MacroAverages()
    """JSON: macro averages, such as {"macro-mathematics": ["math500", ...]}"""
    seeds: tuple[int, ...] | None = None
    """seeds that every companion must have (default: all)"""
    predictions: tuple[In, ...]
    """Parquet files or folders"""
    sweep: tuple[Literal["source_step", "validation_step", "layer", "pooling"], ...] = ()
    """dimensions of the cube along which a method has several companions"""
    common_responses: bool = False
    """confidence metrics cover only responses for which all methods that share them have a valid confidence"""
    scores: bool = False
    """add the scores beyond the paper's metrics, such as the Brier score and the area under the risk"""
    output: Out
    """metric cube to write (.nc)"""
    resamples: Out | None = None
    """file for the metrics of every resample from which methods are compared (.nc)"""

    def run(self) -> None:
        import pandas as pd

        from cocal.metrics.calibration import METRICS
        from cocal.metrics.scores import PAIRED, WITH_QUESTIONS, WITHIN
        from cocal_study.cubes.cube import evaluate_cells, on_common_responses
        from cocal_study.cubes.resamples import resamples_of
        from cocal_study.store.contracts import PREDICTIONS

        # in the order that they have on a command line, however the stage was made
        settings, groups = self.settings, dict(sorted(self.groups.root.items()))
        frames = [read_frame(path, PREDICTIONS) for path in self.predictions]
        predictions = pd.concat(frames, ignore_index=True)
        if self.common_responses:
            predictions = on_common_responses(predictions)
        present = set(predictions["dataset"].unique())
        for group, members in groups.items():
            for name in sorted(set(members) - present):
                logging.warning("no predictions on %s, so %s stays empty", name, group)
        metrics = WITH_QUESTIONS if self.scores else (*METRICS, WITHIN)
        resampled = tuple(dict.fromkeys((*metrics, *PAIRED)))
        evaluated = evaluate_cells(predictions, settings, groups, self.seeds, self.sweep, resampled)
        depends_on = {"metrics": settings, "groups": groups, "seeds": self.seeds, "sweep": self.sweep}
        depends_on |= {"common_responses": self.common_responses, "scores": self.scores}
        facts = inherited(self.predictions[0], "backbone")
        write_dataset(self.output, evaluated.cube(metrics), self.attributes(self.output, depends_on, **facts))
        logging.info("wrote %s", self.output)
        if self.resamples:
            attributes = self.attributes(self.resamples, depends_on, **facts)
            write_dataset(self.resamples, resamples_of(evaluated), attributes)
            logging.info("wrote %s", self.resamples)


class MetricRules(Rules):
    """A metric cube for each kind of comparison; that of the baselines has no resamples."""

    def rules(self) -> Iterator[Rule]:
        from cocal_study.planning.comparisons import RECALIBRATED  # loads the baselines' modules

        cube = {
            "output": results.metrics_file("{backbone}", "{cube}"),
            "resamples": results.resamples_file("{backbone}", "{cube}"),
        }
        yield Rule(name="metrics", make=self._metrics, places=cube)
        of_baselines = {"output": results.metrics_file("{backbone}", RECALIBRATED)}
        yield Rule(name="recalibrated_metrics", make=partial(self._metrics, cube=RECALIBRATED), places=of_baselines)

    def _metrics(self, backbone: str, cube: str, **made: str) -> Job:
        from cocal_study.planning.comparisons import cube_fields

        return self._job(Metrics, **cube_fields(self.study, backbone, cube) | made)
