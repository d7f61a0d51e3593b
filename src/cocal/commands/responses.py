"""`cocal responses`: sample and judge evaluation responses of one checkpoint in one prompt format."""

import argparse

from cocal.config import parse_settings
from cocal.config.evaluation import GenerationSettings, JudgeChoice, VerifierSettings
from cocal.generation.judging.evaluation import Evaluated, judge_sets, sample_sets
from cocal.generation.judging.opening import Judging
from cocal.models.loading import fingerprint
from cocal.questions.identity import golds_digest, texts_digest
from cocal.questions.prompts import Prompts
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent
from cocal.store.run_folder import RunFolder
from cocal.study.plan import ResponsePlan


def run(options: argparse.Namespace) -> None:
    """Sample all sets, release the policy, and judge all sets. A killed run keeps every set that was finished."""
    settings = parse_settings(GenerationSettings, options.settings)
    plan = parse_settings(ResponsePlan, options.plan)
    questions = {name: read_frame(options.questions / f"{name}.parquet", QUESTIONS) for name in plan.sets}
    domains = sorted({of_set["domain"].iloc[0] for of_set in questions.values()})
    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judging = Judging.of(verifier, parse_settings(JudgeChoice, options.judge, "--judge").root, domains)
    prompts = Prompts(options.prompts)
    fix_threads()
    depends_on = {
        "generation": settings,
        "plan": plan,
        "prompts": {d: prompts.identity(*plan.formats(options.prompt_format), domain=d) for d in domains},
        "prompt_format": options.prompt_format,
    }
    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    attributes = {
        name: descent(
            options.output / f"{name}.parquet",
            "responses",
            depends_on | judging.settings,
            [Source(options.checkpoint), Source(options.questions / f"{name}.parquet")],
            prompt_format=options.prompt_format,
            dataset=name,
            **cell,
        )
        for name in plan.sets
    }
    inputs = {
        "checkpoint": fingerprint(options.checkpoint),
        "questions": {name: texts_digest(of_set) for name, of_set in questions.items()},
    }
    folder = RunFolder(options.run_folder, digest(depends_on | inputs))
    wanted = Evaluated(**cell, prompt_format=options.prompt_format, plan=plan, questions=questions)
    sample_sets(wanted, options.checkpoint, settings, prompts, folder)
    golds = {name: golds_digest(of_set) for name, of_set in questions.items()}
    files = judge_sets(wanted, judging, golds, attributes, folder, options.judgements)
    folder.publish({file: options.output / f"{name}.parquet" for name, file in files.items()})
