"""Rules of policies: backbones, their training here or elsewhere, their rollouts, and the states of these."""

# pyright: reportArgumentType=false
# Pydantic makes the fields of stages from the texts of paths and from plain mappings.

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from cocal_study.config.backbone import BackboneSettings
from cocal_study.planning import plan, results
from cocal_study.policy.launch import train_command
from cocal_study.stages.backbones import Backbone, ImportCheckpoints
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.stages.rollouts import ImportCost, ImportRollouts, Resample
from cocal_study.stages.states import Prompts, Replay
from cocal_study.stages.training import Slime, Train

ALGORITHMS = ("grpo", "rlcr", "dcpo")
TRAINERS = {"train": "trl", "slime": "slime", "import": "imported"}
"""Who trains a policy (`plan.trainer_of`), by the beginning of the names of the rules, one for each algorithm."""


class PolicyRules(Rules):
    """A policy is trained by TRL or by slime, or another engine has trained it. Snakemake deletes the outputs of a
    failed job, so unfinished work lies in results/runs, from which the next attempt resumes."""

    def trained_by(self, trainer: str, algorithm: str) -> list[str]:
        """The backbones whose policies of an algorithm are trained by "trl" or "slime", or are "imported"."""
        if algorithm not in self.study.policy.algorithms:
            return []
        return [name for name in self.study.backbones if plan.trainer_of(self.study, name, algorithm) == trainer]

    def _policy_rules(self) -> list[Rule]:
        made = [name for name, backbone in self.study.backbones.items() if backbone.source == "pretraining"]
        existing = [name for name in self.study.backbones if name not in made]

        def rule(name: str, make: Callable[..., Job], backbones: Any, places: dict[str, str], **how: Any) -> Rule:
            limits = {} if backbones is None else {"backbone": backbones}
            return Rule(name=name, make=make, places=places, limits=limits, **{"shown": True} | how)

        base = {"output": results.policy_folder("{backbone}", "base", 0)}
        rules = [
            rule("backbone", self._backbone, made, base, threads=None),
            rule("existing_backbone", self._existing, existing, base, threads=None, local=True),
        ]
        rules += [
            self._training(f"{name}_{algorithm}", trainer, algorithm)
            for name, trainer in TRAINERS.items()
            for algorithm in ALGORITHMS
            if self.trained_by(trainer, algorithm)
        ]
        rollouts, states = results.rollouts_folder("{backbone}", "grpo"), results.states_file("{backbone}", "grpo")
        if imported := self.trained_by("imported", "grpo"):
            places = {"output": rollouts, "run_folder": results.run_folder("import", "{backbone}-grpo")}
            rules.append(rule("import_rollouts", self._imported_rollouts, imported, places, gpus=1))
            cost = {"output": results.cost_file("{backbone}", "train-grpo")}
            rules.append(rule("import_cost", self._imported_cost, imported, cost, local=True, shown=False))
        if elsewhere := [*imported, *self.trained_by("slime", "grpo")]:
            places = {"output": states, "run_folder": results.run_folder("replay", "{backbone}")}
            rules.append(rule("replay", self._replay, elsewhere, places, gpus=1))
        resampled = {
            "rollouts": results.rollouts_folder("{backbone}", "postcal"),
            "output_features": results.states_file("{backbone}", "postcal"),
            "cost": results.cost_file("{backbone}", "resample"),
            "run_folder": results.run_folder("resample", "{backbone}"),
        }
        prompts = {"output": results.states_file("{backbone}", "grpo", "prompts")}
        rules.append(rule("resample", self._resample, None, resampled, **self._sampling))
        return [*rules, rule("prompt_features", self._prompt_features, None, prompts, gpus=1)]

    def _training(self, name: str, trainer: str, algorithm: str) -> Rule:
        """The rule of an algorithm. Companions learn from GRPO alone, so TRL keeps the features of its rollouts."""
        stages = [results.policy_folder("{backbone}", algorithm, step) for step in self.study.policy.stages]
        folder, limits = (
            results.training_folder("{backbone}", algorithm),
            {"backbone": self.trained_by(trainer, algorithm)},
        )
        if trainer == "imported":
            make = partial(self._imported, algorithm)
            return Rule(name=name, make=make, places={"output": folder}, files=stages, limits=limits)
        made = {
            "rollouts": results.rollouts_folder("{backbone}", algorithm),
            "cost": results.cost_file("{backbone}", f"train-{algorithm}"),
        }
        if (trainer, algorithm) == ("trl", "grpo"):
            made["output_features"] = results.states_file("{backbone}", algorithm)
        trl, slime, start = self.study.policy.trl, self.study.policy.slime, ["cocal"]
        if trainer == "trl":
            *start, _ = train_command(trl, f"{self._scripts}/accelerate.sh")  # the stage's words begin with "train"
        command = name.partition("_")[0]
        return Rule(
            name=name,
            make=partial(self._train if trainer == "trl" else self._slime, algorithm),
            places=made | {"stages": folder, "run_folder": results.run_folder(command, "{backbone}", algorithm)},
            files=[*stages, *made.values()],
            limits=limits,
            threads=None,
            gpus=(trl if trainer == "trl" else slime).devices,
            environment="gpu" if trainer == "trl" and trl.vllm else "cocal",
            start=start,
            shown=True,
        )

    def _backbone_settings(self, backbone: str) -> BackboneSettings:
        """The backbone without its name in print and imported trainings, which concern other rules alone."""
        return self.study.backbones[backbone].model_copy(update={"imported": {}, "label": backbone})

    def _backbone(self, backbone: str, **made: str) -> Job:
        study = self.study
        stage = Backbone(
            name=backbone,
            settings=self._backbone_settings(backbone),
            questions=[results.questions_file(name) for name in study.datasets],
            world=study.world,
            prompts=study.prompts,
            seed=study.seed,
            **made,
        )
        return self._job(stage, texts=self._texts())

    def _existing(self, backbone: str, **made: str) -> Job:
        return self._job(Backbone(name=backbone, settings=self._backbone_settings(backbone), **made))

    def _trained(self, algorithm: str, backbone: str) -> dict[str, Any]:
        """What every training here is given."""
        return {
            "algorithm": algorithm,
            "settings": self.study.policy.for_training(algorithm),
            "verifier": self.study.verifier,
            "prompts": self.study.prompts,
            "base": results.policy_folder(backbone, "base", 0),
            "questions": self._training_set,
        }

    def _train(self, algorithm: str, backbone: str, **made: str) -> Job:
        features = {"features": plan.live_features(self.study)} if algorithm == "grpo" else {}
        stage = Train(**self._trained(algorithm, backbone), **features, **made)
        return self._job(stage, texts=self._texts(self._formats[algorithm]))

    def _slime(self, algorithm: str, backbone: str, **made: str) -> Job:
        own = {"backbone": self._backbone_settings(backbone), "backbone_name": backbone}
        stage = Slime(**self._trained(algorithm, backbone), **own, per_node=f"{self._scripts}/slime.sh", **made)
        return self._job(stage, texts=self._texts(self._formats[algorithm]))

    def _imported(self, algorithm: str, backbone: str, **made: str) -> Job:
        stage = ImportCheckpoints(
            algorithm=algorithm,
            backbone=self._backbone_settings(backbone),
            base=results.policy_folder(backbone, "base", 0),
            stages=self.study.backbones[backbone].imported[algorithm].stages,
            **made,
        )
        return self._job(stage)

    def _readers(self, backbone: str) -> dict[str, Any]:
        """The checkpoints that read stored rollouts: those of every step, where they were kept, otherwise those of the
        stages."""
        imported = self.study.backbones[backbone].imported
        dumps = imported["grpo"].rollouts if "grpo" in imported else None
        if dumps and dumps.weights:
            return {"exact": dumps.weights}
        return {"checkpoints": [results.policy_folder(backbone, "grpo", step) for step in self.study.policy.stages]}

    def _imported_rollouts(self, backbone: str, **made: str) -> Job:
        study, dumps = self.study, cast(Any, self.study.backbones[backbone].imported["grpo"].rollouts)
        stage = ImportRollouts(
            settings=study.policy.rollout_settings("grpo"),
            algorithm="grpo",
            verifier=study.verifier,
            features=plan.pass_features(study),
            format=dumps.format,
            dumps=dumps.path,
            correctness=dumps.correctness,
            reward_key=dumps.reward_key,
            tokenise=study.prompts if dumps.tokenise else None,
            policy=results.policy_folder(backbone, "base", 0),
            questions=self._training_set,
            **self._readers(backbone),
            **made,
        )
        return self._job(stage, texts=self._texts(self._formats["grpo"]) if dumps.tokenise else "")

    def _imported_cost(self, backbone: str, **made: str) -> Job:
        training = self.study.backbones[backbone].imported["grpo"]
        return self._job(ImportCost(seconds=training.seconds, items=self._final, device=training.device, **made))

    def _resample(self, backbone: str, **made: str) -> Job:
        """For PostCal, the final policy answers the questions of every rollout step again."""
        study = self.study
        stage = Resample(
            settings=plan.resampling(study),
            policy=study.policy.rollout_settings("grpo"),
            features=study.features.model_copy(update={"layers": "final"}),
            verifier=study.verifier,
            prompts=study.prompts,
            engine=study.generation.engine,
            backbone=backbone,
            checkpoint=results.policy_folder(backbone, "grpo", self._final),
            questions=self._training_set,
            like=results.rollouts_folder(backbone, "grpo"),
            **made,
        )
        return self._job(stage, texts=self._texts("answer"))

    def _replay(self, backbone: str, **made: str) -> Job:
        """The states of rollouts whose training kept none are read afterwards: by the policies that sampled them where
        these were kept, otherwise by the checkpoint of the stage that followed (appendix F.4)."""
        rollouts = results.rollouts_folder(backbone, "grpo")
        stage = Replay(settings=plan.pass_features(self.study), rollouts=rollouts, **self._readers(backbone), **made)
        return self._job(stage)

    def _prompt_features(self, backbone: str, **made: str) -> Job:
        """The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4)."""
        settings = plan.pass_features(self.study).model_copy(update={"layers": "final"})
        rollouts = results.rollouts_folder(backbone, "grpo")
        return self._job(Prompts(settings=settings, rollouts=rollouts, **self._readers(backbone), **made))
