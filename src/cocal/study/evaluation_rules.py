"""Rules of evaluation responses and of their hidden states."""

from cocal.study import plan, results
from cocal.study.comparisons import samples_of
from cocal.study.given import DOMAINS, Given
from cocal.study.jobs import Job, Rule


class EvaluationRules(Given):
    """Rules of evaluation responses and of their hidden states."""

    @property
    def judge_from_hub(self) -> bool:
        """True if the judge of factual answers has to be downloaded."""
        return self.study.judge.kind == "llm" and not self.study.judge.local

    def _evaluation_rules(self) -> list[Rule]:
        rules, cell = [], ("{backbone}", "{algorithm}", "{step}", "{prompt_format}")
        for begin, domain in DOMAINS.items():
            if names := self._sets[domain]:
                of = {
                    "responses": ([results.responses_file(*cell, name) for name in names], self._responses),
                    "features": ([results.features_file(*cell, name) for name in names], self._features),
                }
                for kind, (files, job) in of.items():
                    one = lambda job=job, domain=domain, **at: job(domain, **at)  # noqa: E731
                    rules.append(Rule(name=f"{begin}{kind}", outputs={"files": files}, job=one))
        if self.judge_from_hub:
            rules.append(Rule(name="judge_checkpoint", outputs={"judge": results.JUDGE}, job=self._judge))
        return rules

    def _judge(self) -> Job:
        judge = self.study.judge
        settings = {"name": judge.checkpoint, "revision": judge.revision}
        return Job(settings=settings, code=self._code("cocal.commands.checkpoints:run_hub", computed=False))

    def _responses(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        study, judged = self.study, domain == "factual"
        planned = plan.response_plan(study, backbone, algorithm, int(step), prompt_format, self._sets[domain])
        inputs = {
            "checkpoint": results.policy_folder(backbone, algorithm, step),
            "questions": self._questions(domain),
            "judge": [results.JUDGE] if judged and self.judge_from_hub else [],
        }
        settings = {
            "settings": study.generation,
            "verifier": study.verifier,
            # the judge of factual answers has no part in mathematics, so another one does not touch these files
            "judge": study.judge if judged else {"kind": "exact-match"},
            "plan": planned,
            "prompt-format": prompt_format,
            "backbone": backbone,
            "algorithm": algorithm,
            "step": step,
            "prompts": study.prompts,
        }
        engines = [study.generation.engine]
        engines += [study.judge.engine] if judged and study.judge.kind == "llm" else []
        texts = self._texts(*planned.formats(prompt_format), domain=domain) + f" {self._judge_texts}" * judged
        return Job(
            inputs=inputs, settings=settings, code=self._engine_code("answers:run_responses", *engines), texts=texts
        )

    def _features(self, domain: str, backbone: str, algorithm: str, step: str, prompt_format: str) -> Job:
        """Hidden states of responses: RLCR's end before its reason, and those whose prompt has a companion have its
        state, too."""
        study, cell = self.study, (backbone, algorithm, int(step))
        inputs = {
            "checkpoint": results.policy_folder(backbone, algorithm, step),
            "responses": [results.responses_file(*cell, prompt_format, name) for name in self._sets[domain]],
        }
        settings = {"settings": plan.feature_settings(study, algorithm, int(step), domain)}
        settings["samples"] = samples_of(study, [domain])
        settings["responses"] = results.responses_folder(*cell, prompt_format)
        if prompt_format == "rlcr":
            settings["task-response"] = True
        elif prompt_format == "answer" and "prompts" in plan.experiences_of(plan.methods_of(study, *cell)):
            settings["prompt"] = True
        return Job(inputs=inputs, settings=settings, code=self._code("cocal.commands.states:run_features"))
