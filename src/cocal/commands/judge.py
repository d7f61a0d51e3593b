"""`cocal judge`: judge responses that exist, such as a user's own."""

import argparse
import logging

from cocal.config import parse_settings
from cocal.config.evaluation import JudgeChoice, VerifierSettings
from cocal.generation.judging.opening import Judging
from cocal.generation.judging.verdicts import judge_set
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import QUESTIONS, RESPONSES, SAMPLED
from cocal.store.lineage import FACTS, Source, descent, inherited


def run(options: argparse.Namespace) -> None:
    """Judge the responses and write the table. A killed run reuses the judgements that it kept."""
    questions = read_frame(options.questions, QUESTIONS)
    sampled = read_frame(options.responses, SAMPLED)
    domain = questions["domain"].iloc[0]
    verifier = parse_settings(VerifierSettings, options.verifier, "--verifier")
    judging = Judging.of(verifier, parse_settings(JudgeChoice, options.judge, "--judge").root, [domain])
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
