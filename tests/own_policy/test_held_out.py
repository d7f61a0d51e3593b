"""The numbers of a model card, recomputed from its held-out rows by code of its own, and what a card says of them."""

import hashlib
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from cocal import Companion
from cocal.config.evaluation import CompanionSettings
from cocal.own_policy.measures import ResponseFacts
from own_rollouts import write_lines

SETTINGS = CompanionSettings(
    targets=("binary",), widths=(16, 8), dropout=(0.1, 0.05), batch_size=32, passes=3, seeds=(42, 137), split_seed=9
)
STEPS, QUESTIONS = 23, 160


@pytest.fixture(scope="module")
def rollouts() -> tuple[pd.DataFrame, np.ndarray]:
    """A table whose steps, groups, lengths, cut shares and accuracies all differ, and states that tell some of it."""
    draw = np.random.default_rng(11)
    rows = []
    for step in range(1, STEPS + 1):
        for question in draw.choice(QUESTIONS, 12 + step % 5, replace=False):
            for _ in range(2 + question % 4):
                cut = draw.random() < 0.5 / step
                correct = not cut and draw.random() < 0.2 + 0.5 * step / STEPS
                length = int(draw.integers(3, 9)) + 2 * (STEPS - step)
                rows.append(
                    {
                        "step": 10 * step,
                        "question": f"what is {question} plus {question % 7}?",
                        "prompt_ids": [5, 6, 7],
                        "response_ids": [8] * length,
                        "truncated": cut,
                        "correct": correct,
                    }
                )
    table = pd.DataFrame(rows)
    states = draw.normal(size=(len(table), 64)).astype(np.float32)
    states[:, 3] += np.where(table["correct"], 0.9, -0.4)
    return table, states


def fitted(policy, rollouts, states) -> Companion:
    return Companion.fit(*policy, rollouts, settings=SETTINGS, states=states, number_format="float32")


def held_out(table: pd.DataFrame) -> np.ndarray:
    """A tenth of the questions, those of the lowest keyed hashes."""
    texts = table["question"].unique()
    keyed = sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=16, key=b"split 9").digest())
    return table["question"].isin(keyed[: round(len(texts) / 10)]).to_numpy()


SHOWN = ("accuracy (%)", "mean confidence", "ECE", "AUROC", "Brier score")


def recomputed(table: pd.DataFrame, confidence: np.ndarray) -> dict[str, float]:
    """The metrics of the card."""
    correct = table["correct"].to_numpy()
    bins = np.clip((confidence * 10).astype(int), 0, 9)
    gaps = [abs(correct[bins == k].sum() - confidence[bins == k].sum()) for k in range(10)]
    ece, auroc = sum(gaps) / len(table), roc_auc_score(correct, confidence)
    brier = brier_score_loss(correct, confidence)
    return dict(zip(SHOWN, (100 * correct.mean(), confidence.mean(), ece, auroc, brier), strict=True))


def sections(card: str) -> dict[str, tuple[str, dict[str, list[str]]]]:
    """The sentence and the rows of numbers below each heading about quality."""
    found = {}
    for part in card.split("\n### ")[1:]:
        title, sentence, *lines = (line for line in part.split("\n## ")[0].splitlines() if line)
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        found[title] = sentence, {name: numbers for name, *numbers in cells if name in SHOWN}
    return found


def assert_shown(section, table, confidence, intervals=True):
    """A section says the numbers of these rows, and how many they are."""
    sentence, shown = section
    cut, questions = 100 * table["truncated"].mean(), table["question"].nunique()
    assert sentence.startswith(f"{len(table)} responses ({cut:.1f} % of them cut at the limit) to {questions} held-out")
    expected = recomputed(table, confidence)
    assert {name: numbers[0] for name, numbers in shown.items()} == {
        name: f"{value:.1f}" if name == "accuracy (%)" else f"{value:.3f}" for name, value in expected.items()
    }
    assert ("give no interval" in sentence) is not intervals
    assert {len(numbers) for numbers in shown.values()} == {2 if intervals else 1}


@pytest.fixture(scope="module")
def companion(micro_policy, rollouts) -> Companion:
    return fitted(micro_policy, *rollouts)


def test_the_card_states_the_last_stage_first_and_all_steps_below(companion, rollouts):
    """The last stage is a tenth of the steps that have held-out questions, rounded up; here two of nineteen."""
    table, states = rollouts
    held = held_out(table)
    steps = table["step"][held].unique()
    assert (len(steps), steps[-1]) == (19, 10 * STEPS)
    last = table["step"] >= steps[-2]
    confidence = companion.score_states(states)
    card = companion.about.card()
    shown = sections(card)
    assert [*shown] == ["Last stage", "All steps"]
    assert_shown(shown["Last stage"], table[held & last], confidence[held & last], intervals=False)
    assert f" of steps {steps[-2]} to {steps[-1]};" in shown["Last stage"][0]
    assert_shown(shown["All steps"], table[held], confidence[held])
    assert f" of steps {steps[0]} to {steps[-1]}." in shown["All steps"][0]
    ece = recomputed(table[held & last], confidence[held & last])["ECE"]
    printed = companion.about.in_words()
    assert re.search(rf"the last stage: .*ECE {ece:.3f}, .*; fewer than 10 questions .* all in all: ", printed)
    facts = companion.about.rollouts
    assert facts.responses == last.sum()
    np.testing.assert_allclose(facts.lengths, table["response_ids"].map(len)[last].quantile([0.25, 0.5, 0.75]))
    assert facts.cut == table["truncated"][last].mean()


