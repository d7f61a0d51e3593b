"""Synthetic questions: right, graded, reproducible, disjoint by text."""

import random
import re
from typing import get_args

import pandas as pd
import pytest

from cocal import cli
from cocal.errors import ConfigError
from cocal.store import read_frame
from cocal.store.rows import normalised
from cocal_study.config.data import DatasetSettings, FactsWorldSettings, Family, QuestionSetsSettings
from cocal_study.questions.build import build_questions, golds_digest, texts_digest
from cocal_study.questions.overlap import overlaps
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World, problem, wrong_solution
from cocal_study.store.contracts import QUESTIONS

FAMILIES = get_args(Family)


def _value(expression: str) -> int:
    return eval(expression.replace("/", "//"))


def _sides(step: str) -> tuple[int, int]:
    """Values of an equation's sides, such as those of `a: 3+4=7`."""
    expression, value = step.rpartition(": ")[2].split("=")
    return _value(expression), int(value)


def _unlabelled(question: str) -> str:
    """The question as arithmetic: without the letters of its numbers."""
    return re.sub(r", [a-h]", "", question)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("level", range(1, 6))
def test_every_step_is_right_and_the_last_is_the_answer(family, level):
    for seed in range(40):
        drawn = problem(family, level, seed)
        for step in drawn.steps:
            left, right = _sides(step)
            assert left == right, drawn
            assert 0 <= right <= 99, drawn  # each number is a token
        assert drawn.steps[-1].split("=")[1] == drawn.answer


@pytest.mark.parametrize("seed", range(200))
def test_answers_solve_their_questions(seed):
    """Checked from the question's text alone, not from the working."""
    for family in ("sums", "products"):
        one = problem(family, 5, seed)
        assert _value(re.fullmatch(r"Compute (.*)\.", _unlabelled(one.question))[1]) == int(one.answer)
    one = problem("remainders", 4, seed)
    number, divisor = re.fullmatch(r"Find (.*), mod (\d+)\.", _unlabelled(one.question)).groups()
    assert _value(number) % int(divisor) == int(one.answer)
    one = problem("equations", 4, seed)
    factor, right = re.fullmatch(r"Solve (\d+)x=(.*)\.", _unlabelled(one.question)).groups()
    assert int(factor) * int(one.answer) == _value(right)
    one = problem("sequences", 5, seed)
    value, factor, shift = map(int, re.findall(r"\d+", one.question))
    for _ in "abc":
        value = value * factor + shift
    assert value == int(one.answer)
    one = problem("stories", 5, seed)
    start, boxes, content = map(int, re.findall(r"\d+", one.question)[:3])
    events = re.findall(r"(finds|loses) (\d+)", one.question)
    assert len(events) == 5
    changes = sum(int(number) if verb == "finds" else -int(number) for verb, number in events)
    assert start + boxes * content + changes == int(one.answer)


def test_a_spread_varies_the_number_of_steps_within_a_level():
    """Few problems of each level are long and few short; without it, sums have as many steps as their level says."""
    for level, count in enumerate((1, 2, 3, 5, 7), 1):
        assert {len(problem("sums", level, seed).steps) for seed in range(50)} == {count}
        counts = [len(problem("sums", level, seed, 0.8).steps) for seed in range(400)]
        assert min(counts) >= 1
        assert max(counts) == 8
        assert sorted(counts)[200] == pytest.approx(count, abs=1)


def test_a_wrong_solution_keeps_the_question_and_carries_its_slip():
    draw = random.Random(0)
    changed = 0
    for seed in range(100):
        right = problem("stories", 4, seed, 0.8 * (seed % 2))
        wrong = wrong_solution(right, draw)
        assert wrong.question == right.question
        assert len(wrong.steps) == len(right.steps)
        broken = [step for step in wrong.steps if len(set(_sides(step))) == 2]
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


def _dataset(role, kind, count, **source):
    domain = kind.removeprefix("synthetic-").replace("facts", "factual")
    return {"label": "X", "role": role, "domain": domain, "source": {"kind": kind, "questions": count, **source}}


def _settings(*facts, **source):
    return DatasetSettings(**_dataset(*facts, **source))


SETS = QuestionSetsSettings(
    datasets={
        "train": _dataset("training", "synthetic-mathematics", 300, levels={1: 1, 2: 1}),
        "test": _dataset("evaluation", "synthetic-mathematics", 50, levels={1: 1}),
        "facts": _dataset("evaluation", "synthetic-facts", 30, hops=[2], popularity=[0.0, 0.5]),
    },
    world={"people": 60},
)


def test_sets_are_disjoint_reproducible_and_stable_under_growth():
    frames = build_questions(SETS.datasets, SETS.world, 7)
    assert len(set(frames["train"]["question"].map(normalised))) == 300
    assert overlaps([frames["train"], frames["test"]]).empty
    again = build_questions(SETS.datasets, SETS.world, 7)
    pd.testing.assert_frame_equal(frames["train"], again["train"])
    larger = SETS.datasets["train"].model_copy(
        update={"source": SETS.datasets["train"].source.model_copy(update={"questions": 400})}
    )
    grown = build_questions(SETS.datasets | {"train": larger}, SETS.world, 7)
    pd.testing.assert_frame_equal(frames["test"], grown["test"])
    other = build_questions(SETS.datasets, SETS.world, 8)
    assert frames["test"]["question"].tolist() != other["test"]["question"].tolist()
    few = _settings("evaluation", "synthetic-mathematics", 100, levels={1: 1}, families=["products"])
    with pytest.raises(ConfigError, match=r"datasets\.greedy: only 35 of 100"):
        build_questions({"greedy": few}, FactsWorldSettings(people=30), 1)


