"""Rules of question sets, of policies and their rollouts, and of evaluation responses and their states."""

from collections.abc import Mapping
from typing import Any

from cocal.features.settings import FeatureSettings
from cocal.runtime.numerics import Numerics
from cocal.store.provenance import canonical
from cocal_study.config.backbone import BackboneSettings
from cocal_study.config.study import Study
from cocal_study.planning import plan, results
from cocal_study.planning.comparisons import samples_of
from cocal_study.planning.jobs import Files, Job, Rule
from cocal_study.provenance.code import code_digest

ALGORITHMS = ("grpo", "rlcr", "dcpo")
TRAINERS = {"train": "trl", "slime": "slime", "import": "imported"}
"""Who trains a policy (`plan.trainer_of`), by the beginning of the names of the rules, one for each algorithm."""
DOMAINS = {"": "mathematics", "factual_": "factual"}
"""Domain of the questions by the beginning of the names of its rules of responses and features."""


class PolicyRules:
    """Rules of question sets, of policies and their rollouts, and of evaluation responses and their states.

    Args:
        study: The study.
        numerics: Numerics of its results; a change reruns what computes.
        prompts: Its prompt texts (`cocal_study.questions.prompts.Prompts`).
        formats: Prompt format of each algorithm's training.
        registry: The registered sources that it uses (`cocal_study.questions.registry.Registry`).
        judge_texts: Digest of the texts that a judge is given, if it is a language model.
    """

    def __init__(
        self,
        study: Study,
        *,
        numerics: Numerics,
        prompts: Any,
        formats: Mapping[str, str],
        registry: Any,
        judge_texts: str = "",
    ):
        self.study, self._numerics, self._prompts = study, numerics, prompts
        self._formats, self._registry, self._judge_texts = formats, registry, judge_texts
        self._main, self._final = study.main_backbone, study.policy.steps
        self._training_set = results.questions_file(study.policy.dataset)
        self._sets = {domain: study.evaluation_sets(domain) for domain in DOMAINS.values()}

    def _code(self, *modules: str, computed: bool = True, without: tuple[str, ...] = ()) -> str:
        """Digest of the code of a command; with the study's numerics, if results depend on them."""
        code = code_digest(*modules, without=without)
        return f"{code} {canonical({'numerics': self._numerics})}" if computed else code

    def _texts(self, *formats: str, domain: str = "mathematics") -> str:
        return f"prompts:{self._prompts.digest(*formats, domain=domain)}"

    def _questions(self, *domains: str) -> list[str]:
        return [results.questions_file(name) for domain in domains for name in self._sets[domain]]

    def _final_states(self) -> FeatureSettings:
        return plan.pass_features(self.study).model_copy(update={"layers": "final"})

    def _engine_code(self, command: str, *engines: Any, **how: Any) -> str:
        """Code of a command that samples and of the engines."""
        return self._code(f"cocal_study.commands.{command}", *(engine.opens for engine in engines), **how)

    def _question_rules(self) -> list[Rule]:
        rules = [
            Rule(name="questions", outputs={"set": results.questions_file("{dataset}")}, job=self._question_set),
            Rule(name="overlap", outputs={"overlap": results.OVERLAP}, job=self._overlap),
        ]
        if self._registry.sets:
            rules.append(Rule(name="sources", outputs={"source": results.source_file("{source}")}, job=self._source))
        return rules

    def _source(self, source: str) -> Job:
        settings = {"registry": self._registry.slice([source]), "cache": self.study.sources.cache}
        return Job(settings=settings, code=self._code("cocal_study.commands.question_sets:run_sources", computed=False))

    def _entries(self, names: list[str]) -> Any:
        """The slice of the registry that determines the content of these sets."""
        registered = self.study.question_sets.registered
        return self._registry.slice([registered[name].name for name in names if name in registered]).content()

    def _sources(self, names: list[str]) -> dict[str, Files]:
        """The files that questions come from: the markers of downloaded registered sources, and a user's own files."""
        registered, files = self.study.question_sets.registered, self.study.question_sets.files
        sources = dict.fromkeys(results.source_file(registered[name].name) for name in names if name in registered)
        return {"sources": list(sources), "files": [source.path for name, source in files.items() if name in names]}

    def _question_set(self, dataset: str) -> Job:
        sets = self.study.question_sets
        others = [results.questions_file(name) for name in sets.built_before(dataset)]
        settings = {"settings": sets.of(dataset), "registry": self._entries([dataset]), "others": others}
        code = self._code("cocal_study.commands.question_sets:run_questions", computed=False)
        return Job(inputs={**self._sources([dataset]), "others": others}, settings=settings, code=code)

    def _overlap(self) -> Job:
        """The evaluation questions that also occur in the sources of training, and whether they were excluded."""
        names = [name for name, dataset in self.study.datasets.items() if dataset.role == "training"]
        questions = [results.questions_file(name) for name in self.study.datasets]
        settings = {"settings": self.study.question_sets.bare(), "registry": self._entries(names)}
        code = self._code("cocal_study.commands.question_sets:run_overlap", computed=False)
        return Job(inputs={**self._sources(names), "questions": questions}, settings=settings, code=code)

    def trained_by(self, trainer: str, algorithm: str) -> list[str]:
        """The backbones whose policies of an algorithm are trained by "trl" or "slime", or are "imported"."""
        if algorithm not in self.study.policy.algorithms:
            return []
        return [name for name in self.study.backbones if plan.trainer_of(self.study, name, algorithm) == trainer]

    def _policy_rules(self) -> list[Rule]:
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

    def _backbone_settings(self, backbone: str) -> BackboneSettings:
        """The backbone without its name in print and imported trainings, which concern other rules alone."""
        return self.study.backbones[backbone].model_copy(update={"imported": {}, "label": backbone})

    def _backbone(self, backbone: str) -> Job:
        study = self.study
        settings = {"name": backbone, "settings": self._backbone_settings(backbone), "world": study.world}
        settings |= {"prompts": study.prompts, "seed": study.seed}
        code = self._code("cocal_study.commands.backbone:run_backbone")
        questions = [results.questions_file(name) for name in study.datasets]
        return Job(inputs={"questions": questions}, settings=settings, code=code, texts=self._texts())

    def _existing(self, backbone: str) -> Job:
        settings = {"name": backbone, "settings": self._backbone_settings(backbone)}
        return Job(settings=settings, code=self._code("cocal_study.commands.backbone:run_backbone"))

    def _base(self, backbone: str) -> dict[str, str]:
        return {"base": results.policy_folder(backbone, "base", 0), "questions": self._training_set}

    def _trained(self, algorithm: str) -> dict[str, Any]:
        policy = self.study.policy.for_training(algorithm)
        settings = {"algorithm": algorithm, "settings": policy, "verifier": self.study.verifier}
        return settings | {"prompts": self.study.prompts}

    def _train(self, backbone: str, algorithm: str) -> Job:
        features = {"features": plan.live_features(self.study)} if algorithm == "grpo" else {}
        # companions that learn inside a training are a flag that no study gives
        code = self._code("cocal_study.commands.train:run_train", without=("cocal.companion.learner",))
        texts = self._texts(self._formats[algorithm])
        return Job(inputs=self._base(backbone), settings=self._trained(algorithm) | features, code=code, texts=texts)

    def _slime(self, backbone: str, algorithm: str) -> Job:
        own = {"backbone": self._backbone_settings(backbone), "backbone-name": backbone}
        code = self._code("cocal_study.commands.rollouts:run_slime", "cocal_study.slime.hooks", computed=False)
        texts = self._texts(self._formats[algorithm])
        return Job(inputs=self._base(backbone), settings=self._trained(algorithm) | own, code=code, texts=texts)

    def _imported(self, backbone: str, algorithm: str) -> Job:
        """Policies that another engine trained elsewhere."""
        stages = self.study.backbones[backbone].imported[algorithm].stages
        inputs = {"base": results.policy_folder(backbone, "base", 0), "stages": list(stages.values())}
        settings = {"algorithm": algorithm, "backbone": self._backbone_settings(backbone)}
        settings["stages"] = [f"{step}={folder}" for step, folder in stages.items()]
        code = self._code("cocal_study.commands.checkpoints:run_import_checkpoints", computed=False)
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
        inputs |= {"policy": base, "dumps": dumps.path, "questions": self._training_set}
        settings = {"settings": study.policy.rollout_settings("grpo"), "algorithm": "grpo", "verifier": study.verifier}
        settings |= {"features": plan.pass_features(study), "format": dumps.format, "correctness": dumps.correctness}
        settings |= {"reward-key": dumps.reward_key}
        settings |= {"tokenise": study.prompts} if dumps.tokenise else {}
        texts = self._texts(self._formats["grpo"]) if dumps.tokenise else ""
        code = self._code("cocal_study.commands.rollouts:run_import_rollouts", computed=False)
        return Job(inputs=inputs, settings=settings | readers, code=code, texts=texts)

    def _imported_cost(self, backbone: str) -> Job:
        training = self.study.backbones[backbone].imported["grpo"]
        return Job(settings={"cost": {"seconds": training.seconds, "items": self._final, "device": training.device}})

    def _resample(self, backbone: str) -> Job:
        """For PostCal, the final policy answers the questions of every rollout step again."""
        study = self.study
        inputs = {
            "checkpoint": results.policy_folder(backbone, "grpo", self._final),
            "questions": self._training_set,
            "asked": results.rollouts_folder(backbone, "grpo"),
        }
        settings = {
            "settings": plan.resampling(study),
            "policy": study.policy.rollout_settings("grpo"),
            "features": study.features.model_copy(update={"layers": "final"}),
            "verifier": study.verifier,
            "prompts": study.prompts,
            "engine": study.generation.engine,
            "backbone": backbone,
        }
        code = self._engine_code("rollouts:run_resample", study.generation.engine)
        return Job(inputs=inputs, settings=settings, code=code, texts=self._texts("answer"))

    def _replay(self, backbone: str) -> Job:
        inputs, readers = self._readers(backbone)
        inputs["rollouts"] = results.rollouts_folder(backbone, "grpo")
        settings = {"settings": plan.pass_features(self.study), **readers}
        return Job(inputs=inputs, settings=settings, code=self._code("cocal_study.commands.states:run_replay"))

    def _prompt_features(self, backbone: str) -> Job:
        """The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4)."""
        job = self._replay(backbone)
        settings = {**job.settings, "settings": self._final_states()}
        return Job(inputs=job.inputs, settings=settings, code=self._code("cocal_study.commands.states:run_prompts"))

    @property
    def judge_from_hub(self) -> bool:
        """True if the judge of factual answers has to be downloaded."""
        return self.study.judge.kind == "llm" and not self.study.judge.local

    def _evaluation_rules(self) -> list[Rule]:
        rules, cell = [], ("{backbone}", "{algorithm}", "{step}", "{prompt_format}")
        for begin, domain in DOMAINS.items():
            if names := self._sets[domain]:
                responses = {"files": [results.responses_file(*cell, name) for name in names]}
                if self.study.features.source == "engine":
                    responses["kept"] = results.kept_folder(*cell, domain)
                features = {"files": [results.features_file(*cell, name) for name in names]}
                of = {"responses": (responses, self._responses), "features": (features, self._features)}
                for kind, (outputs, job) in of.items():
                    one = lambda job=job, domain=domain, **at: job(domain, **at)  # noqa: E731
                    rules.append(Rule(name=f"{begin}{kind}", outputs=outputs, job=one))
        if self.judge_from_hub:
            rules.append(Rule(name="judge_checkpoint", outputs={"judge": results.JUDGE}, job=self._judge))
        return rules

    def _judge(self) -> Job:
        judge = self.study.judge
        settings = {"name": judge.checkpoint, "revision": judge.revision}
        return Job(settings=settings, code=self._code("cocal_study.commands.checkpoints:run_hub", computed=False))

    def _responses(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        study, judged = self.study, domain == "factual"
        planned = plan.response_plan(study, backbone, algorithm, int(step), prompt_format, self._sets[domain])
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
        engines = [study.generation.engine]
        cell = (backbone, algorithm, int(step), prompt_format)
        if study.features.source == "engine" and plan.reads_states(study, *cell):
            settings["features"] = plan.feature_settings(study, algorithm, int(step), domain)
            settings |= self._read_parts(*cell)
        engines += [study.judge.engine] if judged and study.judge.kind == "llm" else []
        texts = self._texts(*planned.formats(prompt_format), domain=domain) + f" {self._judge_texts}" * judged
        return Job(
            inputs=inputs, settings=settings, code=self._engine_code("answers:run_responses", *engines), texts=texts
        )

    def _features(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        """Hidden states of responses: RLCR's end before its reason, and those whose prompt has a companion have its
        state, too."""
        study, cell = self.study, (backbone, algorithm, int(step))
        inputs = {
            "checkpoint": results.policy_folder(backbone, algorithm, step),
            "responses": [results.responses_file(*cell, prompt_format, name) for name in self._sets[domain]],
        }
        settings = {"settings": plan.feature_settings(study, algorithm, int(step), domain)}
        settings["samples"] = samples_of(study, [domain])
        settings["responses"] = results.responses_folder(*cell, prompt_format)
        settings |= self._read_parts(*cell, prompt_format)
        if study.features.source == "engine":
            inputs["kept"] = settings["kept"] = results.kept_folder(*cell, prompt_format, domain)
        return Job(inputs=inputs, settings=settings, code=self._code("cocal_study.commands.states:run_features"))

    def _read_parts(self, backbone: str, algorithm: str, step: int, prompt_format: str) -> dict[str, Any]:
        """Flags of what is read of responses in this format."""
        if prompt_format == "rlcr":
            return {"task-response": True}
        experiences = plan.experiences_of(plan.methods_of(self.study, backbone, algorithm, step))
        return {"prompt": True} if prompt_format == "answer" and "prompts" in experiences else {}
