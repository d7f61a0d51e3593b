"""Responses of the final policy to the questions of every rollout step, for PostCal."""

from pathlib import Path
from typing import ClassVar

from cocal.answers.settings import VerifierSettings
from cocal.features.settings import FeatureSettings
from cocal.store.lineage import Source, identities
from cocal_study.config.engine import EngineChoice, gpus_of
from cocal_study.config.evaluation import PostCalSettings
from cocal_study.config.policy import PolicySettings
from cocal_study.stages.base import Out, OutFolder, Stage


class Resample(Stage):
    """Answers the training questions again with the final policy."""

    command: ClassVar[str] = "resample"

    settings: PostCalSettings = PostCalSettings()
    """JSON: sampling settings of PostCal"""
    policy: PolicySettings
    """JSON: the policy training whose questions are repeated"""
    features: FeatureSettings = FeatureSettings()
    """JSON: layers and dtype"""
    verifier: VerifierSettings = VerifierSettings()
    """JSON: bounds of the verifier"""
    engine: EngineChoice = EngineChoice.model_validate({"kind": "transformers"})
    """JSON: engine that samples"""
    checkpoint: Path
    """final policy"""
    backbone: str
    """name of the backbone"""
    questions: Path
    """training set"""
    like: Path | None = None
    """rollouts whose questions are repeated, step by step; by default those of the schedule of --policy"""
    prompts: str
    """prompt set: a folder of cocal_study/questions/prompts"""
    run_folder: Path
    """working folder; a killed run resumes from it"""
    rollouts: OutFolder
    """folder for the response tables, one per step"""
    output_features: OutFolder
    """feature store of the responses"""
    cost: Out | None = None
    """JSON file for the time of the sampling alone"""

    def sources(self):
        asked = [Source(self.like, experience="rollouts")] if self.like else []
        return [Source(self.checkpoint, experience="rollouts"), Source(self.questions), *asked]

    def named(self):
        return [self.engine.root.opens]

    def run(self) -> None:
        """Sample the responses, or resume their sampling, and publish them."""
        from cocal.answers.equivalence import Verifier
        from cocal.engines.engine import open_engine
        from cocal.engines.states import Reading
        from cocal.features.forward import RESPONSE_POOLINGS, resolve_layers
        from cocal.models.loading import fingerprint, load_policy, load_tokenizer, read_config, text_config
        from cocal.runtime.machine import fix_threads
        from cocal.store import digest, read_frame
        from cocal.store.contracts import QUESTIONS, RESPONSES
        from cocal.store.run_folder import RunFolder
        from cocal_study.generation.responses import Sampler
        from cocal_study.policy.recorder import Outputs
        from cocal_study.policy.resample import resample
        from cocal_study.policy.schedule import asked_questions, question_schedule
        from cocal_study.questions.build import questions_digests
        from cocal_study.questions.prompts import Prompts

        settings, training, features, engine_settings = self.settings, self.policy, self.features, self.engine.root
        questions = read_frame(self.questions, QUESTIONS)
        prompts = Prompts(self.prompts)
        fix_threads(gpus_of(engine_settings))
        depends_on = {"postcal": settings, "policy": training, "features": features, "verifier": self.verifier}
        depends_on["prompts"] = prompts.identity("answer")
        inputs = {"checkpoint": fingerprint(self.checkpoint), "engine": engine_settings} | questions_digests(questions)
        if self.like:
            rollouts = read_frame(self.like, RESPONSES, ["step", "question_id", "response_id"])
            schedule = asked_questions(rollouts, questions, training.steps, training.responses_per_question)
        else:
            schedule = question_schedule(len(questions), training.steps, training.questions_per_step, training.seed)
        facts = {"backbone": self.backbone, "algorithm": "grpo", "step": training.steps, "experience": "resampled"}
        attributes = self.attributes(self.rollouts, depends_on, **facts)
        inputs["parents"] = identities(attributes)
        config, reading, loaded = text_config(read_config(self.checkpoint)), None, None
        if features.source == "engine":
            reading = Reading(resolve_layers(features.layers, config.num_hidden_layers), RESPONSE_POOLINGS)
            tokenizer = load_tokenizer(self.checkpoint)
        else:
            loaded = load_policy(self.checkpoint)
            tokenizer = loaded.tokenizer
        opened = open_engine(engine_settings, self.checkpoint, loaded, reading)
        with Verifier(self.verifier) as verifier, opened as engine:
            inputs["decoder"] = engine.label
            made = {**attributes, "engine": engine.label}
            resample(
                settings,
                training,
                policy=loaded,
                config=config,
                sampler=Sampler(engine, tokenizer, prompts),
                identity=f"{self.backbone}/postcal",
                questions=questions,
                schedule=schedule,
                verifier=verifier,
                features=features,
                run=RunFolder(self.run_folder, digest(depends_on | inputs)),
                outputs=Outputs({}, self.rollouts, self.output_features, self.cost, made),
            )
