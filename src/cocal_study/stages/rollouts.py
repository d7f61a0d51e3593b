"""Rollouts that are not made by a training here: those dumped by another engine, and PostCal's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from cocal.answers.settings import VerifierSettings
from cocal.runtime.machine import fix_threads
from cocal.settings.base import Algorithm, Count, Positive
from cocal.store import digest, read_frame, write_text
from cocal.store.provenance import canonical
from cocal.store.run_folder import RunFolder, file_states
from cocal_study.config.engine import EngineChoice, gpus_of
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.features import FeatureSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.planning import results
from cocal_study.provenance.lineage import Source, identities, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import Out, OutFolder, PromptSet, ReadByCheckpoints, Stage, Unfinished
from cocal_study.stages.jobs import Job, Rule, Rules


class ImportRollouts(ReadByCheckpoints):
    """Turns rollout dumps of slime, TRL or JSON lines into rollout tables."""

    computed: ClassVar[bool] = False

    settings: PolicySettings
    algorithm: Algorithm
    verifier: VerifierSettings = VerifierSettings()
    format: Literal["slime", "trl", "jsonl"]
    dumps: Path
    """folder of dumps, one file per step"""
    questions: Path
    policy: Path
    """checkpoint of the tokenizer and vocabulary"""
    features: FeatureSettings = FeatureSettings()
    """JSON: batch_tokens, for log-probabilities that dumps lack"""
    run_folder: Unfinished
    output: OutFolder
    """folder for the tables, one per step"""

    def sources(self):
        return [Source(self.policy, algorithm="base", step=0), Source(self.questions)]

    def reads(self):
        return [self.policy, self.questions, self.dumps, *self.readers]

    def run(self) -> None:
        from cocal.answers.equivalence import Verifier
        from cocal.models.loading import read_vocabulary
        from cocal_study.generation.replay import StepCheckpoints, rescorer
        from cocal_study.policy.importing import StepTables, dump_files, import_rollouts
        from cocal_study.policy.recorder import Outputs
        from cocal_study.questions.build import questions_digests
        from cocal_study.store.contracts import QUESTIONS

        fix_threads()
        questions = read_frame(self.questions, QUESTIONS)
        dumps = dump_files(self.format, self.dumps, self.settings.steps)
        checkpoints = StepCheckpoints(self.checkpoints, self.exact) if self.readers else None
        depends_on = {
            "policy": self.settings,
            "verifier": self.verifier,
            "format": self.format,
            "missing_logprobs": "computed" if checkpoints else "refused",
        }
        inputs = {
            "dumps": file_states(dumps.values()),
            "checkpoints": checkpoints and checkpoints.state(),
        } | questions_digests(questions)
        facts = inherited(self.policy, "backbone") | {"algorithm": self.algorithm, "experience": "rollouts"}
        attributes = self.attributes(self.output, depends_on, **facts)
        with Verifier(self.verifier) as judge:
            tables = StepTables(
                self.settings,
                self.algorithm,
                questions=questions,
                vocabulary=read_vocabulary(self.policy),
                judge=judge,
                scorer=checkpoints and rescorer(checkpoints, self.features.batch_tokens),
            )
            run_folder = RunFolder(self.run_folder, digest(depends_on | inputs | {"parents": identities(attributes)}))
            outputs = Outputs({}, self.output, attributes=attributes)
            import_rollouts(self.format, dumps, tables, run_folder, outputs)


class ImportCost(Stage):
    """Writes what a training took that another engine ran."""

    computed: ClassVar[bool] = False

    seconds: Positive
    items: Count
    device: str
    output: Out

    def run(self) -> None:
        write_text(self.output, canonical(self.model_dump(include={"seconds", "items", "device"})) + "\n")


class Resample(Stage):
    """Answers the training questions again with the final policy."""

    settings: PostCalSettings = PostCalSettings()
    policy: PolicySettings
    """JSON: the policy training whose questions are repeated"""
    features: FeatureSettings = FeatureSettings()
    verifier: VerifierSettings = VerifierSettings()
    engine: EngineChoice = EngineChoice.model_validate({"kind": "transformers"})
    checkpoint: Path
    backbone: str
    questions: Path
    like: Path | None = None
    """rollouts whose questions are repeated, step by step; by default those of the schedule of --policy"""
    prompts: PromptSet
    run_folder: Unfinished
    rollouts: OutFolder
    """folder for the response tables, one per step"""
    output_features: OutFolder
    cost: Out | None = None
    """JSON file for the time of the sampling alone"""

    def sources(self):
        asked = [Source(self.like, experience="rollouts")] if self.like else []
        return [Source(self.checkpoint, experience="rollouts"), Source(self.questions), *asked]

    def named(self):
        return [self.engine.root.opens]

    def run(self) -> None:
        from cocal.answers.equivalence import Verifier
        from cocal.models.loading import load_policy
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.engines import open_engine
        from cocal_study.generation.responses import Sampler
        from cocal_study.policy.recorder import Outputs
        from cocal_study.policy.resample import resample
        from cocal_study.policy.schedule import asked_questions, question_schedule
        from cocal_study.questions.build import questions_digests
        from cocal_study.store.contracts import QUESTIONS

        settings, training, features, engine_settings = self.settings, self.policy, self.features, self.engine.root
        questions = read_frame(self.questions, QUESTIONS)
        prompts = Prompts(self.prompts)
        fix_threads(gpus_of(engine_settings))
        depends_on = {"postcal": settings, "policy": training, "features": features, "verifier": self.verifier}
        depends_on["prompts"] = prompts.identity("answer")
        inputs: dict[str, Any] = {"engine": engine_settings} | questions_digests(questions)
        if self.like:
            rollouts = read_frame(self.like, RESPONSES, ["step", "question_id", "response_id"])
            schedule = asked_questions(rollouts, questions, training.steps, training.responses_per_question)
        else:
            schedule = question_schedule(len(questions), training.steps, training.questions_per_step, training.seed)
        facts = {"backbone": self.backbone, "algorithm": "grpo", "step": training.steps, "experience": "resampled"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs["parents"] = identities(attributes)
        policy = load_policy(self.checkpoint)
        opened = open_engine(engine_settings, self.checkpoint, policy)
        with Verifier(self.verifier) as verifier, opened as engine:
            inputs["decoder"] = engine.label
            made = {**attributes, "engine": engine.label}
            resample(
                settings,
                training,
                policy=policy,
                sampler=Sampler(engine, policy.tokenizer, prompts),
                identity=f"{self.backbone}/postcal",
                questions=questions,
                schedule=schedule,
                verifier=verifier,
                features=features,
                run=RunFolder(self.run_folder, digest(depends_on | inputs)),
                outputs=Outputs({}, self.rollouts, self.output_features, self.cost, made),
            )


class RolloutRules(Rules):
    """Rollouts of trainings that were run elsewhere, and PostCal's."""

    def rules(self) -> Iterator[Rule]:
        if imported := self.trained_by("imported", "grpo"):
            unfinished = results.run_folder("import", "{backbone}-grpo")
            places = {"output": results.rollouts_folder("{backbone}", "grpo"), "run_folder": unfinished}
            limits = {"backbone": imported}
            yield Rule(
                name="import_rollouts", make=self._imported_rollouts, places=places, limits=limits, gpus=1, shown=True
            )
            cost = {"output": results.cost_file("{backbone}", "train-grpo")}
            yield Rule(name="import_cost", make=self._imported_cost, places=cost, limits=limits, local=True)
        resampled = {
            "rollouts": results.rollouts_folder("{backbone}", "postcal"),
            "output_features": results.states_file("{backbone}", "postcal"),
            "cost": results.cost_file("{backbone}", "resample"),
            "run_folder": results.run_folder("resample", "{backbone}"),
        }
        yield Rule(
            name="resample",
            make=self._resample,
            places=resampled,
            limits={"backbone": self.study.backbones},
            early=True,
            shown=True,
            **self._sampling,
        )

    def _imported_rollouts(self, backbone: str, **made: str) -> Job:
        study, dumps = self.study, cast(Any, self.study.backbones[backbone].imported["grpo"].rollouts)
        return self._job(
            ImportRollouts,
            settings=study.policy.rollout_settings("grpo"),
            algorithm="grpo",
            verifier=study.verifier,
            features=study.features,
            format=dumps.format,
            dumps=dumps.path,
            policy=results.policy_folder(backbone, "base", 0),
            questions=self._training_set,
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
