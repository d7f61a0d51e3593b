"""Verdicts on responses that exist, by computer algebra, exact match or a language model."""

import logging
from typing import ClassVar

from cocal.store.lineage import FACTS, inherited
from cocal_study.config.engine import gpus_of
from cocal_study.stages.base import In, Out
from cocal_study.stages.shared import Judges


class Judge(Judges):
    """Judges existing responses."""

    command: ClassVar[str] = "judge"

    questions: In
    """question set that was answered (.parquet)"""
    responses: In
    """table of responses; verdicts in it are ignored"""
    pool: bool = False
    """also compare the answers to each question, for self-consistency"""
    output: Out
    """table to write"""

    def run(self) -> None:
        """Judge the responses and write the table. A killed run reuses the judgements that it kept."""
        from cocal.runtime.machine import fix_threads
        from cocal.store import read_frame, read_provenance, write_frame
        from cocal.store.contracts import QUESTIONS, RESPONSES, SAMPLED
        from cocal_study.generation.evaluation import judge_set

        questions = read_frame(self.questions, QUESTIONS)
        sampled = read_frame(self.responses, SAMPLED)
        domain = questions["domain"].iloc[0]
        judging = self.judging([domain])
        fix_threads(gpus_of(*judging.engines))
        with judging.open(self.judgements) as judges:
            judge = judges[domain]
            table = judge_set(sampled, questions, judge, pool=self.pool, source=str(self.responses))
            facts = judging.provenance(judge) | inherited(self.responses, *FACTS)
        depends_on = {"responses": read_provenance(self.responses).get("digest"), "pool": self.pool}
        attributes = self.attributes(self.output, depends_on | judging.settings, **facts)
        write_frame(self.output, table, RESPONSES, attributes)
        logging.info("%s: %d responses, accuracy %.3f", self.output, len(table), table["correct"].mean())
