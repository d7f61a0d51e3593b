"""Rules of policies: backbones, their training here or elsewhere, their rollouts, and the states of these."""

from functools import partial
from typing import Any, cast

from cocal.settings.base import Algorithm
from cocal_study.config.backbone import BackboneSettings
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.features import FeatureSettings
from cocal_study.planning import plan, results
from cocal_study.policy.launch import train_command
from cocal_study.policy.objectives import OBJECTIVES
from cocal_study.stages.backbones import Backbone, ImportCheckpoints
from cocal_study.stages.base import Stage
from cocal_study.stages.jobs import Job, Rule, Rules
from cocal_study.stages.rollouts import ImportCost, ImportRollouts, Resample
from cocal_study.stages.states import Prompts, Replay
from cocal_study.stages.training import Train

TRAINERS = {"train": "trl", "import": "imported"}
"""Who trains a policy (`plan.trainer_of`), by the beginning of the names of the rules, one for each algorithm."""


class PolicyRules(Rules):
    """A policy is trained by TRL, or another engine has trained it. Snakemake deletes the outputs of a
    failed job, so unfinished work lies in results/runs, from which the next attempt resumes."""

    def trained_by(self, trainer: str, algorithm: Algorithm) -> list[str]:
        """The backbones whose policies of an algorithm are trained by "trl", or are "imported"."""
        if algorithm not in self.study.policy.algorithms:
            return []
        return [name for name in self.study.backbones if plan.trainer_of(self.study, name, algorithm) == trainer]

    def _policy_rules(self) -> list[Rule]:
        def rule(name: str, make: Any, places: Any, backbones: Any = self.study.backbones, **how: Any) -> Rule:
            how = {"shown": True, **how}
            return Rule(name=name, make=make, places=places, limits={"backbone": backbones}, **how)

        made = [name for name, backbone in self.study.backbones.items() if backbone.source == "pretraining"]
        existing = [name for name in self.study.backbones if name not in made]
        base = {"output": results.policy_folder("{backbone}", "base", 0)}
        resampled = {
            "rollouts": results.rollouts_folder("{backbone}", "postcal"),
            "output_features": results.states_file("{backbone}", "postcal"),
            "cost": results.cost_file("{backbone}", "resample"),
            "run_folder": results.run_folder("resample", "{backbone}"),
        }
        prompts = {"output": results.states_file("{backbone}", "grpo", "prompts")}
        rules = [
            rule("backbone", self._backbone, base, made, threads=None),
            rule("existing_backbone", self._existing, base, existing, threads=None, local=True),
        ]
        rules += [
            self._training(f"{name}_{algorithm}", trainer, algorithm)
            for name, trainer in TRAINERS.items()
            for algorithm in OBJECTIVES
            if self.trained_by(trainer, algorithm)
        ]
        rollouts, states = results.rollouts_folder("{backbone}", "grpo"), results.states_file("{backbone}", "grpo")
        if imported := self.trained_by("imported", "grpo"):
            places = {"output": rollouts, "run_folder": results.run_folder("import", "{backbone}-grpo")}
            rules.append(rule("import_rollouts", self._imported_rollouts, places, imported, gpus=1))
            cost = {"output": results.cost_file("{backbone}", "train-grpo")}
            rules.append(rule("import_cost", self._imported_cost, cost, imported, local=True, shown=False))
            places = {"output": states, "run_folder": results.run_folder("replay", "{backbone}")}
            rules.append(rule("replay", self._replay, places, imported, gpus=1))
        rules.append(rule("resample", self._resample, resampled, **self._sampling))
        return [*rules, rule("prompt_features", self._prompt_features, prompts, gpus=1)]

    def _training(self, name: str, trainer: str, algorithm: Algorithm) -> Rule:
        """The rule of an algorithm. Companions learn from GRPO alone, so TRL keeps the features of its rollouts."""
        stages = [results.policy_folder("{backbone}", algorithm, step) for step in self.study.policy.stages]
        folder = results.training_folder("{backbone}", algorithm)
        how: dict[str, Any] = {"name": name, "limits": {"backbone": self.trained_by(trainer, algorithm)}}
        if trainer == "imported":
            return Rule(make=partial(self._imported, algorithm), places={"output": folder}, files=stages, **how)
        made = {
            "rollouts": results.rollouts_folder("{backbone}", algorithm),
            "cost": results.cost_file("{backbone}", f"train-{algorithm}"),
        }
        unfinished = results.run_folder(name.partition("_")[0], "{backbone}", algorithm)
        how |= {"shown": True, "threads": None}
        trl = self.study.policy.trl
        *start, _ = train_command(trl, f"{self._scripts}/accelerate.sh")  # the stage's words begin with "train"
        how |= {"make": partial(self._train, algorithm), "gpus": trl.devices, "start": start}
        how["environment"] = "gpu" if trl.vllm else "cocal"
        if algorithm == "grpo":
            made["output_features"] = results.states_file("{backbone}", algorithm)
        places = made | {"stages": folder, "run_folder": unfinished}
        return Rule(places=places, files=[*stages, *made.values()], **how)

    def _backbone_settings(self, backbone: str) -> BackboneSettings:
        """The backbone without its name in print and imported trainings, which concern other rules alone."""
        return self.study.backbones[backbone].model_copy(update={"imported": {}, "label": backbone})

    def _backbone(self, backbone: str, **made: str) -> Job:
        study = self.study
        return self._job(
            Backbone,
            name=backbone,
            settings=self._backbone_settings(backbone),
            questions=[results.questions_file(name) for name in study.datasets],
            world=study.world,
            prompts=study.prompts,
            seed=study.seed,
            texts=self._texts(),
            **made,
        )

    def _existing(self, backbone: str, **made: str) -> Job:
        return self._job(Backbone, name=backbone, settings=self._backbone_settings(backbone), **made)

    def _train(self, algorithm: Algorithm, backbone: str, **made: str) -> Job:
        given: dict[str, Any] = {}
        if algorithm == "grpo":  # training has its own batch size
            own = {"batch_tokens": FeatureSettings().batch_tokens}
            given["features"] = plan.pass_features(self.study).model_copy(update=own)
        return self._job(
            Train,
            algorithm=algorithm,
            settings=self.study.policy.for_training(algorithm),
            verifier=self.study.verifier,
            prompts=self.study.prompts,
            base=results.policy_folder(backbone, "base", 0),
            questions=self._training_set,
            texts=self._texts(OBJECTIVES[algorithm].prompt_format),
            **given,
            **made,
        )

    def _imported(self, algorithm: Algorithm, backbone: str, **made: str) -> Job:
        return self._job(
            ImportCheckpoints,
            algorithm=algorithm,
            backbone=self._backbone_settings(backbone),
            base=results.policy_folder(backbone, "base", 0),
            stages=self.study.backbones[backbone].imported[algorithm].stages,
            **made,
        )

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
        return self._job(
            ImportRollouts,
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
            texts=self._texts(OBJECTIVES["grpo"].prompt_format) if dumps.tokenise else "",
            **self._readers(backbone),
            **made,
        )

    def _imported_cost(self, backbone: str, **made: str) -> Job:
        training = self.study.backbones[backbone].imported["grpo"]
        return self._job(ImportCost, seconds=training.seconds, items=self._final, device=training.device, **made)

    def _resample(self, backbone: str, **made: str) -> Job:
        """For PostCal, the final policy answers the questions of every rollout step again. The seed that orders the
        responses for its companions plays no part."""
        study = self.study
        return self._job(
            Resample,
            settings=study.postcal.model_copy(update={"shuffle_seed": PostCalSettings().shuffle_seed}),
            policy=study.policy.rollout_settings("grpo"),
            features=study.features.model_copy(update={"layers": "final"}),
            verifier=study.verifier,
            prompts=study.prompts,
            engine=study.generation.engine,
            backbone=backbone,
            checkpoint=results.policy_folder(backbone, "grpo", self._final),
            questions=self._training_set,
            like=results.rollouts_folder(backbone, "grpo"),
            texts=self._texts("answer"),
            **made,
        )

    def _replay(self, backbone: str, **made: str) -> Job:
        """The states of rollouts whose training kept none are read afterwards: by the policies that sampled them where
        these were kept, otherwise by the checkpoint of the stage that followed (appendix F.4)."""
        return self._read_rollouts(Replay, plan.pass_features(self.study), backbone, made)

    def _prompt_features(self, backbone: str, **made: str) -> Job:
        """The prompts of the rollouts are read by the checkpoint of the stage that followed (appendix F.4)."""
        settings = plan.pass_features(self.study).model_copy(update={"layers": "final"})
        return self._read_rollouts(Prompts, settings, backbone, made)

    def _read_rollouts(self, stage: type[Stage], settings: FeatureSettings, backbone: str, made: dict[str, str]) -> Job:
        rollouts = results.rollouts_folder(backbone, "grpo")
        return self._job(stage, settings=settings, rollouts=rollouts, **self._readers(backbone), **made)
