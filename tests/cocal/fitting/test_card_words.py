"""Every number in the prose of a card is the one that its words name."""

import re

import numpy as np
import pytest

from cocal import Companion, __version__
from cocal.companion.settings import CompanionSettings
from cocal.fitting.quality import measured

SETTINGS = CompanionSettings(targets=("binary",), widths=(8,), dropout=(), passes=2, seeds=(42, 137, 500))


@pytest.fixture(scope="module")
def rollouts(table):
    """Rollouts with ten questions in the held-out part, some cut responses right, and no two of their counts equal."""
    rows = table.copy()
    cut = np.flatnonzero(rows["truncated"].to_numpy())
    rows.loc[cut[::4], "correct"] = True
    return rows


@pytest.mark.parametrize(("recipe", "cut"), [("best", "as-labelled"), ("best", "wrong"), ("paper", "leave-out")])
def test_the_prose_of_a_card_prints_the_cells_that_its_words_name(micro_policy, rollouts, recipe, cut):
    found = Companion.fit(
        *micro_policy, rollouts, recipe=recipe, truncated=cut, settings=SETTINGS, base_model="/me/run/step-7"
    )
    config, card = found.config, found.config.card()
    truncated, correct = rollouts["truncated"].to_numpy(), rollouts["correct"].to_numpy()
    label = correct & ~truncated if cut == "wrong" else correct
    spec = config.spec
    assert f"{spec.training_responses:,} responses" in card
    wrong = float(re.search(r"of which ([\d.]+) % are wrong", card)[1])
    if recipe == "best":
        assert spec.training_responses == len(rollouts)
        assert wrong == pytest.approx(100 * (1 - label.mean()), abs=0.06)
        assert abs(wrong - 50) > 1, "the share of right ones is another"
    else:
        counts = spec.training_responses, spec.validation_responses
        assert sum(counts) == (~truncated).sum()
        assert counts[0] != counts[1]
        assert f"(on {counts[1]:,} responses to other questions)" in card
        assert f"{spec.settings.passes} passes" in card
    words = {"as-labelled": "keep the verifier's labels", "wrong": "count as wrong", "leave-out": "take no part"}
    assert f"cut at the limit {words[cut]}." in card
    assert "# Companion of step-7\n" in card
    assert "/me/run" not in card
    assert f"{len(spec.settings.seeds)} seeds" in card or len(spec.settings.seeds) == 1
    base, block = micro_policy.model.config, "reads block {} (counted from 0)"
    widths = f"{base.num_hidden_layers} blocks, states of width {base.hidden_size}, {base.vocab_size:,} tokens"
    assert f"`step-7`: {base.model_type}, {widths}. The companion {block.format(base.num_hidden_layers - 1)}" in card
    assert f"responses of rollout steps up to {rollouts['step'].max()}, of which" in card
    assert f" wrong, in chronological order; responses that were cut at the limit {words[cut]}." in card
    assert f"CoCal {__version__} made this companion" in card
    assert re.search(r"\d seeds? \([\d, ]+\) for each target \(binary\)", card)
    if recipe == "best":
        assert [f"{one.brier:.4f}" for one in config.tried] == sorted(re.findall(r"\| (0\.\d{4}) +\|", card))
        assert len(config.tried) > 1
    else:
        assert "; the mean of 3 seeds, target binary." in card
    if recipe == "best":
        whole = config.held_out_all_steps
        assert whole.responses == len(rollouts)
        assert (
            config.held_out_complete.responses
            == (~truncated).sum()
            != truncated.sum()
            == config.held_out_truncated.responses
        )
        assert (config.held_out_complete.truncated, config.held_out_truncated.truncated) == (0, 1)
        accuracy = {
            "held_out_all_steps": label,
            "held_out_complete": label[~truncated],
            "held_out_truncated": label[truncated],
        }
        for name, labels in accuracy.items():
            value = next(one.value for one in getattr(config, name).metrics if one.metric == "accuracy")
            assert value == pytest.approx(labels.mean())


@pytest.mark.parametrize(("questions", "interval"), [(9, False), (10, True)])
def test_ten_questions_give_an_interval_and_nine_do_not(questions, interval):
    draw = np.random.default_rng(3)
    found = measured(np.arange(60) % questions, draw.random(60), draw.random(60) < 0.5).set_index("metric")
    assert bool(found.loc["brier", ["lower", "upper"]].notna().all()) is interval
