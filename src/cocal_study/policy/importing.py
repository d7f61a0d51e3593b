"""Import of another engine's rollouts: samples of dumps become tables, one step after the other."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd

from cocal.answers.judge import Judge
from cocal.engines.engine import Completion
from cocal.errors import ContractError
from cocal.models.loading import Vocabulary
from cocal.models.text import check_tokens, plain_texts
from cocal.rollouts.formats import slime, trl
from cocal.rollouts.recorded import rollout_rows, sampled_rows
from cocal.rollouts.sample import Sample
from cocal.runtime.progress import Progress
from cocal.settings.base import Algorithm
from cocal.store.rows import normalised
from cocal.store.run_folder import RunFolder
from cocal_study.config.policy import PolicySettings
from cocal_study.generation.replay import Rescorer
from cocal_study.policy import jsonl
from cocal_study.policy.objectives import OBJECTIVES, step_rewards
from cocal_study.policy.recorder import Outputs, RolloutRecorder

_WORDS = 3
"""Number of first words by which questions are looked up, without the last word, which may run into what follows."""


class QuestionIndex:
    """Finds the questions of a set (cocal_study.store.contracts.QUESTIONS).

    A prompt may hold more than the question, such as a chat template or an instruction. The question that was asked is
    the longest one whose normalised text occurs in the prompt and starts at the beginning of a word.
    """

    def __init__(self, questions: pd.DataFrame):
        self._place = {name: place for place, name in enumerate(questions["question_id"])}
        self._ids = questions["question_id"].tolist()
        self._golds = [{a, *more} for a, more in zip(questions["answer"], questions["aliases"], strict=True)]
        self._texts: dict[str, list[int]] = defaultdict(list)
        for place, text in enumerate(questions["question"]):
            self._texts[normalised(text)].append(place)
        self._beginnings: dict[str, list[str]] = defaultdict(list)
        for text in self._texts:
            self._beginnings[" ".join(text.split(" ")[:-1][:_WORDS])].append(text)
        self._known: dict[str, Sequence[int]] = {}

    def find(self, sample: Sample) -> int:
        """Row of the question that a sample answers. Raises ContractError if there is none, or several of the same text
        with different answers."""
        if sample.question_id is not None:
            if sample.question_id not in self._place:
                raise ContractError(f"{sample.where}: question {sample.question_id!r} is not in the question set")
            return self._place[sample.question_id]
        prompt = sample.asked
        if prompt is None:
            raise ContractError(f"{sample.where}: names no question; give its question_id, or its text in the prompt")
        if prompt not in self._known:
            self._known = {prompt: self._search(prompt)}  # responses to one question are neighbours
        places = self._known[prompt]
        if not places:
            shown = prompt if len(prompt) <= 80 else prompt[:77] + "..."
            raise ContractError(f"{sample.where}: its prompt holds no question of the question set: {shown!r}")
        if any(self._golds[place] != self._golds[places[0]] for place in places):
            names = ", ".join(self._ids[place] for place in places)
            raise ContractError(f"{sample.where}: {names} are the same text with different answers; give question ids")
        return places[0]

    def _search(self, prompt: str) -> Sequence[int]:
        text = normalised(prompt)
        words = text.split(" ")
        best, at = "", 0
        for place, word in enumerate(words):
            for count in range(_WORDS + 1):
                for question in self._beginnings.get(" ".join(words[place : place + count]), ()):
                    after = text[at + len(question) : at + len(question) + 1]
                    if len(question) > len(best) and text.startswith(question, at) and not after.isalnum():
                        best = question
            at += len(word) + 1
        return self._texts[best] if best else ()


@dataclass(frozen=True)
class StepTables:
    """Makes the tables of the rollout steps of a training."""

    settings: PolicySettings
    algorithm: Algorithm
    questions: pd.DataFrame
    """Training set (cocal_study.store.contracts.QUESTIONS)."""
    vocabulary: Vocabulary
    judge: Judge
    scorer: Rescorer | None = None
    """Computes log-probabilities that a dump lacks; if None, such a dump is refused."""

    @cached_property
    def _index(self) -> QuestionIndex:
        return QuestionIndex(self.questions)

    def table(self, step: int, samples: list[Sample], source: str) -> pd.DataFrame:
        """The rollouts of one step, counted from 1, in the contract of cocal.store.contracts.RESPONSES, group by
        group. Raises ContractError if a sample or a group is invalid, or if responses are left out; the message
        names `source` and the sample.
        """
        groups = self._groups(samples, source)
        samples = [sample for group in groups for sample in group]
        asked = self.questions.iloc[[self._index.find(sample) for sample in samples]]
        ids = asked["question_id"].to_numpy().reshape(len(groups), -1)
        for group, names in zip(groups, ids, strict=True):
            if len({*names}) > 1:
                raise ContractError(f"{group[0].where}: the responses of its group answer different questions")
        ids = [self._checked_ids(sample) for sample in samples]
        prompts, responses = ([pair[k].tolist() for pair in ids] for k in (0, 1))
        logprobs = self._logprobs(step, samples, prompts, responses)
        size = self.settings.responses_per_question
        sampled = sampled_rows(
            [
                Completion(ids, values, "length" if sample.truncated else "stop")
                for ids, values, sample in zip(responses, logprobs, samples, strict=True)
            ],
            plain_texts(self.vocabulary.tokenizer, responses),
            OBJECTIVES[self.algorithm].prompt_format,
            dataset=self.questions["dataset"].iloc[0],
            question_ids=asked["question_id"],
            prompt_ids=prompts,
            group_size=size,
            step=step,
            first=(step - 1) * len(samples),
        )
        golds = [[answer, *more] for answer, more in zip(asked["answer"], asked["aliases"], strict=True)]
        answers = [None if pd.isna(answer) else answer for answer in sampled["answer"]]
        verdicts = self.judge.correct(golds, answers, asked["question"].tolist())
        rewards = step_rewards(self.settings, self.algorithm, verdicts.values, sampled["confidence"].to_numpy())
        return rollout_rows(sampled, verdicts, rewards, size)

    def _groups(self, samples: list[Sample], source: str) -> list[list[Sample]]:
        groups: dict[int | str | None, list[Sample]] = {}
        for sample in samples:
            if sample.left_out:
                raise ContractError(
                    f"{sample.where}: {sample.left_out}; group accuracies need a response in its place: dump the step "
                    "again, or import another training"
                )
            groups.setdefault(sample.group, []).append(sample)
        size, count = self.settings.responses_per_question, self.settings.questions_per_step
        for group in groups.values():
            if len(group) != size:
                raise ContractError(
                    f"{group[0].where}: its group has {len(group)} responses, but policy.responses_per_question is "
                    f"{size}; group accuracies need all of them, before any filtering"
                )
        if len(groups) != count:
            raise ContractError(f"{source}: holds {len(groups)} groups, but policy.questions_per_step is {count}")
        return [*groups.values()]

    def _logprobs(self, step: int, samples: list[Sample], prompts: list, responses: list) -> list[np.ndarray]:
        given = [sample.logprobs for sample in samples if sample.logprobs is not None]
        if len(given) == len(samples):
            return given
        if self.scorer is None:
            without = next(sample for sample in samples if sample.logprobs is None)
            raise ContractError(f"{without.where}: has no log-probabilities; give checkpoints that can compute them")
        return self.scorer(step, prompts, responses)

    def _checked_ids(self, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
        prompt, response = sample.prompt_ids, sample.response_ids
        if prompt is None or response is None:
            raise ContractError(
                f"{sample.where}: holds text without token ids; companions need the exact ids: dump them"
            )
        check_tokens(sample.where, prompt, response, self.vocabulary.vocabulary)
        longest = self.settings.max_response_length[self.algorithm]
        if len(response) > longest:
            raise ContractError(
                f"{sample.where}: response of {len(response)} tokens; "
                f"policy.max_response_length.{self.algorithm} is {longest}"
            )
        if not sample.truncated and int(response[-1]) not in self.vocabulary.ends:
            raise ContractError(
                f"{sample.where}: a complete response ends with token {response[-1]}, not with an end token "
                f"({', '.join(map(str, sorted(self.vocabulary.ends)))}); features need the end token that was generated"
            )
        return prompt, response


FORMATS: dict[str, ModuleType] = {"slime": slime, "trl": trl, "jsonl": jsonl}
"""Module of each dump format: its `files` finds the file of every rollout step, its `read` returns a file's samples."""


