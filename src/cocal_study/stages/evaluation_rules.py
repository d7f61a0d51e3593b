"""Rules of evaluation responses and of their states, with a job for each checkpoint, prompt format and domain."""

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
        rules, cell = [], ("{backbone}", "{algorithm}", "{step}", "{prompt_format}{sampling}")
        for begin, domain in DOMAINS.items():
            if not (names := self._sets[domain]):
                continue
            job = f"{{algorithm}}-{{step}}-{{prompt_format}}{{sampling}}-{domain}"
            places = {"output": results.responses_folder(*cell)}
            places["run_folder"] = results.run_folder("responses", "{backbone}", job)
            files = [results.responses_file(*cell, name) for name in names]
            if self.study.features.source == "engine":
                places["output_kept"] = results.kept_folder(*cell, domain)
                files.append(places["output_kept"])
            made: dict[str, Any] = {"places": places, "files": files, "shown": True}
            rules.append(
                Rule(name=f"{begin}responses", make=partial(self._responses, domain), **made, **self._sampling)
            )
            made["places"] = {"output": results.features_folder(*cell)}
            made["files"] = [results.features_file(*cell, name) for name in names]
            rules.append(Rule(name=f"{begin}features", make=partial(self._features, domain), **made, gpus=1))
        if self.judge_from_hub:
            rules.append(Rule(name="judge_checkpoint", make=self._judge, places={"output": results.JUDGE}, local=True))
        return rules

    def _judge(self, **made: str) -> Job:
        judge = cast(LlmJudgeSettings, self.study.judge)
        return self._job(Hub, name=judge.checkpoint, revision=judge.revision, **made)

    def _responses(
        self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, sampling: str, **made: str
    ) -> Job:
        study, judged = self.study, domain == "factual"
        cell, read = (backbone, algorithm, int(step), prompt_format), {}
        generation = study.generation
        if sampling and study.second_sampling:
            generation = generation.model_copy(update=dict(study.second_sampling))
        planned = plan.response_plan(study, *cell, self._sets[domain])
        if study.features.source == "engine" and plan.reads_states(study, *cell):
            read = {"features": plan.feature_settings(study, algorithm, int(step), domain), **self._read_parts(*cell)}
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
            **read,
            **made,
        )

    def _features(
        self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str, sampling: str, **made: str
    ) -> Job:
        """Hidden states of responses: RLCR's end before its reason, and those whose prompt has a companion have its
        state, too."""
        study, cell = self.study, (backbone, algorithm, int(step), prompt_format)
        place = (*cell[:-1], prompt_format + sampling)
        kept = {"kept": results.kept_folder(*place, domain)} if study.features.source == "engine" else {}
        settings = plan.feature_settings(study, algorithm, int(step), domain)
        return self._job(
            Features,
            settings=settings.model_copy(update={"layers": "final"}) if sampling else settings,
            samples=samples_of(study, [domain]),
            responses=results.responses_folder(*place),
            checkpoint=results.policy_folder(backbone, algorithm, step),
            **kept,
            **self._read_parts(*cell),
            **made,
        )

    def _read_parts(self, backbone: str, algorithm: str, step: int, prompt_format: str) -> dict[str, Any]:
        """What is read of responses in this format."""
        if prompt_format == "rlcr":
            return {"task_response": True}
        experiences = plan.experiences_of(plan.methods_of(self.study, backbone, algorithm, step))
        return {"prompt": True} if prompt_format == "answer" and "prompts" in experiences else {}
