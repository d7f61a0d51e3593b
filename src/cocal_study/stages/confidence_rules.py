"""Rules of companions, of confidences, of their metrics, and of the checks of the protocol."""

from functools import partial
from typing import Any

from cocal_study.config.methods import METHODS
from cocal_study.planning import plan, results, rivals, variants
from cocal_study.planning.comparisons import (
    RECALIBRATED,
    comparison_of,
    comparisons,
    cube_fields,
    samples_of,
)
from cocal_study.planning.variants import ABLATIONS, variant_of
from cocal_study.stages.checks import Checks
from cocal_study.stages.companions import Companions, Online
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.stages.latency import Latency
from cocal_study.stages.metrics import Metrics
from cocal_study.stages.predictions import Predictions
from cocal_study.stages.recalibrate import Recalibrate


class ConfidenceRules(Rules):
    """One job fits the companions of all prefixes, seeds and targets of a variant (`cocal_study.planning.variants`),
    whose features it reads once. A table of predictions has all methods of a checkpoint, or companions that are
    compared with one another (`cocal_study.planning.comparisons`)."""

    def _confidence_rules(self) -> list[Rule]:
        companions = {
            "output": results.variant_folder("{backbone}", "{variant}"),
            "cost": results.cost_file("{backbone}", "companions-{variant}"),
        }
        online = {
            "output_companions": results.companion_folder("{backbone}", "online"),
            "output": results.online_file("{backbone}"),
        }
        recalibrated = {
            "output": results.predictions_file("{backbone}", "{algorithm}", self._final, RECALIBRATED),
            "output_calibrators": results.calibrators_file("{backbone}", "{algorithm}", self._final),
        }
        predictions = {"output": results.predictions_file("{backbone}", "{algorithm}", "{step}", "{comparison}")}
        cube = {
            "output": results.metrics_file("{backbone}", "{cube}"),
            "resamples": results.resamples_file("{backbone}", "{cube}"),
        }
        of_rivals = {"output": results.metrics_file("{backbone}", RECALIBRATED)}
        timed = {"output": results.cost_file("{backbone}", "latency")}
        timed["run_folder"] = results.run_folder("latency", "{backbone}")
        checked = {"output": results.checks_file("{backbone}")}
        trained = {"algorithm": self.study.policy.algorithms}
        processor: dict[str, Any] = {"start": ("env", "CUDA_VISIBLE_DEVICES=", "cocal")}
        return [
            Rule(name="companions", make=self._companions, places=companions, gpus=1),
            Rule(name="online", make=self._online, places=online, gpus=1),
            Rule(name="predictions", make=self._predictions, places=predictions, **processor),
            Rule(name="recalibrate", make=self._recalibrate, places=recalibrated, limits=trained, **processor),
            Rule(name="metrics", make=self._metrics, places=cube),
            Rule(name="recalibrated_metrics", make=partial(self._metrics, cube=RECALIBRATED), places=of_rivals),
            # all other rules take one thread, so on a machine of two cores nothing runs beside what is timed
            Rule(name="latency", make=self._latency, places=timed, threads=2, **self._sampling),
            Rule(name="checks", make=self._checks, places=checked),
        ]

    def _companions(self, backbone: str, variant: str, **made: str) -> Job:
        return self._job(Companions, **variant_of(self.study, backbone, variant), questions=self._training_set, **made)

    def _online(self, backbone: str, **made: str) -> Job:
        """Companions that learn from each rollout step when it is produced; the states are those that were kept for
        replay. They are scored on every step before they learn from it, beside the replayed companions."""
        study = self.study
        return self._job(
            Online,
            settings=study.companion,
            rollouts=results.rollouts_folder(backbone, "grpo"),
            features=results.states_file(backbone, "grpo"),
            questions=self._training_set,
            windows=variants.windows(study),
            stages=study.policy.stages,
            replayed=variants.replayed_folders(study),
            steps=self._final,
            bins=study.metrics.bins,
            **made,
        )

    def _predictions(self, backbone: str, algorithm: str, step: str, comparison: str, **made: str) -> Job:
        one = comparison_of(self.study, backbone, algorithm, int(step), comparison)
        methods, cell = [METHODS[name] for name in one.methods], (backbone, algorithm, one.step)
        formats = dict.fromkeys(method.prompt_format for method in methods)
        read = dict.fromkeys(method.prompt_format for method in methods if method.experience)
        return self._job(
            Predictions,
            settings=plan.estimator_settings(self.study, one.methods),
            samples=samples_of(self.study, one.domains),
            # companions alone compare no answers
            **({"pool": self.study.generation.pool} if comparison == one.sampling else {}),
            backbone=backbone,
            algorithm=algorithm,
            step=step,
            responses={kind: results.responses_folder(*cell, kind + one.sampling) for kind in formats},
            features={kind: results.features_folder(*cell, kind + one.sampling) for kind in read},
            companions=one.companions,
            **made,
        )

    def _recalibrate(self, backbone: str, algorithm: str, **made: str) -> Job:
        """Platt scaling and isotonic regression of the rivals on one policy, fitted on its rollouts, all of them and
        those of the last stage, and on PostCal's responses where the study has PostCal."""
        study, cell = self.study, (backbone, algorithm, self._final)
        compared = rivals.rivals_of(study, algorithm)
        methods = list(dict.fromkeys(rival.method for rival in compared))
        (prompt_format,) = {METHODS[name].prompt_format for name in methods}
        more: dict[str, Any] = {}
        if earlier := study.policy.stages[:-1]:
            more["previous_stage"] = earlier[-1]
        readers = rivals.reader_folders(study, algorithm)
        if readers:
            more["companions"] = readers
        if any(rival.reads_states for rival in compared):
            more["features"] = results.features_folder(*cell, prompt_format)
        if any(rival.reads_states and rival.reader != "resampled" for rival in compared):
            more["rollout_features"] = results.states_file(backbone, "grpo")
        if "resampled" in readers:
            more["resampled"] = results.rollouts_folder(backbone, "postcal")
            more["resampled_features"] = results.states_file(backbone, "postcal")
        return self._job(
            Recalibrate,
            rivals=[rival.name for rival in compared],
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

    def _metrics(self, backbone: str, cube: str, **made: str) -> Job:
        return self._job(Metrics, **cube_fields(self.study, backbone, cube) | made)

    def _latency(self, backbone: str, **made: str) -> Job:
        """Inference times of the final policy and its companions, which differ from run to run. Only the tables of
        times depend on them."""
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

    def _checks(self, backbone: str, **made: str) -> Job:
        """Checks that the study kept the protocol; a violation fails the run and is named."""
        study, compared = self.study, list(comparisons(self.study, backbone))
        experiences = plan.experiences_of(plan.methods_of(study, backbone, "grpo", self._final))
        companions = {
            kind: plan.fitted(backbone, kind, *plan.companion_prefixes(study, backbone, kind)) for kind in experiences
        }
        companions[ABLATIONS] = variants.ablation_folders(study, backbone)
        more: dict[str, Any] = {}
        if "resampled" in experiences:
            more["resampled"] = results.rollouts_folder(backbone, "postcal")
        if backbone == self._main:
            if folder := rivals.reader_folders(study, "grpo").get(rivals.ONE_LAYER):
                companions[rivals.ONE_LAYER] = [folder]
            if plan.has_methods(study, "cocal-binary"):
                companions["online"] = variants.online_folders(study)
        return self._job(
            Checks,
            settings=study.companion,
            quality=study.quality,
            backbone=backbone,
            rollouts=results.rollouts_folder(backbone, "grpo"),
            questions=self._training_set,
            companions=companions,
            predictions=[one.file for one in compared if not one.sampling],
            second=[one.file for one in compared if one.sampling],
            beside=[results.OVERLAP],
            **more,
            **made,
        )