def dump_files(format: str, folder: Path, steps: int) -> dict[int, Path]:
    """The dumps of the first `steps` rollout steps of a training by another engine, whose format is one of FORMATS.
    Raises ContractError if one is missing."""
    dumps = FORMATS[format].files(folder)
    for step in range(1, steps + 1):
        if step not in dumps:
            raise ContractError(f"{folder}: no dump of rollout step {step}; steps 1 to {steps} are needed")
    return {step: dumps[step] for step in range(1, steps + 1)}


def import_rollouts(
    format: str, dumps: Mapping[int, Path], tables: StepTables, run: RunFolder, outputs: Outputs
) -> None:
    """Write a table of the dump of each step, `step-00001.parquet` and so on, and publish the tables. A killed import
    resumes. Raises ContractError if a dump is invalid; the message names file and sample."""
    steps, read = len(dumps), FORMATS[format].read
    recorder = RolloutRecorder(run, steps, outputs.attributes)
    todo = recorder.missing()
    progress = Progress("step", steps, done=steps - len(todo))
    with recorder:
        for step in todo:
            path = dumps[step]
            frame = tables.table(step, read(path), str(path))
            recorder.write(frame)
            accuracy, truncated = frame["correct"].mean(), frame["truncated"].mean()
            progress.add(detail=f"accuracy {accuracy:.3f}, truncated {100 * truncated:.1f} %")
    recorder.publish(outputs, items=steps)
