"""`cocal train`: train a policy and record its rollouts; `accelerate launch` starts it on several GPUs."""

import argparse
from functools import partial

from cocal.answers.equivalence import Verifier
from cocal.answers.settings import VerifierSettings
from cocal.companion.settings import OnlineSettings
from cocal.features.settings import FeatureSettings
from cocal.models.loading import fingerprint
from cocal.objectives import PROMPT_FORMATS
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent, identities, inherited
from cocal_study.config import ConfigError, parse_settings
from cocal_study.config.policy import PolicySettings
from cocal_study.policy.recorder import Outputs
from cocal_study.policy.train import train_policy
from cocal_study.questions.build import questions_digests
from cocal_study.questions.prompts import Prompts


def run_train(options: argparse.Namespace) -> None:
    """Train the policy, or resume its training, and publish the results."""
    settings = parse_settings(PolicySettings, options.settings).for_training(options.algorithm)
    features = parse_settings(FeatureSettings, options.features)
    bounds = parse_settings(VerifierSettings, options.verifier)
    online = None if options.online is None else parse_settings(OnlineSettings, options.online, "--online")
    if (online is None) != (options.output_online is None):
        raise ConfigError("--online and --output-online belong together: give both or none")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
    fix_threads()
    depends_on = {
        "policy": settings,
        "features": features if options.output_features or online else None,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    if online:
        depends_on["online"] = online
    sources = [Source(options.base, algorithm="base", step=0), Source(options.questions)]
    facts = inherited(options.base, "backbone") | {"algorithm": options.algorithm, "experience": "rollouts"}
    attributes = descent(options.rollouts, "train", depends_on, sources, **facts)
    inputs = {"base": fingerprint(options.base), "parents": identities(attributes)} | questions_digests(questions)
    outputs = Outputs(
        {step: options.stages / f"step-{step}" for step in settings.stages},
        options.rollouts,
        options.output_features,
        options.cost,
        attributes,
        options.output_online,
    )
    open_learner = None
    if online:
        from cocal.companion.learner import OnlineLearner

        open_learner = partial(OnlineLearner, online)
    with Verifier(bounds) as verifier:
        train_policy(
            settings,
            options.algorithm,
            base=options.base,
            questions=questions,
            prompts=prompts,
            features=features,
            verifier=verifier,
            run_folder=options.run_folder,
            run_digest=digest(depends_on | inputs),
            outputs=outputs,
            open_learner=open_learner,
        )
