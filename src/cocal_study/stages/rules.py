"""All rules of the workflow but those of tables and figures, with what their jobs read and depend on.

`workflow/rules` has a rule of Snakemake for each, which names the command. Everything else derives from this table.
"""

from functools import cached_property
from typing import Any

from cocal.store.provenance import digest
from cocal_study.config.methods import METHODS
from cocal_study.planning import plan, results, rivals, variants
from cocal_study.planning.comparisons import (
    CUBES,
    KINDS,
    RECALIBRATED,
    comparison_of,
    comparisons,
    cube_settings,
    predictions_of,
    recalibrated_files,
    samples_of,
)
from cocal_study.planning.jobs import Files, Job, Rule, either
from cocal_study.planning.variants import ABLATIONS, VARIANTS, variant_of
from cocal_study.stages.base import Stage
from cocal_study.stages.companions import Companions
from cocal_study.stages.policy_rules import ALGORITHMS, DOMAINS, TRAINERS, PolicyRules

RULES = (
    *("sources", "questions", "overlap"),
    *("backbone", "existing_backbone", *(f"{trainer}_{name}" for trainer in TRAINERS for name in ALGORITHMS)),
    *("import_rollouts", "import_cost", "resample"),
    *("judge_checkpoint", *(f"{domain}responses" for domain in DOMAINS)),
    *(*(f"{domain}features" for domain in DOMAINS), "prompt_features", "replay"),
    *("companions", "online"),
    *("predictions", "recalibrate", "latency"),
    *("metrics", "recalibrated_metrics", "checks"),
)
"""Names of the rules, beside `table_NAME`, `figure_NAME`, `table_all`, `landing` and `all`. A study has those that it
needs."""


