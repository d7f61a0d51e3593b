"""`cocal fit`: what is learnt from, what its card says (recomputed by code of its own), how a killed fit goes on."""

import argparse
import hashlib
import re

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import ModelCard
from sklearn.metrics import brier_score_loss, roc_auc_score

from cocal import Companion
from cocal.commands.catalogue.own import OWN
from cocal.companion.settings import CompanionSettings
from cocal.own_policy import fitting
from cocal.own_policy.facts import ResponseFacts
from hand_rows import lines
from micro import own_copy
from own_rollouts import CHANGES, SMALL, killed_at, read_lines, run, write_lines

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


APART = ("Responses that ended, of all steps", "Responses that were cut, of all steps")
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
    assert [*shown] == ["Last stage", "All steps", *APART]
    assert_shown(shown["Last stage"], table[held & last], confidence[held & last], intervals=False)
    assert f" of steps {steps[-2]} to {steps[-1]};" in shown["Last stage"][0]
    assert_shown(shown["All steps"], table[held], confidence[held])
    assert f" of steps {steps[0]} to {steps[-1]}." in shown["All steps"][0]
    for title, part in zip(APART, (~table["truncated"], table["truncated"]), strict=True):
        rows = held & part.to_numpy()
        if title == APART[0]:
            assert_shown(shown[title], table[rows], confidence[rows])
        assert shown[title][0].startswith(f"{rows.sum()} responses ")
    ece = recomputed(table[held & last], confidence[held & last])["ECE"]
    printed = companion.about.in_words()
    assert re.search(rf"the last stage: .*ECE {ece:.3f}, .*; fewer than 10 questions .* all in all: ", printed)
    facts = companion.about.rollouts
    assert facts.responses == last.sum()
    np.testing.assert_allclose(facts.lengths, table["response_ids"].map(len)[last].quantile([0.25, 0.5, 0.75]))
    assert facts.cut == table["truncated"][last].mean()


def test_the_hub_reads_licence_and_metrics_of_the_card(companion):
    """What the Hub's own client reads back is what was measured, less the accuracy, which is the base model's."""
    about = companion.about.model_copy(update={"license": "apache-2.0"})
    read = ModelCard(about.card()).data
    assert (read.license, read.model_name) == ("apache-2.0", f"Companion of {about.base_model.name}")
    found = {(one.dataset_split, one.metric_type): one.metric_value for one in read.eval_results}
    stages = {"last stage": about.held_out, "all steps": about.held_out_all_steps}
    assert found == {
        (stage, one.metric): one.value
        for stage, quality in stages.items()
        for one in quality.metrics
        if one.metric in ("mean_confidence", "ece", "auroc", "brier")
    }
    assert "```\npip install .\n```" in about.card()
    assert "Its licence is apache-2.0." in about.card()


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
    assert [*shown] == ["All responses", *APART]
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


@pytest.mark.parametrize(
    ("change", "flags", "steps"),
    [
        (None, (), 2),
        (None, ("--seeds", "7"), 2),  # states are the same for all companions
        *((name, (), 3) for name in CHANGES),
        (None, ("--field", "correct=other"), 3),
        (None, ("--correct-above", "0.5"), 3),
        (None, ("--max-response-length", "19"), 3),
        (None, ("--thinking",), 3),
        (None, ("--layer", "0"), 3),
        (None, ("--states", "float32"), 3),
        (None, ("--batch-tokens", "900"), 3),
    ],
)
def test_a_fit_goes_on_only_with_states_of_its_own_inputs(tmp_path, own, monkeypatch, change, flags, steps):
    """It is killed in the second of three steps."""
    model = own_copy(own.checkpoint, tmp_path / "model")
    other = own.rollouts["correct"].astype(int).tolist()
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts, other=other)
    whole, companion = tmp_path / "whole", tmp_path / "companion"
    command = ("fit", "--model", model, "--rollouts", source, *SMALL)
    if not (change or flags):
        assert run(*command, "--output", whole) == 0
    seen = killed_at(monkeypatch, fitting, "pooled_states", 2, 2)
    with pytest.raises(KeyboardInterrupt):
        run(*command, "--output", companion)
    if change:
        CHANGES[change](model, source)
    assert run(*command, "--output", companion, *flags) == 0
    assert seen[2:] == [20] * steps
    if whole.exists():
        assert (companion / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_steps_may_lie_in_any_order(tmp_path, own, fit, source):
    """Responses are learnt in the order of their steps."""
    assert fit(source, to="in order") == 0
    later_first = pd.concat([own.rollouts[own.rollouts["step"] == step] for step in (3, 1, 2)])
    assert fit(write_lines(source, later_first, own.texts)) == 0
    weights = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("in order", "companion")]
    assert weights[0] == weights[1]


def test_a_field_of_another_name_is_mapped(capsys, fit, source):
    lines(source, *(row | {"verdict": int(row.pop("correct"))} for row in read_lines(source)))
    assert fit(source) == 2
    assert "no field is a label (correct, reward)" in capsys.readouterr().err
    assert fit(source, "--field", "correct=verdict") == 0
    assert "verdict as correct" in capsys.readouterr().out
    refused = {"x=verdict": "no such meaning", "correct=no": "no such field", "a": "not MEANING=NAME"}
    for words, message in refused.items():
        assert fit(source, "--field", words) == 2
        assert message in capsys.readouterr().err


def test_rewards_need_a_threshold_unless_they_are_of_two_kinds(tmp_path, capsys, fit, source):
    rows = read_lines(source)

    def rewarded(right, wrong):
        labelled = ((row, right if row.pop("correct") else wrong) for row in map(dict, rows))
        return lines(source, *(row | {"reward": reward} for row, reward in labelled))

    assert fit(rewarded(0.7, 0.1)) == 2
    assert "is neither 1 (correct) nor -1 (wrong), and so are 60 of 60; say from where on" in capsys.readouterr().err
    assert fit(source, "--correct-above", "0.5", to="above") == 0
    assert fit(rewarded(1, -1)) == 0
    weights = [(tmp_path / folder / "model.safetensors").read_bytes() for folder in ("above", "companion")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("rows", "flags"),
    [(slice(0, 4), ()), (slice(0, 60), ("--max-response-length", "1")), (slice(0, 60), ("--field", "correct=no"))],
)
def test_advice_about_few_rollouts_names_flags_that_exist(capsys, fit, source, rows, flags):
    """One question, none complete, all wrong; nothing is computed before."""
    few = read_lines(source)[rows]
    for place, row in enumerate(few):
        row |= {"correct": place % 2 == 0, "response_ids": [7, 7], "no": False}
        del row["truncated"]
    assert fit(lines(source, *few), *flags) == 2
    parser = argparse.ArgumentParser()
    OWN["fit"].add_to(parser)
    named = {*re.findall(r"--[a-z][a-z-]+", capsys.readouterr().err)}
    assert named
    assert named <= {*parser._option_string_actions}
