"""`cocal responses`: sample and judge evaluation responses of one checkpoint in one prompt format."""

import argparse
from pathlib import Path

from cocal.commands.flags import add_cell, add_judge_arguments, add_output, add_prompts, add_run_folder
from cocal.commands.outputs import Kind


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: sampling parameters")
    add_judge_arguments(parser)
    parser.add_argument("--plan", required=True, help="JSON: question sets, number and length of responses")
    parser.add_argument("--prompt-format", required=True, help="prompt format: answer, verbal, ...")
    parser.add_argument("--questions", required=True, type=Path, help="folder of question sets")
    parser.add_argument("--checkpoint", required=True, type=Path, help="policy to sample from")
    add_cell(parser)
    add_prompts(parser)
    add_run_folder(parser)
    add_output(
        parser,
        "--output",
        kind=Kind(folder=True, entries="*.parquet"),
        required=True,
        help="folder for one .parquet per question set",
    )


def run(options: argparse.Namespace) -> None:
    """Sample all sets, release the policy, and judge all sets. A killed run keeps every set that was finished."""
    from cocal.commands.flags import judging_of
    from cocal.config import parse_settings
    from cocal.config.evaluation import GenerationSettings
    from cocal.generation.judging.evaluation import Evaluated, judge_sets, sample_sets
    from cocal.models.loading import fingerprint
    from cocal.questions.identity import golds_digest, texts_digest
    from cocal.questions.prompts import Prompts
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest, read_frame
    from cocal.store.contracts import QUESTIONS
    from cocal.store.run_folder import RunFolder
    from cocal.study.lineage import Source, descent
    from cocal.study.plan import ResponsePlan

    settings = parse_settings(GenerationSettings, options.settings)
    plan = parse_settings(ResponsePlan, options.plan)
    questions = {name: read_frame(options.questions / f"{name}.parquet", QUESTIONS) for name in plan.sets}
    domains = sorted({of_set["domain"].iloc[0] for of_set in questions.values()})
    judging = judging_of(options, domains)
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
