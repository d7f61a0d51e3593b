"""`cocal responses`: evaluation responses of one checkpoint in one prompt format."""

import argparse
import logging
from pathlib import Path

from cocal.commands.flags import add_judge_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", default="{}", help="JSON: sampling parameters")
    add_judge_arguments(parser)
    parser.add_argument("--plan", required=True, help="JSON: question sets, how many responses, how long")
    parser.add_argument("--prompt-format", required=True, help="prompt format: answer, verbal, ...")
    parser.add_argument("--questions", required=True, type=Path, help="folder of question sets")
    parser.add_argument("--checkpoint", required=True, type=Path, help="policy to sample from")
    parser.add_argument("--backbone", required=True, help="name of the backbone")
    parser.add_argument("--algorithm", required=True, help="how the policy was trained; base if it was not")
    parser.add_argument("--step", required=True, type=int, help="rollout step of the checkpoint")
    parser.add_argument("--prompts", default="tiny", help="prompt set")
    parser.add_argument("--run-folder", required=True, type=Path, help="working folder; a killed run resumes from it")
    parser.add_argument("--output", required=True, type=Path, help="folder for one .parquet a question set")


def run(options: argparse.Namespace) -> None:
    """Sample set by set, let go of the policy, then judge set by set; finished sets of both kinds survive a kill."""
    from cocal.checkpoints.loading import fingerprint
    from cocal.commands.flags import judging_of
    from cocal.config import parse_settings
    from cocal.config.evaluation import GenerationSettings
    from cocal.prompts import Prompts
    from cocal.questions.identity import golds_digest, texts_digest
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest, read_frame
    from cocal.store.contracts import QUESTIONS
    from cocal.store.run_folder import RunFolder
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
    inputs = {
        "checkpoint": fingerprint(options.checkpoint),
        "questions": {name: texts_digest(of_set) for name, of_set in questions.items()},
    }
    folder = RunFolder(options.run_folder, digest(depends_on | inputs))
    _sample(options, folder.path / "sampled", settings, plan, questions, prompts)
    # another judge, or a corrected answer, does not need new responses
    golds = {name: golds_digest(of_set) for name, of_set in questions.items()}
    judged = f"judged-{digest(judging.settings | {'golds': golds})}"
    _judge(options, folder.path, judged, judging, depends_on, plan, questions)
    folder.publish({f"{judged}/{name}.parquet": options.output / f"{name}.parquet" for name in plan.sets})


def _sample(options: argparse.Namespace, folder: Path, settings, plan, questions, prompts) -> None:
    """Sample the sets that are not there yet. The policy is in memory here alone: a judge may need all of it."""
    from cocal.checkpoints.loading import load_tokenizer
    from cocal.generation.engines import open_engine
    from cocal.generation.responses import sample_responses
    from cocal.store import read_provenance, write_frame
    from cocal.store.contracts import SAMPLED

    files = {name: folder / f"{name}.parquet" for name in plan.sets}
    if all(file.exists() for file in files.values()):
        logging.info("all sets were sampled earlier")
        return
    tokenizer = load_tokenizer(options.checkpoint)
    with open_engine(settings.engine, options.checkpoint, tokenizer) as engine:
        attributes = {"engine": engine.label}
        for name, file in files.items():
            if file.exists() and read_provenance(file) == attributes:  # another engine's responses may differ
                logging.info("%s: sampled earlier", name)
                continue
            frame = sample_responses(
                questions[name],
                options.prompt_format,
                plan.sets[name],
                engine=engine,
                tokenizer=tokenizer,
                prompts=prompts,
                settings=settings,
                identity=f"{options.backbone}/{options.algorithm}/{options.step}/{options.prompt_format}/{name}",
                step=options.step,
            )
            write_frame(file, frame, SAMPLED, attributes)
            logging.info(
                "%s: %d responses, mean length %.1f, truncated %.1f %%",
                name,
                len(frame),
                frame["length"].mean(),
                100 * frame["truncated"].mean(),
            )


def _judge(options: argparse.Namespace, run: Path, judged: str, judging, depends_on: dict, plan, questions) -> None:
    """Judge the sets that are not judged yet."""
    from cocal.judging.verdicts import judge_set
    from cocal.store import provenance, read_frame, read_provenance, write_frame
    from cocal.store.contracts import RESPONSES, SAMPLED

    cell = {"backbone": options.backbone, "algorithm": options.algorithm, "step": options.step}
    with judging.open(options.judgements) as judges:
        for name, how in plan.sets.items():
            file = run / judged / f"{name}.parquet"
            if file.exists():
                logging.info("%s: judged earlier", name)
                continue
            source = run / "sampled" / f"{name}.parquet"
            judge = judges[questions[name]["domain"].iloc[0]]
            frame = judge_set(read_frame(source, SAMPLED), questions[name], judge, pool=how.pool, source=str(source))
            facts = cell | read_provenance(source) | judging.provenance(judge)
            write_frame(file, frame, RESPONSES, provenance("responses", depends_on | judging.settings, **facts))
            logging.info("%s: accuracy %.3f", name, frame["correct"].mean())
