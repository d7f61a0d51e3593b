"""Evaluation responses of a checkpoint: sampled and judged, or judged anew."""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cocal.answers.settings import VerifierSettings
from cocal.runtime.machine import fix_threads
from cocal.store import digest, read_frame, read_provenance, write_frame
from cocal.store.run_folder import RunFolder
from cocal_study.config.engine import gpus_of
from cocal_study.config.evaluation import GenerationSettings, JudgeChoice
from cocal_study.planning import plan, results
from cocal_study.planning.plan import ResponsePlan
from cocal_study.planning.results import JUDGEMENTS
from cocal_study.provenance.lineage import FACTS, Source, descent, inherited
from cocal_study.questions.prompts import Prompts
from cocal_study.stages.base import Cell, In, Out, OutTables, PromptSet, Stage, Unfinished
from cocal_study.stages.jobs import CELL, DOMAINS, Job, Rule, Rules


class _Judges(Stage):
    verifier: VerifierSettings = VerifierSettings()
    judge: JudgeChoice = JudgeChoice.model_validate({"kind": "exact-match"})
    judgements: Path = Path(JUDGEMENTS)
    """folder that caches a language model's replies; jobs share it, and it may be deleted"""


class Responses(Cell, _Judges):
    """Samples all sets, releases the policy, and judges all sets."""

    settings: GenerationSettings = GenerationSettings()
    plan: ResponsePlan
    prompt_format: str
    """prompt format: answer, verbal, ..."""
    questions: Path
    checkpoint: Path
    prompts: PromptSet
    run_folder: Unfinished
    output: OutTables
    """folder for {set}.parquet"""

    def reads(self):
        return [self.checkpoint, *(self.questions / f"{name}.parquet" for name in self.plan.sets)]

    def named(self):
        engines = [self.settings.engine]
        engines += [self.judge.root.engine] if self.judge.root.kind == "llm" else []
        return [engine.opens for engine in engines]

    def run(self) -> None:
        from cocal_study.generation.judge import Judging
        from cocal_study.generation.sampling import Evaluated, judge_sets, sample_sets
        from cocal_study.provenance.identity import identity
        from cocal_study.questions.build import golds_digest, texts_digest
        from cocal_study.store.contracts import QUESTIONS

        settings, plan, prompt_format = self.settings, self.plan, self.prompt_format
        questions = {name: read_frame(self.questions / f"{name}.parquet", QUESTIONS) for name in plan.sets}
        domains = sorted({of_set["domain"].iloc[0] for of_set in questions.values()})
        judging = Judging.of(self.verifier, self.judge.root, domains)
        prompts = Prompts(self.prompts)
        fix_threads(gpus_of(settings.engine, *judging.engines))
        depends_on = {
            "generation": settings,
            "plan": plan,
            "prompts": {d: prompts.identity(*plan.formats(prompt_format), domain=d) for d in domains},
            "prompt_format": prompt_format,
        }
        attributes = {
            name: descent(
                self.output / f"{name}.parquet",
                self.command,
                depends_on | judging.settings,
                [Source(self.checkpoint), Source(self.questions / f"{name}.parquet")],
                prompt_format=prompt_format,
                dataset=name,
                **self.cell,
            )
            for name in plan.sets
        }
        inputs = {
            "checkpoint": identity(self.checkpoint),
            "questions": {name: texts_digest(of_set) for name, of_set in questions.items()},
        }
        folder = RunFolder(self.run_folder, digest(depends_on | inputs))
        wanted = Evaluated(**self.cell, prompt_format=prompt_format, plan=plan, questions=questions)
        sample_sets(wanted, self.checkpoint, settings, prompts, folder)
        golds = {name: golds_digest(of_set) for name, of_set in questions.items()}
        files = judge_sets(wanted, judging, golds, attributes, folder, self.judgements)
        folder.publish({file: self.output / f"{name}.parquet" for name, file in files.items()})


class Judge(_Judges):
    """Judges existing responses."""

    questions: In
    """question set that was answered (.parquet)"""
    responses: In
    """table of responses; verdicts in it are ignored"""
    pool: bool = False
    """also compare the answers to each question, for self-consistency"""
    output: Out

    def run(self) -> None:
        from cocal.store.contracts import RESPONSES
        from cocal_study.generation.judge import Judging
        from cocal_study.generation.sampling import judge_set
        from cocal_study.store.contracts import QUESTIONS, SAMPLED

        questions = read_frame(self.questions, QUESTIONS)
        sampled = read_frame(self.responses, SAMPLED)
        domain = questions["domain"].iloc[0]
        judging = Judging.of(self.verifier, self.judge.root, [domain])
        fix_threads(gpus_of(*judging.engines))
        with judging.open(self.judgements) as judges:
            judge = judges[domain]
            table = judge_set(sampled, questions, judge, pool=self.pool, source=str(self.responses))
            facts = judging.provenance(judge) | inherited(self.responses, *FACTS)
        depends_on = {"responses": read_provenance(self.responses).get("digest"), "pool": self.pool}
        attributes = self.attributes(self.output, depends_on | judging.settings, **facts)
        write_frame(self.output, table, RESPONSES, attributes)
        logging.info("%s: %d responses, accuracy %.3f", self.output, len(table), table["correct"].mean())


class ResponseRules(Rules):
    """A job for each checkpoint, prompt format and domain. Factual questions are out of domain for every companion and
    every policy."""

    def rules(self) -> Iterator[Rule]:
        for begin, domain in DOMAINS.items():
            if not (names := self._sets[domain]):
                continue
            job = f"{{algorithm}}-{{step}}-{{prompt_format}}{{sampling}}-{domain}"
            unfinished = results.run_folder("responses", "{backbone}", job)
            yield Rule(
                name=f"{begin}responses",
                make=partial(self._responses, domain),
                places={"output": results.responses_folder(*CELL), "run_folder": unfinished},
                files=[results.responses_file(*CELL, name) for name in names],
                shown=True,
                **self._sampling,
            )

    def _responses(
        self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, sampling: str, **made: str
    ) -> Job:
        study, judged = self.study, domain == "factual"
        generation = study.generation
        if sampling and study.second_sampling:
            generation = generation.model_copy(update=dict(study.second_sampling))
        planned = plan.response_plan(study, backbone, algorithm, int(step), prompt_format, self._sets[domain])
        texts = self._texts(*planned.formats(prompt_format), domain=domain)
        return self._job(
            Responses,
            settings=generation,
            verifier=study.verifier,
            # the judge of factual answers has no part in mathematics, so another one does not touch these files
            judge=study.judge if judged else {"kind": "exact-match"},
            judgements=results.JUDGEMENTS,
            plan=planned,
            prompt_format=prompt_format,
            backbone=backbone,
            algorithm=algorithm,
            step=step,
            prompts=study.prompts,
            checkpoint=results.policy_folder(backbone, algorithm, step),
            questions=results.QUESTIONS,
            texts=f"{texts} {self._judge_texts}" if judged else texts,
            beside=[results.JUDGE] if judged and self.judge_from_hub else [],
            **made,
        )
