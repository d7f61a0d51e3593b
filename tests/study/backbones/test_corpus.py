"""The pre-training corpus: no evaluation question, many wordings, and nothing that tells right from wrong."""

import random
import re

import numpy as np
import pandas as pd
import pytest

from cocal.store.rows import normalised
from cocal_study.backbones.pretraining import CorpusWriter, Wording
from cocal_study.config.backbone import CorpusSettings, WordingSettings
from cocal_study.config.data import QuestionSetsSettings
from cocal_study.questions.build import build_questions
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World

MATHEMATICS = {"label": "E", "role": "evaluation", "domain": "mathematics"}
FACTS = {"label": "F", "role": "evaluation", "domain": "factual"}
SETS = QuestionSetsSettings(
    datasets={
        "test": MATHEMATICS | {"source": {"kind": "synthetic-mathematics", "questions": 50, "levels": {1: 1}}},
        "facts": FACTS | {"source": {"kind": "synthetic-facts", "questions": 30, "hops": [2]}},
    },
    world={"people": 60},
)


def written(informed):
    """Questions that are held out, and documents of a corpus."""
    sets = build_questions(SETS.datasets, SETS.world, 7)
    held_out = pd.concat([sets[name]["question"] for name in ("test", "facts")])
    world = World(60, 1.0, 7)
    writer = CorpusWriter(CorpusSettings(informed=informed), Prompts("tiny"), world, held_out, seed=3)
    return held_out, [writer.document() for _ in range(4000)]


@pytest.fixture(scope="module")
def documents():
    return written(0.0)


def test_corpus_holds_no_evaluation_question(documents):
    held_out, written = documents
    text = {normalised(document.message.splitlines()[0]) for document in written}
    assert not text & set(held_out.map(normalised))


def _equations(response: str) -> list[tuple[int, int]]:
    """Values of both sides of each step, whatever its wording."""
    found = re.findall(r"(-?\d+[-+*/]-?\d+)(?:=| is | gives | makes | equals )(-?\d+)", response)
    return [(eval(left.replace("/", "//")), int(right)) for left, right in found]


def test_the_wording_says_nothing_about_correctness(documents):
    """Neither the length nor the number of remarks and paraphrases tells a wrong solution from a right one."""
    rows = []
    for document in documents[1]:
        steps = _equations(document.response)
        if len(steps) == 3 and "Proposed" not in document.message:
            worked = document.response.partition(r"\boxed")[0]
            rows.append((all(left == right for left, right in steps), len(worked.split()), worked.count(".\n")))
    frame = pd.DataFrame(rows, columns=["right", "words", "paraphrased"])
    assert (~frame["right"]).sum() > 40
    means, spread = frame.groupby("right").mean(), frame.std()
    assert (means.loc[True] - means.loc[False]).abs().le(0.35 * spread[means.columns]).all()


def test_a_solution_has_many_wordings():
    steps, settings = ("3*4=12", "a: 12+7=19"), WordingSettings(paraphrases=0.5, remarks=0.2)
    wording = Wording(settings, random.Random(1))
    drawn = [wording.solution(steps, "19") for _ in range(300)]
    assert len(set(drawn)) > 250
    assert all(text.startswith("Let ") and text.endswith(r"\boxed{19}") for text in drawn)
    assert all(sorted(left for left, _ in _equations(text)) == [12, 19] for text in drawn)
    assert 0.1 < sum("7+12" in text for text in drawn) / 300 < 0.4  # the order of the operands varies
    assert max(map(len, drawn)) > 2 * min(map(len, drawn))
    assert wording.solution((), "19") == r"\boxed{19}"
    plain = Wording(WordingSettings(paraphrases=0, remarks=0), random.Random(1)).solution(("12-7=5",), "5")
    assert plain.partition("\n")[2] == "12-7=5\n\\boxed{5}"


def _stated(documents, long=0):
    """Confidences after right and after wrong solutions of more steps than `long`."""
    stated = {True: [], False: []}
    for document in documents:
        match = re.search(r"CONFIDENCE: (\S+)$", document.response)
        steps = _equations(document.response)
        if match and len(steps) > long:
            stated[all(left == right for left, right in steps)].append(float(match[1]))
    return stated


def test_corpus_confidences_say_nothing_about_correctness(documents):
    """Verbalised confidences are over-confident and random, unless some are told to be informed."""
    stated = _stated(documents[1])
    assert len(stated[False]) > 50
    means = {right: sum(values) / len(values) for right, values in stated.items()}
    assert abs(means[True] - means[False]) < 0.04
    assert means[False] > 0.6  # far above any accuracy


def test_a_share_of_the_confidences_tells_what_is_easy_and_right():
    _, found = written(0.6)
    stated = _stated(found)
    doubted = {right: np.mean([0.5 <= value <= 0.9 for value in values]) for right, values in stated.items()}
    assert 0.6 < doubted[False] < 0.75, "the share, and the tenths that are drawn at random"
    long = _stated(found, long=4)[True]
    assert 0.6 < np.mean([0.5 <= value <= 0.9 for value in long]) < 0.75, "long solutions are not easy"
    assert doubted[True] < 0.45
    assert min(map(min, stated.values())) < 0.3, "the others are drawn at random"
