"""`cocal judge`: judge responses that exist, such as a user's own."""

import argparse
import logging
from pathlib import Path

from cocal.commands.flags import add_judge_arguments, add_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_judge_arguments(parser)
    parser.add_argument("--questions", required=True, type=Path, help="question set that was answered (.parquet)")
    parser.add_argument("--responses", required=True, type=Path, help="table of responses; verdicts in it are ignored")
    parser.add_argument(
        "--pool", action="store_true", help="also compare the answers to each question, for self-consistency"
    )
    add_output(parser, "--output", required=True, help="table to write")


def run(options: argparse.Namespace) -> None:
    """Judge the responses and write the table. A killed run reuses the judgements that it kept."""
    from cocal.commands.flags import judging_of
    from cocal.generation.judging.verdicts import judge_set
    from cocal.runtime.machine import fix_threads
    from cocal.store import read_frame, read_provenance, write_frame
    from cocal.store.contracts import QUESTIONS, RESPONSES, SAMPLED
    from cocal.study.lineage import FACTS, Source, descent, inherited

    questions = read_frame(options.questions, QUESTIONS)
    sampled = read_frame(options.responses, SAMPLED)
    domain = questions["domain"].iloc[0]
    judging = judging_of(options, [domain])
    fix_threads()
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