class Plan(PolicyRules):
    """The rules of a study and their jobs."""

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """The rules that the study needs, by name."""
        stages = (self._question_rules(), self._policy_rules(), self._evaluation_rules(), self._confidence_rules())
        return {rule.name: rule for rules in stages for rule in rules}

    @property
    def wildcards(self) -> dict[str, str]:
        """Regular expression of each wildcard."""
        return {
            "dataset": either(self.study.datasets),
            "backbone": either(self.study.backbones),
            "algorithm": either(["base", *self.study.policy.algorithms]),
            "step": r"\d+",
            "prompt_format": r"[a-z_]+",
            "variant": either(VARIANTS),
            "comparison": either(KINDS),
            "cube": either(kind for kind in CUBES if kind != RECALIBRATED),
            "source": either(self._registry.sets),
        }

    def _confidence_rules(self) -> list[Rule]:
        companions = {
            "companions": results.variant_folder("{backbone}", "{variant}"),
            "cost": results.cost_file("{backbone}", "companions-{variant}"),
        }
        online_outputs = {
            "companions": results.companion_folder("{backbone}", "online"),
            "scores": results.online_file("{backbone}"),
        }
        recalibrated = {
            "predictions": results.predictions_file("{backbone}", "{algorithm}", self._final, RECALIBRATED),
            "calibrators": results.calibrators_file("{backbone}", "{algorithm}", self._final),
        }
        predictions = {"table": results.predictions_file("{backbone}", "{algorithm}", "{step}", "{comparison}")}
        cube = {
            "cube": results.metrics_file("{backbone}", "{cube}"),
            "resamples": results.resamples_file("{backbone}", "{cube}"),
        }
        of_rivals = {"cube": results.metrics_file("{backbone}", RECALIBRATED)}
        trained = {"algorithm": self.study.policy.algorithms}
        latency, checks = results.cost_file("{backbone}", "latency"), results.checks_file("{backbone}")
        return [
            Rule(name="companions", outputs=companions, job=self._companions),
            Rule(name="online", outputs=online_outputs, job=self._online),
            Rule(name="predictions", outputs=predictions, job=self._predictions),
            Rule(name="recalibrate", outputs=recalibrated, job=self._recalibrate, limits=trained),
            Rule(name="metrics", outputs=cube, job=self._metrics),
            Rule(name="recalibrated_metrics", outputs=of_rivals, job=self._recalibrated_metrics),
            Rule(name="latency", outputs={"cost": latency}, job=self._latency),
            Rule(name="checks", outputs={"report": checks}, job=self._checks),
        ]

    def _companions(self, backbone: str, variant: str) -> Job:
        learnt, settings = variant_of(self.study, backbone, variant)
        made = {"cost": results.cost_file(backbone, f"companions-{variant}")}
        made["output"] = results.variant_folder(backbone, variant)
        stage = Companions(**settings, **learnt, questions=self._training_set, **made)
        return self._of(stage)

    def _of(self, stage: Stage) -> Job:
        """The job of a stage: it waits for what it reads, and depends on the code of the class."""
        place = type(stage)
        inputs = [str(path) for path in stage.reads()]
        return Job(inputs={"read": inputs}, stage=stage, code=self._code(f"{place.__module__}:{place.__name__}"))

    def _online(self, backbone: str) -> Job:
        """Companions that learn from each rollout step when it is produced; the states are those that were kept for
        replay. They are scored on every step before they learn from it, beside the replayed companions."""
        study = self.study
        settings = {
            "settings": study.companion,
            "windows": variants.windows(study),
            "stages": study.policy.stages,
            "replayed": variants.replayed_folders(study),
            "steps": self._final,
            "bins": study.metrics.bins,
        }
        inputs, _ = variant_of(study, backbone, results.COMPANIONS["rollouts"])
        inputs |= {"questions": self._training_set, "replayed": results.companion_folder(backbone, "rollouts")}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal_study.commands.companions:run_online"))

    def _predictions(self, backbone: str, algorithm: str, step: str, comparison: str) -> Job:
        one = comparison_of(self.study, backbone, algorithm, int(step), comparison)
        methods, cell = [METHODS[name] for name in one.methods], (backbone, algorithm, one.step)
        formats = dict.fromkeys(method.prompt_format for method in methods)
        read = dict.fromkeys(method.prompt_format for method in methods if method.experience)
        samples = samples_of(self.study, one.domains)
        fitted = [results.companion_folder(backbone, experience) for experience in one.prefixes]
        inputs = {
            "responses": [results.responses_file(*cell, kind, name) for kind in formats for name in samples],
            "features": [results.features_file(*cell, kind, name) for kind in read for name in samples],
            "companions": fitted + [results.variant_folder(backbone, ABLATIONS)] * bool(one.beside),
        }
        settings = {
            "settings": plan.estimator_settings(self.study, one.methods),
            "samples": samples,
            **({} if comparison else {"pool": self.study.generation.pool}),  # companions compare no answers
            "backbone": backbone,
            "algorithm": algorithm,
            "step": step,
            "responses": [f"{kind}={results.responses_folder(*cell, kind)}" for kind in formats],
            "features": [f"{kind}={results.features_folder(*cell, kind)}" for kind in read],
            "companions": [f"{experience}={folder}" for experience, folder in one.companions],
        }
        # the methods' estimates are imported by name; of their declarations, only what is not their looks counts
        code = self._code(
            "cocal_study.commands.confidences:run_predictions", *sorted({method.estimate for method in methods})
        )
        declared = digest([[method.name, method.target, method.columns] for method in methods])
        return Job(inputs=inputs, settings=settings, code=f"{code} {declared}")

    def _recalibrate(self, backbone: str, algorithm: str) -> Job:
        """Platt scaling and isotonic regression of the rivals on one policy, fitted on its rollouts, all of them and
        those of the last stage, and on PostCal's responses where the study has PostCal."""
        study, cell = self.study, (backbone, algorithm, self._final)
        compared = rivals.rivals_of(study, algorithm)
        methods = list(dict.fromkeys(rival.method for rival in compared))
        (prompt_format,) = {METHODS[name].prompt_format for name in methods}
        samples = samples_of(study, plan.domains_of(study, *cell))
        inputs = {
            "rollouts": results.rollouts_folder(backbone, algorithm),
            "questions": self._training_set,
            "evaluated": self._questions(*DOMAINS.values()),
            "responses": [results.responses_file(*cell, prompt_format, name) for name in samples],
        }
        settings = {
            "rivals": [rival.name for rival in compared],
            "settings": plan.estimator_settings(study, methods),
            "split": study.companion,
            "verifier": study.verifier,
            "samples": samples,
            "pool": study.generation.pool,
            "backbone": backbone,
            "algorithm": algorithm,
            "step": self._final,
            "responses": results.responses_folder(*cell, prompt_format),
        }
        if earlier := study.policy.stages[:-1]:
            settings["previous-stage"] = earlier[-1]
        if readers := rivals.reader_folders(study, algorithm):
            inputs["states"] = [results.features_file(*cell, prompt_format, name) for name in samples]
            settings["features"] = results.features_folder(*cell, prompt_format)
            inputs["companions"] = [folder.rpartition("/")[0] for folder in readers.values()]
            settings["companions"] = [f"{kind}={folder}" for kind, folder in readers.items()]
        if "rollouts" in readers:
            inputs["rollout_states"] = settings["rollout-features"] = results.states_file(backbone, "grpo")
        if "resampled" in readers:
            inputs["resampled"] = settings["resampled"] = results.rollouts_folder(backbone, "postcal")
            inputs["resampled_states"] = settings["resampled-features"] = results.states_file(backbone, "postcal")
        # the scores are imported by name; of the declarations of rivals, only what is computed from counts
        code = self._code(
            "cocal_study.commands.confidences:run_recalibrate", *sorted({one.score for one in compared if one.score})
        )
        declared = digest([[one.name, one.method, one.reader] for one in compared])
        return Job(inputs=inputs, settings=settings, code=f"{code} {declared}")

    def _metrics(self, backbone: str, cube: str) -> Job:
        one, settings = CUBES[cube], cube_settings(self.study, backbone, CUBES[cube])
        inputs = {"predictions": predictions_of(self.study, backbone, one)}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal_study.commands.metrics:run_metrics"))

    def _recalibrated_metrics(self, backbone: str) -> Job:
        return self._metrics(backbone, RECALIBRATED)

    def _latency(self, backbone: str) -> Job:
        """Inference times of the final policy and its companions. Only the tables of times depend on them."""
        study, timing = self.study, self.study.timing
        fitted = {
            name: results.companion_folder(backbone, experience)
            for name, experience in (("companions", "rollouts"), ("prompt-companions", "prompts"))
        }
        inputs = {
            "checkpoint": results.policy_folder(backbone, "grpo", self._final),
            **fitted,
            "questions": self._questions("mathematics"),
        }
        settings = {
            "settings": study.generation,
            "datasets": {name: study.datasets[name].max_response_length for name in self._sets["mathematics"]},
            **{name: f"{folder}/{plan.restricted(self._final).folder}" for name, folder in fitted.items()},
            "prompts": study.prompts,
            "samples": timing.samples,
            "concurrent": timing.concurrent,
            "predictions": timing.predictions,
            "seed": timing.seed,
        }
        code = self._engine_code("latency:run_latency", study.generation.engine, computed=False)
        return Job(inputs=inputs, settings=settings, code=code, texts=self._texts("answer"))

    def _checks(self, backbone: str) -> Job:
        """Checks that the study kept the protocol; a violation fails the run and is named."""
        study, main = self.study, backbone == self._main
        methods = plan.methods_of(study, backbone, "grpo", self._final)
        experiences = plan.experiences_of(methods)
        companions = [
            f"{kind}={results.companion_folder(backbone, kind)}/{prefix.folder}"
            for kind in experiences
            for prefix in plan.companion_prefixes(study, backbone, kind)
        ]
        compared = list(comparisons(study, backbone))
        inputs = {
            "rollouts": results.rollouts_folder(backbone, "grpo"),
            "questions": self._training_set,
            "overlap": results.OVERLAP,
            "companions": [results.companion_folder(backbone, kind) for kind in experiences],
            "ablations": results.variant_folder(backbone, ABLATIONS),
            "predictions": [one.file for one in compared],
        }
        companions += [f"ablations={folder}" for one in compared for _, folder in one.beside]
        settings = {
            "settings": study.companion,
            "quality": study.quality,
            "backbone": backbone,
            "companions": companions,
        }
        if "resampled" in experiences:
            inputs["resampled"] = settings["resampled"] = results.rollouts_folder(backbone, "postcal")
        if files := recalibrated_files(study, backbone):
            inputs["recalibrated"] = files
            of_rivals, flags = self._checked_rivals(backbone, files)
            inputs |= of_rivals
            settings |= flags
            if folder := rivals.reader_folders(study, "grpo").get(rivals.ONE_LAYER):
                inputs["one_layer"] = results.variant_folder(backbone, rivals.ONE_LAYER)
                companions.append(f"one-layer={folder}")
        if main and plan.has_methods(study, "cocal-binary"):
            inputs["online"] = results.companion_folder(backbone, "online")
            companions += [f"online={folder}" for folder in variants.online_folders(study)]
        code = self._code("cocal_study.commands.confidences:run_checks", computed=False)
        return Job(inputs=inputs, settings=settings, code=code)

    def _checked_rivals(self, backbone: str, files: list[str]) -> tuple[dict[str, Files], dict[str, Any]]:
        """Files of the recalibrated rivals as inputs, and as flags by the algorithm of their policy."""
        algorithms = rivals.recalibrated_algorithms(self.study)
        calibrators = {name: results.calibrators_file(backbone, name, self._final) for name in algorithms}
        coupled = {name: results.rollouts_folder(backbone, name) for name in algorithms if name != "grpo"}
        evaluated = self._questions(*DOMAINS.values())
        flags = {"evaluated": evaluated}
        for flag, named in (
            ("calibrators", calibrators),
            ("recalibrated", dict(zip(algorithms, files, strict=True))),
            ("coupled", coupled),
        ):
            flags[flag] = [f"{name}={file}" for name, file in named.items()]
        inputs = {"calibrators": list(calibrators.values()), "coupled": list(coupled.values()), "evaluated": evaluated}
        return inputs, flags
