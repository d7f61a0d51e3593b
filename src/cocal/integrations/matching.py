"""Search for the question that a dumped rollout answers, by its id or by its text inside the prompt."""

from collections import defaultdict
from collections.abc import Sequence

import pandas as pd

from cocal.errors import ContractError
from cocal.integrations.sample import Sample
from cocal.questions.build import normalised

_WORDS = 3
"""Number of first words by which questions are looked up, without the last word, which may run into what follows."""


class QuestionIndex:
    """Finds the questions of a set.

    A prompt may hold more than the question, such as a chat template or an instruction. The question that was asked is
    the longest one whose normalised text occurs in the prompt and starts at the beginning of a word.

    Args:
        questions: Table in the contract of cocal.store.contracts.QUESTIONS.
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
        self._known: dict[str, list[int]] = {}

    def find(self, sample: Sample) -> int:
        """Row of the question that a sample answers.

        Raises:
            ContractError: if there is none, or several of the same text with different answers.
        """
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
