"""Conversion of a dump's samples into a table of rollouts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from cocal.answers.judge import Judge, Verdicts
from cocal.config.policy import Algorithm, PolicySettings
from cocal.errors import ContractError
from cocal.generation.engine import Completion
from cocal.generation.rows import sampled_rows
from cocal.integrations.matching import QuestionIndex
from cocal.integrations.sample import Sample
from cocal.models.loading import Vocabulary
from cocal.models.text import chat_ids, check_tokens, plain_texts
from cocal.policy.objectives import PROMPT_FORMATS, step_rewards
from cocal.policy.recorder import rollout_rows
from cocal.questions.prompts import Prompts

Scorer = Callable[[int, list[Sequence[int]], list[Sequence[int]]], list[np.ndarray]]
"""Function from rollout step, prompt ids and response ids to each response's log-probabilities, float32 (length,)."""


class StepTables:
    """Makes the tables of rollout steps.

    Args:
        settings: Settings of the training that made the rollouts.
        algorithm: Algorithm of that training.
        questions: Training set (cocal.store.contracts.QUESTIONS).
        vocabulary: Vocabulary of the policy.
        judge: Judge of correctness; if None, the dump's reward is the correctness.
        scorer: Computes log-probabilities that a dump lacks; if None, such a dump is refused.
        prompts: Prompt set for tokenising a dump that has only text; if None, such a dump is refused.
    """

    def __init__(
        self,
        settings: PolicySettings,
        algorithm: Algorithm,
        *,
        questions: pd.DataFrame,
        vocabulary: Vocabulary,
        judge: Judge | None,
        scorer: Scorer | None = None,
        prompts: Prompts | None = None,
    ):
        self._settings = settings
        self._algorithm = algorithm
        self._questions = questions
        self._golds = [[a, *more] for a, more in zip(questions["answer"], questions["aliases"], strict=True)]
        self._index = QuestionIndex(questions)
        self._vocabulary = vocabulary
        self._judge = judge
        self._scorer = scorer
        self._prompts = prompts

    def table(self, step: int, samples: list[Sample], source: str) -> pd.DataFrame:
        """The rollouts of one step in the contract of cocal.store.contracts.RESPONSES, group by group.

        Group accuracies need whole groups, so a dump that leaves responses out is refused.

        Args:
            step: Rollout step, counted from 1.
            samples: Samples of the step's dump.
            source: File name for error messages.

        Raises:
            ContractError: if a sample or a group is invalid; the message names file and sample.
        """
        settings = self._settings
        size = settings.responses_per_question
        places: dict[int | str, list[Sample]] = {}
        for sample in samples:
            if sample.left_out:
                raise ContractError(
                    f"{sample.where}: {sample.left_out}; group accuracies need a response in its place: dump the step "
                    "again, or import another training"
                )
            places.setdefault(sample.group, []).append(sample)
        for group in places.values():
            if len(group) != size:
                raise ContractError(
                    f"{group[0].where}: its group has {len(group)} responses, but policy.responses_per_question is "
                    f"{size}; group accuracies need all of them, before any filtering"
                )
        if len(places) != settings.questions_per_step:
            raise ContractError(
                f"{source}: holds {len(places)} groups, but policy.questions_per_step is {settings.questions_per_step}"
            )
        samples = [sample for group in places.values() for sample in group]
        asked = [self._index.find(sample) for sample in samples]
        for first in range(0, len(asked), size):
            if len({*asked[first : first + size]}) > 1:
                raise ContractError(f"{samples[first].where}: the responses of its group answer different questions")
        if samples[0].response_ids is None:
            samples = self._tokenised(samples, asked)
        for sample in samples:
            self._check_ids(sample)
        return self._rows(step, samples, asked)

    def _rows(self, step: int, samples: list[Sample], asked: list[int]) -> pd.DataFrame:
        tokenizer, settings = self._vocabulary.tokenizer, self._settings
        texts = plain_texts(tokenizer, [sample.response_ids.tolist() for sample in samples])
        completions = [
            Completion(sample.response_ids.tolist(), values, "length" if sample.truncated else "stop")
            for sample, values in zip(samples, self._logprobs(step, samples), strict=True)
        ]
        sampled = sampled_rows(
            completions,
            texts,
            PROMPT_FORMATS[self._algorithm],
            dataset=self._questions["dataset"].iloc[0],
            question_ids=self._questions["question_id"].iloc[asked],
            prompt_ids=[sample.prompt_ids.tolist() for sample in samples],
            group_size=settings.responses_per_question,
            step=step,
            first=(step - 1) * len(samples),
        )
        verdicts = self._verdicts(samples, asked, sampled["answer"])
        rewards = step_rewards(settings, self._algorithm, verdicts.values, sampled["confidence"].to_numpy())
        return rollout_rows(sampled, verdicts, rewards, settings.responses_per_question)

    def _verdicts(self, samples: list[Sample], asked: list[int], answers: pd.Series) -> Verdicts:
        if self._judge is not None:
            questions = self._questions["question"].iloc[asked].tolist()
            given = [None if pd.isna(answer) else answer for answer in answers]
            return self._judge.correct([self._golds[place] for place in asked], given, questions)
        for sample in samples:
            if sample.reward not in (0.0, 1.0):
                raise ContractError(f"{sample.where}: reward {sample.reward} is neither 1 (correct) nor 0 (wrong)")
        return Verdicts(np.array([sample.reward == 1.0 for sample in samples]), np.ones(len(samples), dtype=bool))

    def _logprobs(self, step: int, samples: list[Sample]) -> list[np.ndarray]:
        without = next((sample for sample in samples if sample.logprobs is None), None)
        if without is None:
            return [sample.logprobs for sample in samples]
        if self._scorer is None:
            raise ContractError(f"{without.where}: has no log-probabilities; give checkpoints that can compute them")
        return self._scorer(
            step, [sample.prompt_ids.tolist() for sample in samples], [s.response_ids.tolist() for s in samples]
        )

    def _tokenised(self, samples: list[Sample], asked: list[int]) -> list[Sample]:
        """Tokenise samples of text: with prompts from the prompt set, and an end token unless the response is cut."""
        if self._prompts is None:
            raise ContractError(
                f"{samples[0].where}: holds text without token ids; companions need the exact ids. Dump the ids, or "
                "have the text tokenised again (--tokenise), knowing that the ids may not be those that were sampled"
            )
        prompt_format, limit = PROMPT_FORMATS[self._algorithm], self._settings.max_response_length[self._algorithm]
        tokenizer = self._vocabulary.tokenizer
        questions = self._questions["question"].iloc[asked]
        prompts = chat_ids(tokenizer, [self._prompts.message(prompt_format, question) for question in questions])
        found = tokenizer([sample.text for sample in samples], add_special_tokens=False)["input_ids"]
        tokenised = []
        for sample, prompt, text in zip(samples, prompts, found, strict=True):
            truncated = len(text) >= limit
            ids = text[:limit] if truncated else [*text, tokenizer.eos_token_id]
            tokenised.append(
                replace(sample, prompt_ids=np.array(prompt), response_ids=np.array(ids), truncated=truncated)
            )
        return tokenised

    def _check_ids(self, sample: Sample) -> None:
        check_tokens(sample.where, sample.prompt_ids, sample.response_ids, self._vocabulary.size)
        limit = self._settings.max_response_length[self._algorithm]
        if len(sample.response_ids) > limit:
            raise ContractError(
                f"{sample.where}: response of {len(sample.response_ids)} tokens; "
                f"policy.max_response_length.{self._algorithm} is {limit}"
            )
        if not sample.truncated and int(sample.response_ids[-1]) not in (ends := self._vocabulary.ends):
            raise ContractError(
                f"{sample.where}: a complete response ends with token {sample.response_ids[-1]}, not with an end token "
                f"({', '.join(map(str, sorted(ends)))}); features need the end token that was generated"
            )
