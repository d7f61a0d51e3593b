"""Responses of a checkpoint: sample and judge them, or judge those that exist."""

import argparse
import logging

from cocal.answers.settings import VerifierSettings
from cocal.features.settings import FeatureSettings
from cocal.models.loading import fingerprint
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame, read_provenance, write_frame
from cocal.store.contracts import QUESTIONS, RESPONSES, SAMPLED
from cocal.store.lineage import FACTS, Source, descent, inherited
from cocal.store.run_folder import RunFolder
from cocal_study.config import parse_settings
from cocal_study.config.engine import gpus_of
from cocal_study.config.evaluation import GenerationSettings, JudgeChoice
from cocal_study.generation.evaluation import Evaluated, Kept, judge_set, judge_sets, sample_sets
from cocal_study.generation.judge import Judging
from cocal_study.planning.plan import ResponsePlan
from cocal_study.questions.build import golds_digest, texts_digest
from cocal_study.questions.prompts import Prompts


def run_responses(options: argparse.Namespace) -> None:
    """Sample all sets, release the policy, and judge all sets. A killed run keeps every set that was finished."""
    settings = parse_settings(GenerationSettings, options.settings)
    plan = parse_settings(ResponsePlan, options.plan)
    questions = {name: read_frame(options.questions / f"{name}.parquet", QUESTIONS) for name in plan.sets}
    domains = sorted({of_set["domain"].iloc[0] for of_set in questions.values()})
    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judging = Judging.of(verifier, parse_settings(JudgeChoice, options.judge, "--judge").root, domains)
    prompts = Prompts(options.prompts)
    fix_threads(gpus_of(settings.engine, *judging.engines))
    kept = None
    if options.features:
        features = parse_settings(FeatureSettings, options.features, "--features")
        kept = Kept(features, options.prompt, options.task_response)
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
    folder = RunFolder(options.run_folder, digest(depends_on | inputs | ({"kept": str(kept)} if kept else {})))
    wanted = Evaluated(**cell, prompt_format=options.prompt_format, plan=plan, questions=questions, kept=kept)
    sample_sets(wanted, options.checkpoint, settings, prompts, folder)
    golds = {name: golds_digest(of_set) for name, of_set in questions.items()}
    files = judge_sets(wanted, judging, golds, attributes, folder, options.judgements)
    outputs = {file: options.output / f"{name}.parquet" for name, file in files.items()}
    if options.output_kept:
        (folder.path / "kept").mkdir(exist_ok=True)  # it is empty where no method reads states
        outputs["kept"] = options.output_kept
    folder.publish(outputs)


def run_judge(options: argparse.Namespace) -> None:
    """Judge the responses and write the table. A killed run reuses the judgements that it kept."""
    questions = read_frame(options.questions, QUESTIONS)
    sampled = read_frame(options.responses, SAMPLED)
    domain = questions["domain"].iloc[0]
    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judging = Judging.of(verifier, parse_settings(JudgeChoice, options.judge, "--judge").root, [domain])
    fix_threads(gpus_of(*judging.engines))
    with judging.open(options.judgements) as judges:
        judge = judges[domain]
        table = judge_set(sampled, questions, judge, pool=options.pool, source=str(options.responses))
        facts = judging.provenance(judge)
    depends_on = {
        "responses": read_provenance(options.responses).get("digest"),
        "pool": options.pool,
    } | judging.settings
    facts |= inherited(options.responses, *FACTS)
    sources = [Source(options.responses), Source(options.questions)]
    write_frame(options.output, table, RESPONSES, descent(options.output, "judge", depends_on, sources, **facts))
    logging.info("%s: %d responses, accuracy %.3f", options.output, len(table), table["correct"].mean())
