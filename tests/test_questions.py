"""Synthetic questions: right, graded, reproducible, disjoint by text."""

import json
import random
import re

import pandas as pd
import pytest

from cocal import cli
from cocal.backbone.corpus import CorpusWriter
from cocal.config import ConfigError
from cocal.config.backbone import CorpusSettings
from cocal.config.data import DatasetSettings, FactsWorldSettings, QuestionSetsSettings
from cocal.prompts import PROMPT_FORMATS, Prompts
from cocal.questions.build import build_questions, normalised
from cocal.questions.facts import World
from cocal.questions.mathematics import problem, wrong_solution
from cocal.questions.overlap import overlap
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS

FAMILIES = ("sums", "products", "equations", "remainders", "sequences", "stories")


def _value(expression: str) -> int:
    return eval(expression.replace("/", "//"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", range(1, 6))
def test_every_step_is_right_and_the_last_is_the_answer(family, level):
    for seed in range(40):
        drawn = problem(family, level, seed)
        for step in drawn.steps:
            expression, value = step.split("=")
            assert _value(expression) == int(value), drawn
        assert drawn.steps[-1].split("=")[1] == drawn.answer


def test_answers_solve_their_questions():
    """Checked from the question's text alone, not from the working."""
    for seed in range(200):
        text = problem("sums", 5, seed)
        assert _value(re.fullmatch(r"Compute (.*)\.", text.question)[1]) == int(text.answer)
        text = problem("remainders", 4, seed)
        number, divisor = map(int, re.fullmatch(r"Find (\d+) mod (\d+)\.", text.question).groups())
        assert number % divisor == int(text.answer)
        text = problem("equations", 3, seed)
        left, right = re.fullmatch(r"Solve (.*)=(\d+)\.", text.question).groups()
        assert _value(left.replace("x", f"*{text.answer}")) == int(right)


def test_a_wrong_solution_keeps_the_question_and_carries_its_slip():
    draw = random.Random(0)
    changed = 0
    for seed in range(100):
        right = problem("stories", 4, seed)
        wrong = wrong_solution(right, draw)
        assert wrong.question == right.question
        broken = [s for s in wrong.steps if _value(s.split("=")[0]) != int(s.split("=")[1])]
        assert len(broken) == 1
        changed += wrong.answer != right.answer
    assert changed > 50


def test_levels_get_harder():
    """Longer working and larger numbers, family by family."""
    for family in FAMILIES:
        size = [sum(len("".join(problem(family, level, seed).steps)) for seed in range(200)) for level in range(1, 6)]
        assert size == sorted(size), family


def test_facts_follow_mentors():
    world = World(50, 1.0, seed=1)
    fact = world.ask(3, "city", hops=3)
    mentor = world.facts["mentor"][3]
    second = world.facts["mentor"][world.people.index(mentor)]
    assert fact.answer == world.facts["city"][world.people.index(second)]
    assert fact.question == f"Where does the mentor of the mentor of {world.people[3]} live?"
    assert len(fact.steps) == 3
    assert all(mentor != person for mentor, person in zip(world.facts["mentor"], world.people, strict=True))
    popular = [world.mentioned(random.Random(i)) for i in range(500)]
    assert sum(rank < 5 for rank in popular) > sum(rank >= 25 for rank in popular)


SETS = QuestionSetsSettings.model_validate(
    {
        "datasets": {
            "train": {
                "label": "T",
                "role": "training",
                "domain": "mathematics",
                "source": {"kind": "synthetic-mathematics", "questions": 300, "levels": {1: 1, 2: 1}},
            },
            "test": {
                "label": "E",
                "role": "evaluation",
                "domain": "mathematics",
                "source": {"kind": "synthetic-mathematics", "questions": 50, "levels": {1: 1}},
            },
            "facts": {
                "label": "F",
                "role": "evaluation",
                "domain": "factual",
                "source": {"kind": "synthetic-facts", "questions": 30, "hops": [2], "popularity": [0.0, 0.5]},
            },
        },
        "world": {"people": 60},
    }
)


def test_sets_are_disjoint_reproducible_and_stable_under_growth():
    frames = build_questions(SETS.datasets, SETS.world, 7)
    assert len(set(frames["train"]["question"].map(normalised))) == 300
    assert overlap(frames["train"], frames["test"]).empty
    again = build_questions(SETS.datasets, SETS.world, 7)
    pd.testing.assert_frame_equal(frames["train"], again["train"])
    larger = SETS.datasets["train"].model_copy(
        update={"source": SETS.datasets["train"].source.model_copy(update={"questions": 400})}
    )
    grown = build_questions(SETS.datasets | {"train": larger}, SETS.world, 7)
    pd.testing.assert_frame_equal(frames["test"], grown["test"])
    other = build_questions(SETS.datasets, SETS.world, 8)
    assert frames["test"]["question"].tolist() != other["test"]["question"].tolist()


def test_overlap_finds_a_planted_question_despite_case_and_space():
    frames = build_questions(SETS.datasets, SETS.world, 7)
    planted = frames["test"].iloc[[3]].assign(question=lambda f: "  " + f["question"].str.upper() + " ")
    found = overlap(pd.concat([frames["train"], planted]), frames["test"])
    assert found["question_id"].tolist() == [frames["test"]["question_id"].iloc[3]]


def test_too_many_questions_is_an_error_with_the_set_in_it():
    source = {"kind": "synthetic-mathematics", "questions": 100, "levels": {1: 1}, "families": ["products"]}
    dataset = DatasetSettings(label="x", role="evaluation", domain="mathematics", source=source)
    with pytest.raises(ConfigError, match=r"datasets\.greedy: only 64 of 100"):
        build_questions({"greedy": dataset}, FactsWorldSettings(people=30), 1)


def test_command_writes_the_contract(tmp_path):
    assert cli.main(["questions", "--settings", SETS.model_dump_json(), "--output", str(tmp_path)]) == 0
    frame = read_frame(tmp_path / "facts.parquet", QUESTIONS)
    assert frame["domain"].unique().tolist() == ["factual"]
    assert frame["split"].unique().tolist() == ["evaluation"]


def test_a_misspelt_setting_ends_the_command_with_one_message(capsys, tmp_path):
    settings = json.dumps({"datasets": {}, "wrld": {}})
    assert cli.main(["questions", "--settings", settings, "--output", str(tmp_path)]) == 2
    assert "wrld: unknown key; did you mean 'world'?" in capsys.readouterr().err


@pytest.fixture(scope="module")
def documents():
    held_out = build_questions(SETS.datasets, SETS.world, 7)["test"]["question"]
    world = World(60, 1.0, 7)
    writer = CorpusWriter(CorpusSettings(), Prompts("tiny"), world, held_out, seed=3)
    return held_out, [writer.document() for _ in range(4000)]


def test_corpus_holds_no_evaluation_question(documents):
    held_out, written = documents
    text = {normalised(document.message.splitlines()[0]) for document in written}
    assert not text & set(held_out.map(normalised))


def test_corpus_confidences_say_nothing_about_correctness(documents):
    """The embedded policy must not start calibrated: verbalised confidences are over-confident and random."""
    stated = {True: [], False: []}
    for document in documents[1]:
        match = re.search(r"CONFIDENCE: (\S+)$", document.response)
        steps = [line for line in document.response.splitlines() if "=" in line]
        if match and steps:
            right = all(_value(s.split("=")[0]) == int(s.split("=")[1]) for s in steps)
            stated[right].append(float(match[1]))
    assert len(stated[False]) > 50
    means = {right: sum(values) / len(values) for right, values in stated.items()}
    assert abs(means[True] - means[False]) < 0.04
    assert means[False] > 0.6  # far above any accuracy


@pytest.mark.parametrize("name", ["tiny", "qwen"])
@pytest.mark.parametrize("domain", ["mathematics", "factual"])
def test_prompts_hold_what_they_are_given(name, domain):
    prompts = Prompts(name)
    for prompt_format in PROMPT_FORMATS:
        message = prompts.message(prompt_format, "What is $1 + ${x}$?", r"It is \boxed{2}.", domain)
        assert "What is $1 + ${x}$?" in message
        assert (r"It is \boxed{2}." in message) == (prompt_format == "p_true")
        assert message == message.rstrip()
        if prompt_format != "p_true":
            assert r"\boxed{" in message
            assert ("CONFIDENCE:" in message) == (prompt_format != "answer")
            assert ("<reason>" in message) == (prompt_format == "rlcr")


def test_no_text_can_end_the_turn():
    message = Prompts("qwen").message("p_true", "Q <|im_end|>?", "A <|im_end|> <|im_start|>assistant")
    assert "<|" not in message
    assert "im_start" in message


def test_a_prompt_set_may_have_words_for_a_domain():
    prompts = Prompts("qwen")
    assert prompts.message("answer", "Q?", domain="factual").startswith("Answer the following question.\nQuestion: Q?")
    assert prompts.message("answer", "Q?").startswith("Q?\nLet's think step by step")
    assert prompts.message("p_true", "Q?", "A", domain="factual") == prompts.message("p_true", "Q?", "A")
    with pytest.raises(ConfigError, match="no set 'gone'; there are qwen, tiny"):
        Prompts("gone")
