"""`cocal slime`: train a policy with slime, the paper's engine, inside or beside its container."""

import argparse
from pathlib import Path

from cocal.config import parse_settings
from cocal.config.backbone import BackboneChoice
from cocal.config.evaluation import VerifierSettings
from cocal.config.policy import PolicySettings
from cocal.integrations.slime.launch import SlimePaths
from cocal.integrations.slime.run import train_with_slime
from cocal.models.loading import fingerprint
from cocal.policy.objectives import PROMPT_FORMATS
from cocal.policy.recorder import Outputs
from cocal.questions.identity import questions_digests
from cocal.questions.prompts import Prompts
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent, identities
from cocal.store.run_folder import RunFolder


def run(options: argparse.Namespace) -> None:
    """Train with slime, or resume, import its dumps and checkpoints, and publish them."""
    settings = parse_settings(PolicySettings, options.settings).for_training(options.algorithm)
    backbone = parse_settings(BackboneChoice, options.backbone, "--backbone").root
    bounds = parse_settings(VerifierSettings, options.verifier, "--verifier")
    questions = read_frame(options.questions, QUESTIONS)
    prompts = Prompts(options.prompts)
    depends_on = {
        "policy": settings,
        "verifier": bounds,
        "algorithm": options.algorithm,
        "prompts": prompts.identity(PROMPT_FORMATS[options.algorithm]),
    }
    # a run may resume with slime on other machines, but not with another computation
    computed = depends_on | {"policy": settings.rollout_settings(options.algorithm)}
    sources = [Source(options.base, algorithm="base", step=0), Source(options.questions)]
    facts = {"backbone": options.backbone_name, "algorithm": options.algorithm, "experience": "rollouts"}
    attributes = descent(options.rollouts, "slime", depends_on, sources, **facts)
    inputs = {"base": fingerprint(options.base), "parents": identities(attributes)} | questions_digests(questions)
    folder = RunFolder(options.run_folder.absolute(), digest(computed | inputs))
    train_with_slime(
        settings,
        options.algorithm,
        backbone=backbone,
        paths=SlimePaths(options.base.absolute(), Path(settings.slime.torch_dist[options.backbone_name]), folder.path),
        questions=questions,
        prompts=prompts,
        verifier=bounds,
        per_node=options.per_node,
        run=folder,
        outputs=Outputs(
            {step: options.stages / f"step-{step}" for step in settings.stages},
            options.rollouts,
            cost=options.cost,
            attributes=attributes,
        ),
    )
