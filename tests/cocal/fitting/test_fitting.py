"""`cocal fit`: what is learnt from, what its card says, how a killed fit goes on."""

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from huggingface_hub import ModelCard

from cocal import Companion
from cocal.commands.catalogue.own import OWN
from cocal.companion.settings import CompanionSettings
from cocal.fitting import fit as fitting
from cocal.fitting.held_out import ResponseStatistics
from golden import assert_golden
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
                asked = f"what is {question} plus {question % 7}?"
                rows.append((10 * step, asked, [5, 6, 7], [8] * length, cut, correct))
    names = ["step", "question", "prompt_ids", "response_ids", "truncated", "correct"]
    table = pd.DataFrame(rows, columns=names)
    states = draw.normal(size=(len(table), 64)).astype(np.float32)
    states[:, 3] += np.where(table["correct"], 0.9, -0.4)
    return table, states


def fitted(policy, rollouts, states) -> Companion:
    reading = fitting.Reading(ignored=("prompt",))  # ids of no question
    how = {"settings": SETTINGS, "states": states, "number_format": "float32"}
    return Companion.fit(*policy, rollouts, reading=reading, **how)


@pytest.fixture(scope="module")
def companion(micro_policy, rollouts) -> Companion:
    return fitted(micro_policy, *rollouts)


def test_the_card_states_the_last_stage_first_and_all_steps_below(companion, micro_policy, rollouts):
    """The file was compared with the metrics of the held-out rows by hand: of the last stage, a tenth of the steps that
    have held-out questions (here two of nineteen), of all steps, and apart of those that were cut. Without steps the
    last stage is the last tenth of the held-out responses, and a single step is its own; of these without tables."""
    table, states = rollouts
    given = {"steps": companion, "no steps": fitted(micro_policy, table.drop(columns="step"), states)}
    given["one step"] = fitted(micro_policy, table.assign(step=4), states)
    said = []
    for name, one in given.items():
        quality = one.config.card().partition("\n### ")[2].partition("\n## ")[0]
        shown = [line for line in quality.splitlines() if name == "steps" or line[:1] not in ("", "|")]
        said += [f"{name}: {one.config.rollouts}", *one.config.summary().splitlines(), *shown]
    assert_golden(Path(__file__).with_name("cards.txt"), said)


def test_the_hub_reads_the_licence_of_the_card(companion):
    config = companion.config.model_copy(update={"license": "apache-2.0"})
    assert ModelCard(config.card()).data.license == "apache-2.0"
    assert "```\npip install .\n```" in config.card()
    assert "Its licence is apache-2.0." in config.card()


FACTS = ResponseStatistics(responses=500, lengths=(210.0, 311.0, 402.0), truncated=0.03)


@pytest.mark.parametrize(
    ("lengths", "cut", "words"),
    [
        ([215] * 30, 1, []),
        ([402] * 30, 0, []),
        ([615] * 30, 1, ["a median length of 615 tokens instead of 311 (half of those have 210 to 402)"]),
        ([150] * 30, 1, ["a median length of 150 tokens instead of 311"]),
        ([300] * 40, 9, ["22.5 % of them cut at the limit instead of 3.0 %"]),
        ([700] * 40, 40, ["700 tokens instead of 311", "100.0 % of them cut at the limit instead of 3.0 %"]),
        ([700] * 40, None, ["700 tokens instead of 311", "nothing that says which were cut at the limit"]),
        ([615] * 19, 19, []),
    ],
)
def test_other_responses_than_those_that_were_learnt_from_are_told(lengths, cut, words):
    flags = None if cut is None else np.arange(len(lengths)) < cut
    said = FACTS.difference(ResponseStatistics.of(lengths, flags))
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
        (None, ("--ignore", "markers"), 3),
        (None, ("--layer", "0"), 3),
        (None, ("--states", "float32"), 3),
        (None, ("--batch-tokens", "900"), 3),
    ],
)
def test_a_fit_goes_on_only_with_states_of_its_own_inputs(tmp_path, own, monkeypatch, capsys, change, flags, steps):
    """It is killed in the second of three steps."""
    model = own_copy(own.checkpoint, tmp_path / "model")
    other = own.rollouts["correct"].astype(int).tolist()
    source = write_lines(tmp_path / "mine.jsonl", own.rollouts, own.texts, other=other)
    whole, companion = tmp_path / "whole", tmp_path / "companion"
    command = ("fit", "--model", model, "--rollouts", source, *SMALL)
    if not (change or flags):
        assert run(*command, "--output", whole) == 0
    seen = killed_at(monkeypatch, fitting, "pooled_states", 2, 2)
    assert run(*command, "--output", companion) == 130
    assert capsys.readouterr().err.splitlines()[-1] == ("cocal fit: interrupted; the same command goes on from here")
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
    assert "none of the fields correct, reward is there" in capsys.readouterr().err
    assert fit(source, "--field", "correct=verdict") == 0
    assert "verdict as correct" in capsys.readouterr().out
    refused = {"x=verdict": "no such meaning", "correct=no": "no such field"}
    for words, message in refused.items():
        assert fit(source, "--field", words, to="refused") == 2
        assert message in capsys.readouterr().err


def test_rewards_need_a_threshold_unless_they_are_of_two_kinds(tmp_path, capsys, fit, source):
    rows = read_lines(source)

    def rewarded(right, wrong):
        labelled = ((row, right if row.pop("correct") else wrong) for row in map(dict, rows))
        return lines(source, *(row | {"reward": reward} for row, reward in labelled))

    assert fit(rewarded(0.7, 0.1)) == 2
    assert "is neither 1 (correct) nor 0 (wrong), and so are 60 of 60; say from where on" in capsys.readouterr().err
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