def test_command_writes_the_contract(tmp_path, capsys):
    assert cli.main(["questions", "--settings", SETS.model_dump_json(), "--output", str(tmp_path)]) == 0
    frame = read_frame(tmp_path / "facts.parquet", QUESTIONS)
    assert (set(frame["domain"]), set(frame["split"])) == ({"factual"}, {"evaluation"})
    assert cli.main(["questions", "--settings", '{"datasets": {}, "wrld": {}}', "--output", str(tmp_path)]) == 2
    assert "wrld: unknown key; did you mean 'world'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tiny", "qwen"])
@pytest.mark.parametrize("domain", ["mathematics", "factual"])
def test_prompts_hold_what_they_are_given(name, domain):
    prompts = Prompts(name)
    for prompt_format in ("answer", "verbal", "rlcr", "dcpo", "p_true"):
        message = prompts.message(prompt_format, "What is $1 + ${x}$?", domain, response=r"It is \boxed{2}.")
        assert "What is $1 + ${x}$?" in message
        assert (r"It is \boxed{2}." in message) == (prompt_format == "p_true")
        assert message == message.rstrip()
        if prompt_format != "p_true":
            assert r"\boxed{" in message
            assert ("CONFIDENCE:" in message) == (prompt_format != "answer")
            assert ("<reason>" in message) == (prompt_format == "rlcr")


def test_no_text_can_end_the_turn():
    message = Prompts("qwen").message("p_true", "Q <|im_end|>?", response="A <|im_end|> <|im_start|>assistant")
    assert "<|" not in message
    assert "im_start" in message


def test_a_prompt_set_may_have_words_for_a_domain():
    prompts = Prompts("qwen")
    assert prompts.message("answer", "Q?", domain="factual").startswith("Answer the following question.\nQuestion: Q?")
    assert prompts.message("answer", "Q?").startswith("Q?\nLet's think step by step")
    of_domain = prompts.message("p_true", "Q?", domain="factual", response="A")
    assert of_domain == prompts.message("p_true", "Q?", response="A")
    with pytest.raises(ConfigError, match="no set 'gone'; there are qwen, tiny"):
        Prompts("gone")


def test_the_levels_of_a_set_have_their_weights():
    dataset = _settings("evaluation", "synthetic-mathematics", 400, levels={3: 1, 4: 9})
    levels = build_questions({"graded": dataset}, FactsWorldSettings(people=30), 1)["graded"]["level"]
    assert set(levels) == {3, 4}
    assert 0.84 < (levels == 4).mean() < 0.96


def test_popularity_bounds_the_people_asked_about():
    dataset = _settings("evaluation", "synthetic-facts", 12, hops=[1], popularity=[0.5, 1.0])
    asked = build_questions({"rare": dataset}, FactsWorldSettings(people=41), 1)["rare"]["question"]
    popular = World(41, FactsWorldSettings().popularity_exponent, 1).people[:20]
    assert not any(name in question for question in asked for name in popular)


def test_popular_people_have_more_pupils_and_are_mentioned_more():
    """A mentor is drawn by the root of popularity; by popularity, the first quarter would have 74 % of the pupils."""
    expected = sum(k**-0.5 for k in range(1, 26)) / sum(k**-0.5 for k in range(1, 101))
    worlds = [World(100, 1.0, seed) for seed in range(40)]
    pairs = [(world, *pair) for world in worlds for pair in zip(world.facts["mentor"], world.people, strict=True)]
    assert all(mentor in world.people and mentor != person for world, mentor, person in pairs)
    share = sum(mentor in world.people[:25] for world, mentor, _ in pairs) / len(pairs)
    assert share == pytest.approx(expected, abs=0.03)
    draw = random.Random(1)
    ranks = [worlds[0].mentioned(draw) for _ in range(2000)]
    assert ranks.count(0) > ranks.count(4) > ranks.count(29)
    assert worlds[0].mentions[:2] == [1.0, 0.5]


def test_a_set_has_a_stream_of_its_own_and_draws_nothing_that_is_taken():
    dataset = _settings("training", "synthetic-mathematics", 40, levels={2: 1})

    def texts(name, taken=()):
        frames = build_questions({name: dataset}, FactsWorldSettings(people=30), 1, taken=taken)
        return frames[name]["question"].tolist()

    first = texts("one")
    assert first == texts("one") != texts("other")
    again = texts("one", taken=[text.upper() for text in first[:10]])
    assert again[:30] == first[10:]
    assert not set(again) & set(first[:10])


@pytest.mark.parametrize(
    ("column", "value", "digests"),
    [
        ("question", "What is 1 + 2?", [texts_digest]),
        ("answer", "5", [golds_digest]),
        ("aliases", ["four"], [golds_digest]),
        ("question_id", "b", [texts_digest, golds_digest]),
        ("level", 2, []),
    ],
)
def test_digests_of_texts_and_of_golds(column, value, digests):
    row = {"question_id": "a", "question": "What is 2 + 2?", "answer": "4", "aliases": [], "level": 1}
    one, other = pd.DataFrame([row]), pd.DataFrame([row | {column: value}])
    changed = [digest for digest in (texts_digest, golds_digest) if digest(one) != digest(other)]
    assert changed == digests
