"""Rules of evaluation responses and of their states, with a job for each checkpoint, prompt format and domain."""

# pyright: reportArgumentType=false
# Pydantic makes the fields of stages from the texts of paths and from plain mappings.

from functools import partial
from typing import Any, cast

from cocal_study.config.evaluation import LlmJudgeSettings
from cocal_study.planning import plan, results
from cocal_study.planning.comparisons import samples_of
from cocal_study.stages.backbones import Hub
from cocal_study.stages.jobs import DOMAINS, Job, Rule, Rules
from cocal_study.stages.responses import Responses
from cocal_study.stages.states import Features


class EvaluationRules(Rules):
    """Factual questions are out of domain for every companion and every policy."""

    @property
    def judge_from_hub(self) -> bool:
        """True if the judge of factual answers has to be downloaded."""
        return self.study.judge.kind == "llm" and not self.study.judge.local

    def _evaluation_rules(self) -> list[Rule]:
        rules, cell = [], ("{backbone}", "{algorithm}", "{step}", "{prompt_format}")
        for begin, domain in DOMAINS.items():
            if names := self._sets[domain]:
                kept = {"output_kept": results.kept_folder(*cell, domain)}
                kept = kept if self.study.features.source == "engine" else {}
                job = f"{{algorithm}}-{{step}}-{{prompt_format}}-{domain}"
                sampled = Rule(
                    name=f"{begin}responses",
                    make=partial(self._responses, domain),
                    places={
                        "output": results.responses_folder(*cell),
                        "run_folder": results.run_folder("responses", "{backbone}", job),
                        **kept,
                    },
                    files=[*(results.responses_file(*cell, name) for name in names), *kept.values()],
                    shown=True,
                    **self._sampling,
                )
                read = Rule(
                    name=f"{begin}features",
                    make=partial(self._features, domain),
                    places={"output": results.features_folder(*cell)},
                    files=[results.features_file(*cell, name) for name in names],
                    shown=True,
                    gpus=1,
                )
                rules += [sampled, read]
        if self.judge_from_hub:
            rules.append(Rule(name="judge_checkpoint", make=self._judge, places={"output": results.JUDGE}, local=True))
        return rules

    def _judge(self, **made: str) -> Job:
        judge = cast(LlmJudgeSettings, self.study.judge)
        return self._job(Hub(name=judge.checkpoint, revision=judge.revision, **made))

    def _responses(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, **made: str) -> Job:
        study, judged = self.study, domain == "factual"
        planned = plan.response_plan(study, backbone, algorithm, int(step), prompt_format, self._sets[domain])
        cell, read = (backbone, algorithm, int(step), prompt_format), {}
        if study.features.source == "engine" and plan.reads_states(study, *cell):
            read = {"features": plan.feature_settings(study, algorithm, int(step), domain), **self._read_parts(*cell)}
        stage = Responses(
            settings=study.generation,
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
            **read,
            **made,
        )
        texts = self._texts(*planned.formats(prompt_format), domain=domain) + f" {self._judge_texts}" * judged
        return self._job(stage, texts=texts, beside=[results.JUDGE] if judged and self.judge_from_hub else [])

    def _features(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, **made: str) -> Job:
        """Hidden states of responses: RLCR's end before its reason, and those whose prompt has a companion have its
        state, too."""
        study, cell = self.study, (backbone, algorithm, int(step), prompt_format)
        kept = {"kept": results.kept_folder(*cell, domain)} if study.features.source == "engine" else {}
        stage = Features(
            settings=plan.feature_settings(study, algorithm, int(step), domain),
            samples=samples_of(study, [domain]),
            responses=results.responses_folder(*cell),
            checkpoint=results.policy_folder(backbone, algorithm, step),
            **kept,
            **self._read_parts(*cell),
            **made,
        )
        return self._job(stage)

    def _read_parts(self, backbone: str, algorithm: str, step: int, prompt_format: str) -> dict[str, Any]:
        """What is read of responses in this format."""
        if prompt_format == "rlcr":
            return {"task_response": True}
        experiences = plan.experiences_of(plan.methods_of(self.study, backbone, algorithm, step))
        return {"prompt": True} if prompt_format == "answer" and "prompts" in experiences else {}
