"""All rules of the workflow but those of tables and figures, with what their jobs read and depend on.

`workflow/rules` has a rule of Snakemake for each, which names the command. Everything else derives from this table.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from cocal.config.study import Study
from cocal.runtime.numerics import Numerics
from cocal.store.code import code_digest
from cocal.store.provenance import canonical, digest
from cocal.study import online, plan, results, rivals
from cocal.study.comparisons import (
    CUBES,
    KINDS,
    RECALIBRATED,
    Comparison,
    comparison_of,
    comparisons,
    groups_of,
    planned_predictions,
    predictions_of,
    recalibrated_files,
    samples_of,
)
from cocal.study.jobs import Files, Job, Rule, either
from cocal.study.variants import ABLATIONS, VARIANTS, variant_of

DOMAINS = {"": "mathematics", "factual_": "factual"}
"""Domain of the questions by the beginning of the names of its rules of responses and features."""
ALGORITHMS = ("grpo", "rlcr", "dcpo")
TRAINERS = {"train": "trl", "slime": "slime", "import": "imported"}
"""Who trains a policy (`plan.trainer_of`), by the beginning of the names of the rules, one for each algorithm."""
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
"""Names of the rules, beside `table_NAME`, `figure_NAME`, `table_all` and `all`. A study has those that it needs."""


class Texts(Protocol):
    """The prompt texts of a study (`cocal.questions.prompts.Prompts`)."""

    def digest(self, *formats: str, domain: str = "mathematics") -> str:
        """Digest of the texts of these formats."""


class Plan:
    """The rules of a study and their jobs.

    Args:
        study: The study.
        numerics: Numerics of its results; a change reruns what computes.
        prompts: Its prompt texts.
        formats: Prompt format of each algorithm's training.
        registry: The registered sources that it uses (`cocal.questions.registry.Registry`).
        judge_texts: Digest of the texts that a judge is given, if it is a language model.
    """

    def __init__(
        self,
        study: Study,
        *,
        numerics: Numerics,
        prompts: Texts,
        formats: Mapping[str, str],
        registry: Any,
        judge_texts: str = "",
    ):
        self.study, self._numerics, self._prompts = study, numerics, prompts
        self._formats, self._registry, self._judge_texts = formats, registry, judge_texts
        self.main, self.final = study.main_backbone, study.policy.steps
        self.training_set = results.questions_file(study.policy.dataset)
        self._sets = study.question_sets
        self.sets = {domain: study.evaluation_sets(domain) for domain in DOMAINS.values()}
        self.rules = {rule.name: rule for rule in self._rules()}

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

    def trained_by(self, trainer: str, algorithm: str) -> list[str]:
        """The backbones whose policies of an algorithm are trained by "trl" or "slime", or are "imported"."""
        if algorithm not in self.study.policy.algorithms:
            return []
        return [name for name in self.study.backbones if plan.trainer_of(self.study, name, algorithm) == trainer]

    def _rules(self) -> list[Rule]:
        return [*self._of_questions(), *self._of_policies(), *self._of_evaluation(), *self._of_confidences()]

    def _code(self, *modules: str, computed: bool = True, without: tuple[str, ...] = ()) -> str:
        """Digest of the code of a command; with the study's numerics, if results depend on them."""
        code = code_digest(*modules, without=without)
        return f"{code} {canonical({'numerics': self._numerics})}" if computed else code

    def _texts(self, *formats: str, domain: str = "mathematics") -> str:
        return f"prompts:{self._prompts.digest(*formats, domain=domain)}"

    def _questions(self, *domains: str) -> list[str]:
        return [results.questions_file(name) for domain in domains for name in self.sets[domain]]

    # Questions

    def _of_questions(self) -> list[Rule]:
        rules = [
            Rule(name="questions", outputs={"set": results.questions_file("{dataset}")}, job=self._question_set),
            Rule(name="overlap", outputs={"overlap": results.OVERLAP}, job=self._overlap),
        ]
        if self._registry.sets:
            rules.append(Rule(name="sources", outputs={"source": results.source_file("{source}")}, job=self._source))
        return rules

    def _source(self, source: str) -> Job:
        settings = {"registry": self._registry.slice([source]), "cache": self.study.sources.cache}
        return Job(settings=settings, code=self._code("cocal.commands.sources:run", computed=False))

    def _entries(self, names: list[str]) -> Any:
        """What the registry says of the content of these sets."""
        registered = self._sets.registered
        return self._registry.slice([registered[name].name for name in names if name in registered]).content()

    def _sources(self, names: list[str]) -> dict[str, Files]:
        """Where questions come from: what says that registered sources are here, and a user's files."""
        registered, files = self._sets.registered, self._sets.files
        sources = dict.fromkeys(results.source_file(registered[name].name) for name in names if name in registered)
        return {"sources": list(sources), "files": [source.path for name, source in files.items() if name in names]}

    def _question_set(self, dataset: str) -> Job:
        others = [results.questions_file(name) for name in self._sets.built_before(dataset)]
        settings = {"settings": self._sets.of(dataset), "registry": self._entries([dataset]), "others": others}
        code = self._code("cocal.commands.questions:run", computed=False)
        return Job(inputs={**self._sources([dataset]), "others": others}, settings=settings, code=code)

    def _overlap(self) -> Job:
        """The evaluation questions that also occur in the sources of training, and whether they were excluded."""
        names = [name for name, dataset in self.study.datasets.items() if dataset.role == "training"]
        questions = [results.questions_file(name) for name in self.study.datasets]
        settings = {"settings": self._sets.bare(), "registry": self._entries(names)}
        code = self._code("cocal.commands.overlap:run", computed=False)
        return Job(inputs={**self._sources(names), "questions": questions}, settings=settings, code=code)

    # Policies

    def _of_policies(self) -> list[Rule]:
        made = [name for name, backbone in self.study.backbones.items() if backbone.source == "pretraining"]
        existing = [name for name in self.study.backbones if name not in made]
        base = {"policy": results.policy_folder("{backbone}", "base", 0)}
        rules = [
            Rule(name="backbone", outputs=base, job=self._backbone, limits={"backbone": made}),
            Rule(name="existing_backbone", outputs=base, job=self._existing, limits={"backbone": existing}),
        ]
        for rule, trainer in TRAINERS.items():
            for algorithm in ALGORITHMS:
                if self.trained_by(trainer, algorithm):
                    rules += [self._training(f"{rule}_{algorithm}", trainer, algorithm)]
        if imported := self.trained_by("imported", "grpo"):
            limits = {"backbone": imported}
            rollouts = {"rollouts": results.rollouts_folder("{backbone}", "grpo")}
            cost = {"cost": results.cost_file("{backbone}", "train-grpo")}
            rules.append(Rule(name="import_rollouts", outputs=rollouts, job=self._imported_rollouts, limits=limits))
            rules.append(Rule(name="import_cost", outputs=cost, job=self._imported_cost, limits=limits))
        if elsewhere := [*imported, *self.trained_by("slime", "grpo")]:
            states = {"states": results.states_file("{backbone}", "grpo")}
            rules.append(Rule(name="replay", outputs=states, job=self._replay, limits={"backbone": elsewhere}))
        resampled = {
            "rollouts": results.rollouts_folder("{backbone}", "postcal"),
            "features": results.states_file("{backbone}", "postcal"),
            "cost": results.cost_file("{backbone}", "resample"),
        }
        prompts = {"states": results.states_file("{backbone}", "grpo", "prompts")}
        rules.append(Rule(name="resample", outputs=resampled, job=self._resample))
        return [*rules, Rule(name="prompt_features", outputs=prompts, job=self._prompt_features)]

    def _training(self, name: str, trainer: str, algorithm: str) -> Rule:
        """The rule of an algorithm. Companions learn from GRPO alone, so TRL keeps the features of its rollouts."""
        stages = [results.policy_folder("{backbone}", algorithm, step) for step in self.study.policy.stages]
        outputs = {"stages": stages}
        if trainer != "imported":
            outputs["rollouts"] = results.rollouts_folder("{backbone}", algorithm)
            outputs["cost"] = results.cost_file("{backbone}", f"train-{algorithm}")
        if (trainer, algorithm) == ("trl", "grpo"):
            outputs["features"] = results.states_file("{backbone}", algorithm)
        of = {"trl": self._train, "slime": self._slime, "imported": self._imported}[trainer]
        job = lambda backbone: of(backbone, algorithm)  # noqa: E731
        return Rule(name=name, outputs=outputs, job=job, limits={"backbone": self.trained_by(trainer, algorithm)})

    def _backbone_settings(self, backbone: str):
        """The backbone without its name in print and imported trainings, which concern other rules alone."""
        return self.study.backbones[backbone].model_copy(update={"imported": {}, "label": backbone})

    def _backbone(self, backbone: str) -> Job:
        study = self.study
        settings = {"name": backbone, "settings": self._backbone_settings(backbone), "world": study.world}
        settings |= {"prompts": study.prompts, "seed": study.seed}
        code = self._code("cocal.commands.backbone:run")
        questions = [results.questions_file(name) for name in study.datasets]
        return Job(inputs={"questions": questions}, settings=settings, code=code, texts=self._texts())

    def _existing(self, backbone: str) -> Job:
        settings = {"name": backbone, "settings": self._backbone_settings(backbone)}
        return Job(settings=settings, code=self._code("cocal.commands.backbone:run"))

    def _base(self, backbone: str) -> dict[str, str]:
        return {"base": results.policy_folder(backbone, "base", 0), "questions": self.training_set}

    def _trained(self, algorithm: str) -> dict[str, Any]:
        policy = self.study.policy.for_training(algorithm)
        settings = {"algorithm": algorithm, "settings": policy, "verifier": self.study.verifier}
        return settings | {"prompts": self.study.prompts}

    def _train(self, backbone: str, algorithm: str) -> Job:
        features = {"features": plan.live_features(self.study)} if algorithm == "grpo" else {}
        # companions that learn inside a training are a flag that no study gives
        code = self._code("cocal.commands.train:run", without=("cocal.policy.online",))
        texts = self._texts(self._formats[algorithm])
        return Job(inputs=self._base(backbone), settings=self._trained(algorithm) | features, code=code, texts=texts)

    def _slime(self, backbone: str, algorithm: str) -> Job:
        own = {"backbone": self._backbone_settings(backbone), "backbone-name": backbone}
        code = self._code("cocal.commands.slime:run", "cocal.integrations.slime.hooks", computed=False)
        texts = self._texts(self._formats[algorithm])
        return Job(inputs=self._base(backbone), settings=self._trained(algorithm) | own, code=code, texts=texts)

    def _imported(self, backbone: str, algorithm: str) -> Job:
        """Policies that another engine trained elsewhere."""
        stages = self.study.backbones[backbone].imported[algorithm].stages
        inputs = {"base": results.policy_folder(backbone, "base", 0), "stages": list(stages.values())}
        settings = {"algorithm": algorithm, "backbone": self._backbone_settings(backbone)}
        settings["stages"] = [f"{step}={folder}" for step, folder in stages.items()]
        code = self._code("cocal.commands.import_checkpoints:run", computed=False)
        return Job(inputs=inputs, settings=settings, code=code)

    def _readers(self, backbone: str) -> tuple[dict[str, Files], dict[str, Any]]:
        """The checkpoints that read stored rollouts, as inputs and as flags: those of every step, where they were kept,
        otherwise those of the stages."""
        stages = [results.policy_folder(backbone, "grpo", step) for step in self.study.policy.stages]
        imported = self.study.backbones[backbone].imported
        dumps = imported["grpo"].rollouts if "grpo" in imported else None
        exact = dumps.weights if dumps else None
        inputs = {"checkpoints": stages, "exact": [exact] if exact else []}
        return inputs, {"exact": exact} if exact else {"checkpoints": stages}

    def _imported_rollouts(self, backbone: str) -> Job:
        study, dumps = self.study, self.study.backbones[backbone].imported["grpo"].rollouts
        inputs, readers = self._readers(backbone)
        base = results.policy_folder(backbone, "base", 0)
        inputs |= {"policy": base, "dumps": dumps.path, "questions": self.training_set}
        settings = {"settings": study.policy.rollout_settings("grpo"), "algorithm": "grpo", "verifier": study.verifier}
        settings |= {"features": study.features, "format": dumps.format, "correctness": dumps.correctness}
        settings |= {"reward-key": dumps.reward_key}
        settings |= {"tokenise": study.prompts} if dumps.tokenise else {}
        texts = self._texts(self._formats["grpo"]) if dumps.tokenise else ""
        code = self._code("cocal.commands.import_rollouts:run", computed=False)
        return Job(inputs=inputs, settings=settings | readers, code=code, texts=texts)

    def _imported_cost(self, backbone: str) -> Job:
        training = self.study.backbones[backbone].imported["grpo"]
        return Job(settings={"cost": {"seconds": training.seconds, "items": self.final, "device": training.device}})

    def _final_states(self):
        return self.study.features.model_copy(update={"layers": "final"})

    def _engine_code(self, command: str, *engines: Any, **how: Any) -> str:
        """Code of a command that samples, of the engines, and of what they run in processes of their own."""
        names = [name for engine in engines for name in (engine.opens, *engine.kept_apart)]
        return self._code(f"cocal.commands.{command}:run", *names, **how)

    def _resample(self, backbone: str) -> Job:
        """For PostCal, the final policy answers the questions of every rollout step again."""
        study = self.study
        inputs = {
            "checkpoint": results.policy_folder(backbone, "grpo", self.final),
            "questions": self.training_set,
            "asked": results.rollouts_folder(backbone, "grpo"),
        }
        settings = {
            "settings": plan.resampling(study),
            "policy": study.policy.rollout_settings("grpo"),
            "features": self._final_states(),
            "verifier": study.verifier,
            "prompts": study.prompts,
            "engine": study.generation.engine,
            "backbone": backbone,
        }
        code = self._engine_code("resample", study.generation.engine)
        return Job(inputs=inputs, settings=settings, code=code, texts=self._texts("answer"))

    def _replay(self, backbone: str) -> Job:
        inputs, readers = self._readers(backbone)
        inputs["rollouts"] = results.rollouts_folder(backbone, "grpo")
        settings = {"settings": self.study.features, **readers}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.replay:run"))

    def _prompt_features(self, backbone: str) -> Job:
        """The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4)."""
        job = self._replay(backbone)
        settings = {**job.settings, "settings": self._final_states()}
        return Job(inputs=job.inputs, settings=settings, code=self._code("cocal.commands.prompts:run"))

    # Responses and their states

    @property
    def judge_from_hub(self) -> bool:
        """True if the judge of factual answers has to be downloaded."""
        return self.study.judge.kind == "llm" and not self.study.judge.local

    def _of_evaluation(self) -> list[Rule]:
        rules, cell = [], ("{backbone}", "{algorithm}", "{step}", "{prompt_format}")
        for begin, domain in DOMAINS.items():
            if names := self.sets[domain]:
                of = {
                    "responses": ([results.responses_file(*cell, name) for name in names], self._responses),
                    "features": ([results.features_file(*cell, name) for name in names], self._features),
                }
                for kind, (files, job) in of.items():
                    one = lambda job=job, domain=domain, **at: job(domain, **at)  # noqa: E731
                    rules.append(Rule(name=f"{begin}{kind}", outputs={"files": files}, job=one))
        if self.judge_from_hub:
            rules.append(Rule(name="judge_checkpoint", outputs={"judge": results.JUDGE}, job=self._judge))
        return rules

    def _judge(self) -> Job:
        judge = self.study.judge
        settings = {"name": judge.checkpoint, "revision": judge.revision}
        return Job(settings=settings, code=self._code("cocal.commands.hub:run", computed=False))

    def _responses(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        study, judged = self.study, domain == "factual"
        planned = plan.response_plan(study, backbone, algorithm, int(step), prompt_format, self.sets[domain])
        inputs = {
            "checkpoint": results.policy_folder(backbone, algorithm, step),
            "questions": self._questions(domain),
            "judge": [results.JUDGE] if judged and self.judge_from_hub else [],
        }
        settings = {
            "settings": study.generation,
            "verifier": study.verifier,
            # the judge of factual answers has no part in mathematics, so another one does not touch these files
            "judge": study.judge if judged else {"kind": "exact-match"},
            "plan": planned,
            "prompt-format": prompt_format,
            "backbone": backbone,
            "algorithm": algorithm,
            "step": step,
            "prompts": study.prompts,
        }
        # the judge's engine belongs to both, for one job may need its environment
        engines = [study.generation.engine, *([study.judge.engine] if study.judge.kind == "llm" else [])]
        texts = self._texts(*planned.formats(prompt_format), domain=domain) + f" {self._judge_texts}" * judged
        return Job(inputs=inputs, settings=settings, code=self._engine_code("responses", *engines), texts=texts)

    def _features(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        """Hidden states of responses: RLCR's end before its reason, and those whose prompt has a companion have its
        state, too."""
        study, cell = self.study, (backbone, algorithm, int(step))
        inputs = {
            "checkpoint": results.policy_folder(backbone, algorithm, step),
            "responses": [results.responses_file(*cell, prompt_format, name) for name in self.sets[domain]],
        }
        settings = {"settings": plan.feature_settings(study, algorithm, int(step), domain)}
        settings["samples"] = samples_of(study, [domain])
        settings["responses"] = results.responses_folder(*cell, prompt_format)
        if prompt_format == "rlcr":
            settings["task-response"] = True
        elif prompt_format == "answer" and "prompts" in plan.experiences_of(plan.methods_of(study, *cell)):
            settings["prompt"] = True
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.features:run"))

    # Companions, confidences, metrics and checks

    def _of_confidences(self) -> list[Rule]:
        companions = {
            "companions": results.variant_folder("{backbone}", "{variant}"),
            "cost": results.cost_file("{backbone}", "companions-{variant}"),
        }
        online_outputs = {
            "companions": results.companion_folder("{backbone}", "online"),
            "scores": results.online_file("{backbone}"),
        }
        recalibrated = {
            "predictions": results.predictions_file("{backbone}", "{algorithm}", self.final, RECALIBRATED),
            "calibrators": results.calibrators_file("{backbone}", "{algorithm}", self.final),
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
        one = variant_of(self.study, backbone, variant)
        inputs = {"rollouts": one.rollouts, "features": one.states, "questions": self.training_set}
        settings = {"settings": one.settings, "steps": one.steps, **one.how}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.companions:run"))

    def _online(self, backbone: str) -> Job:
        """Companions that learn from each rollout step when it is produced; the states are those that were kept for
        replay. They are scored on every step before they learn from it, beside the replayed companions."""
        study, own = self.study, self._companions(backbone, results.COMPANIONS["rollouts"])
        settings = {
            "settings": study.companion,
            "windows": online.windows(study),
            "stages": study.policy.stages,
            "replayed": online.replayed_folders(study),
            "steps": self.final,
            "bins": study.metrics.bins,
        }
        inputs = {**own.inputs, "replayed": results.companion_folder(backbone, "rollouts")}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.online:run"))

    def _files_of(self, one: Comparison) -> dict[str, Files]:
        """The responses and states that a comparison reads, with the folders of its companions."""
        methods = [plan.METHODS[name] for name in one.methods]
        cell = one.backbone, one.algorithm, one.step
        sets = list(samples_of(self.study, one.domains))
        formats = dict.fromkeys(method.prompt_format for method in methods)
        read = dict.fromkeys(method.prompt_format for method in methods if method.experience)
        fitted = [results.companion_folder(one.backbone, experience) for experience in one.prefixes]
        fitted += [results.variant_folder(one.backbone, ABLATIONS)] if one.beside else []
        return {
            "responses": [results.responses_file(*cell, kind, name) for kind in formats for name in sets],
            "features": [results.features_file(*cell, kind, name) for kind in read for name in sets],
            "companions": fitted,
        }

    def _predictions(self, backbone: str, algorithm: str, step: str, comparison: str) -> Job:
        study = self.study
        one = comparison_of(study, backbone, algorithm, int(step), comparison)
        methods, cell = [plan.METHODS[name] for name in one.methods], (backbone, algorithm, one.step)
        formats = dict.fromkeys(method.prompt_format for method in methods)
        read = dict.fromkeys(method.prompt_format for method in methods if method.experience)
        settings = {
            "settings": plan.estimator_settings(study, one.methods),
            "samples": samples_of(study, one.domains),
            "pool": study.generation.pool,
            "backbone": backbone,
            "algorithm": algorithm,
            "step": step,
            "responses": [f"{kind}={results.responses_folder(*cell, kind)}" for kind in formats],
            "features": [f"{kind}={results.features_folder(*cell, kind)}" for kind in read],
            "companions": [f"{experience}={folder}" for experience, folder in one.companions],
        }
        # the methods' estimates are imported by name; of their declarations, only what is not their looks counts
        code = self._code("cocal.commands.predictions:run", *sorted({method.estimate for method in methods}))
        declared = digest([[method.name, method.target, method.columns] for method in methods])
        return Job(inputs=self._files_of(one), settings=settings, code=f"{code} {declared}")

    def _recalibrate(self, backbone: str, algorithm: str) -> Job:
        """Platt scaling and isotonic regression of the rivals on one policy, fitted on its rollouts."""
        study, cell = self.study, (backbone, algorithm, self.final)
        compared = rivals.rivals_of(study, algorithm)
        methods = list(dict.fromkeys(rival.method for rival in compared))
        (prompt_format,) = {plan.METHODS[name].prompt_format for name in methods}
        samples = samples_of(study, plan.domains_of(study, *cell))
        inputs = {
            "rollouts": results.rollouts_folder(backbone, algorithm),
            "questions": self.training_set,
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
            "step": self.final,
            "responses": results.responses_folder(*cell, prompt_format),
        }
        if rivals.reads_states(study, algorithm):
            states = results.states_file(backbone, "grpo")
            inputs |= {
                "states": [results.features_file(*cell, prompt_format, name) for name in samples],
                "rollout_states": states,
                "companions": results.companion_folder(backbone, "rollouts"),
                "one_layer": results.variant_folder(backbone, rivals.ONE_LAYER),
            }
            settings |= {
                "features": results.features_folder(*cell, prompt_format),
                "rollout-features": states,
                "companions": [f"{kind}={folder}" for kind, folder in rivals.reader_folders(study).items()],
            }
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.recalibrate:run"))

    def _metrics(self, backbone: str, cube: str) -> Job:
        one = CUBES[cube]
        settings = {
            **one.flags,
            "settings": self.study.metrics,
            "groups": groups_of(self.study, backbone, one),
            "seeds": self.study.companion.seeds,
        }
        inputs = {"predictions": predictions_of(self.study, backbone, one)}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.metrics:run"))

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
            "checkpoint": results.policy_folder(backbone, "grpo", self.final),
            **fitted,
            "questions": self._questions("mathematics"),
        }
        settings = {
            "settings": study.generation,
            "datasets": {name: study.datasets[name].max_response_length for name in self.sets["mathematics"]},
            **{name: f"{folder}/{plan.restricted(self.final).folder}" for name, folder in fitted.items()},
            "prompts": study.prompts,
            "samples": timing.samples,
            "concurrent": timing.concurrent,
            "predictions": timing.predictions,
            "seed": timing.seed,
        }
        code = self._engine_code("latency", study.generation.engine, computed=False)
        return Job(inputs=inputs, settings=settings, code=code, texts=self._texts("answer"))

    def _checks(self, backbone: str) -> Job:
        """Checks that the study kept the protocol; a violation fails the run and is named."""
        study, main = self.study, backbone == self.main
        methods = plan.methods_of(study, backbone, "grpo", self.final)
        experiences = plan.experiences_of(methods)
        companions = [
            f"{kind}={results.companion_folder(backbone, kind)}/{prefix.folder}"
            for kind in experiences
            for prefix in plan.companion_prefixes(study, backbone, kind)
        ]
        compared = list(comparisons(study, backbone))
        inputs = {
            "rollouts": results.rollouts_folder(backbone, "grpo"),
            "questions": self.training_set,
            "overlap": results.OVERLAP,
            "companions": [results.companion_folder(backbone, kind) for kind in experiences],
            "ablations": results.variant_folder(backbone, ABLATIONS),
            "predictions": [one.file for one in compared],
        }
        companions += [f"ablations={folder}" for one in compared for _, folder in one.beside]
        planned = {file: one.model_dump(mode="json") for file, one in planned_predictions(study, backbone).items()}
        settings = {
            "settings": study.companion,
            "prompt-settings": plan.prompt_companion(study),
            "ablation-settings": plan.ablation_companion(study),
            "one-layer-settings": rivals.one_layer_companion(study),
            "quality": study.quality,
            "planned": {
                file: one.model_dump(mode="json") for file, one in planned_predictions(study, backbone).items()
            },
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
            if folder := rivals.reader_folders(study).get("one-layer"):
                inputs["one_layer"] = results.variant_folder(backbone, rivals.ONE_LAYER)
                companions.append(f"one-layer={folder}")
        if main and plan.has_methods(study, "cocal-binary"):
            inputs["online"] = results.companion_folder(backbone, "online")
            companions += [f"online={folder}" for folder in online.online_folders(study)]
        code = self._code("cocal.commands.checks:run", computed=False)
        return Job(inputs=inputs, settings=settings, code=code)

    def _checked_rivals(self, backbone: str, files: list[str]) -> tuple[dict[str, Files], dict[str, Any]]:
        """Files of the recalibrated rivals as inputs, and as flags by the algorithm of their policy."""
        algorithms = rivals.recalibrated_algorithms(self.study)
        calibrators = {name: results.calibrators_file(backbone, name, self.final) for name in algorithms}
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