def test_intervals_are_those_of_resampled_questions(companion, rollouts):
    table, states = rollouts
    held = held_out(table)
    rows = table[held].assign(confidence=companion.score_states(states)[held])
    groups = [one for _, one in rows.groupby("question")]
    draw = np.random.default_rng(0)
    drawn = [
        np.mean(pd.concat([groups[k] for k in draw.integers(0, len(groups), len(groups))])["correct"])
        for _ in range(600)
    ]
    numbers = {one.metric: one for one in companion.about.held_out_all_steps.metrics}
    found = numbers["accuracy"].lower, numbers["accuracy"].upper
    np.testing.assert_allclose(found, np.quantile(drawn, [0.025, 0.975]), atol=0.015)


def test_rollouts_without_steps_end_in_a_last_stage_too(micro_policy, rollouts):
    """Their order is that of training: the last tenth of the held-out responses."""
    table, states = rollouts
    found = fitted(micro_policy, table.drop(columns="step"), states)
    held = np.flatnonzero(held_out(table))
    last = held[-int(np.ceil(len(held) / 10)) :]
    confidence = found.score_states(states)
    shown = sections(found.about.card())
    assert_shown(shown["Last stage"], table.iloc[last], confidence[last], intervals=False)
    assert_shown(shown["All steps"], table.iloc[held], confidence[held])
    assert not re.search(r"questions? of step", found.about.card())
    assert found.about.rollouts.responses == len(table) - last[0]


def test_a_single_step_is_its_own_last_stage(micro_policy, rollouts):
    table, states = rollouts
    found = fitted(micro_policy, table.assign(step=4), states)
    held = held_out(table)
    shown = sections(found.about.card())
    assert [*shown] == ["All responses"]
    assert_shown(shown["All responses"], table[held], found.score_states(states)[held])
    assert found.about.held_out_all_steps is None


FACTS = ResponseFacts(responses=500, lengths=(210.0, 311.0, 402.0), cut=0.03)


@pytest.mark.parametrize(
    ("lengths", "cut", "words"),
    [
        ([215] * 30, 1, []),
        ([402] * 30, 0, []),
        ([615] * 30, 1, ["a median length of 615 tokens instead of 311 (half of those have 210 to 402)"]),
        ([150] * 30, 1, ["a median length of 150 tokens instead of 311"]),
        ([300] * 40, 9, ["22.5 % of them cut at the limit instead of 3.0 %"]),
        ([700] * 40, 40, ["700 tokens instead of 311", "100.0 % of them cut at the limit instead of 3.0 %"]),
        ([700] * 40, None, ["700 tokens instead of 311"]),
        ([615] * 19, 19, []),
    ],
)
def test_other_responses_than_those_that_were_learnt_from_are_told(lengths, cut, words):
    flags = None if cut is None else np.arange(len(lengths)) < cut
    said = FACTS.difference(ResponseFacts.of(lengths, flags))
    assert (said is None) is not words
    assert all(word in said for word in words)
    assert not words or ("cut at the limit" in said) is any("cut" in word for word in words)


def test_responses_unlike_those_that_were_learnt_from_are_told(tmp_path, capsys, own):
    """All are cut to one token: their length and their share of cut ones are others than the last stage's."""
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts)
    assert own.fit(source, tmp_path / "companion") == 0
    score = partial(own.score, companion=tmp_path / "companion")
    about = Companion.from_pretrained(tmp_path / "companion").about
    last = own.rollouts[own.rollouts["step"] >= about.held_out.steps[0]]
    quartiles = np.quantile(last["response_ids"].map(len), [0.25, 0.5, 0.75])
    assert score(source, tmp_path / "all.jsonl") == 0
    assert "These responses differ" not in capsys.readouterr().out
    short = own.rollouts.assign(response_ids=own.rollouts["response_ids"].map(lambda ids: ids[:1]), truncated=True)
    assert score(write_lines(tmp_path / "short.jsonl", short, own.texts), tmp_path / "out.jsonl") == 0
    low, middle, high = quartiles
    assert (
        f"a median length of 1 tokens instead of {middle:.0f} (half of those have {low:.0f} to {high:.0f}), and 100.0 %"
        f" of them cut at the limit instead of {100 * last['truncated'].mean():.1f} %"
    ) in capsys.readouterr().out
