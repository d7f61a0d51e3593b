"""An unfinished `cocal fit` or `cocal score` goes on where everything is as it was, and starts anew where it is not."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cocal import Companion
from cocal.models.loading import load_tokenizer
from cocal.own_policy import fitting, scoring, states
from micro import own_copy
from own_rollouts import read_lines, run, write_lines

FIT = ("--widths", "16", "8", "--seeds", "42", "137", "--passes", "2")
THOUGHT = (
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
)


@pytest.fixture
def model(tmp_path, own):
    return own_copy(own.checkpoint, tmp_path / "model")


@pytest.fixture
def source(tmp_path, own):
    return write_lines(
        tmp_path / "mine.jsonl", own.rollouts, own.texts, other=own.rollouts["correct"].astype(int).tolist()
    )


def other_weights(model, source):
    weights = load_file(model / "model.safetensors")
    save_file({name: 1.01 * array for name, array in weights.items()}, model / "model.safetensors", {"format": "pt"})


def other_template(model, source):
    file = model / "chat_template.jinja"
    file.write_text(file.read_text() + THOUGHT)


def other_rows(model, source):
    lines = read_lines(source)
    lines[3]["prompt_ids"] = lines[4]["prompt_ids"]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))


def killed_at(monkeypatch, owner, name, number, size):
    """The function is killed at its call with that number; the sizes of what all calls are given."""
    real, seen = getattr(owner, name), []

    def killed(*given, **options):
        seen.append(len(given[size]))
        if len(seen) == number:
            raise KeyboardInterrupt
        return real(*given, **options)

    monkeypatch.setattr(owner, name, killed)
    return seen


@pytest.mark.parametrize(
    ("change", "flags", "steps"),
    [
        (None, (), 2),
        (None, ("--seeds", "7"), 2),  # states are the same for all companions
        (other_weights, (), 3),
        (other_template, (), 3),
        (other_rows, (), 3),
        (None, ("--field", "correct=other"), 3),
        (None, ("--correct-above", "0.5"), 3),
        (None, ("--max-response-length", "19"), 3),
        (None, ("--thinking",), 3),
        (None, ("--layer", "0"), 3),
        (None, ("--states", "float32"), 3),
        (None, ("--batch-tokens", "900"), 3),
    ],
)
def test_a_fit_goes_on_only_with_states_of_its_own_inputs(tmp_path, model, source, monkeypatch, change, flags, steps):
    """It is killed in the second of three steps."""
    command = ("fit", "--model", model, "--rollouts", source, "--output", tmp_path / "companion", *FIT)
    seen = killed_at(monkeypatch, fitting, "pooled_states", 2, 2)
    with pytest.raises(KeyboardInterrupt):
        run(*command)
    if change:
        change(model, source)
    assert run(*command, *flags) == 0
    assert seen[2:] == [20] * steps


@pytest.mark.parametrize(
    ("change", "flags", "blocks"),
    [
        (None, (), 4),
        (other_weights, (), 5),
        (other_template, (), 5),
        (other_rows, (), 5),
        (None, ("--companion", "other"), 5),
        (None, ("--field", "group=other"), 5),
        (None, ("--name", "p"), 5),
        (None, ("--target", "binary"), 5),
        (None, ("--seed", "137"), 5),
        (None, ("--max-response-length", "19"), 5),
        (None, ("--batch-tokens", "900"), 5),
    ],
)
def test_scoring_goes_on_only_with_confidences_of_its_own_inputs(
    tmp_path, own, model, source, monkeypatch, change, flags, blocks
):
    """It is killed in the second of five blocks."""
    monkeypatch.setattr(states, "BLOCK", 7)
    monkeypatch.setattr(scoring, "ROWS", 14)
    seen = killed_at(monkeypatch, Companion, "score_encoded", 2, 2)
    command = ("score", "--companion", own.companion, "--model", model, source, tmp_path / "out.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run(*command)
    if change:
        change(model, source)
    if "other" in flags:
        other = Companion.from_pretrained(own.companion)
        next(iter(other.companions.model.parameters())).data.mul_(1.5)
        other.save_pretrained(tmp_path / "other")
        flags = ("--companion", tmp_path / "other")
    assert run(*command, *flags) == 0
    assert seen[2:] == [14, 14, 14, 14, 4][-blocks:]
    assert len(read_lines(tmp_path / "out.jsonl")) == len(own.rollouts)


def test_thinking_mode_goes_from_the_fit_to_the_scores(tmp_path, own, model, source):
    """Chats are rendered as ids of the same template would be, in the mode that the fit was told."""
    other_template(model, source)
    tokenizer = load_tokenizer(model)
    exact, chats = [], []
    for line in read_lines(source):
        chat = [{"role": "user", "content": line["prompt"]}]
        options = {"add_generation_prompt": True, "return_dict": False}
        ids = [tokenizer.apply_chat_template(chat, enable_thinking=on, **options) for on in (True, False)]
        rest = {name: line[name] for name in ("response_ids", "correct", "step", "truncated", "question_id")}
        exact.append([{"prompt": line["prompt"], "prompt_ids": one, **rest} for one in ids])
        chats.append({"messages": chat, **rest})
    files = {"thinking": [one[0] for one in exact], "plain": [one[1] for one in exact], "chats": chats}
    for name, lines in files.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def weights(name, *flags):
        folder = tmp_path / f"{name}{len(flags)}"
        rollouts = tmp_path / f"{name}.jsonl"
        assert run("fit", "--model", model, "--rollouts", rollouts, "--output", folder, *FIT, *flags) == 0
        return (folder / "model.safetensors").read_bytes()

    assert weights("chats", "--thinking") == weights("thinking") != weights("plain") == weights("chats")

    def confidences(name, folder):
        flags = ("--companion", tmp_path / folder, "--model", model)
        output = tmp_path / f"{name}-{folder}.jsonl"
        assert run("score", *flags, tmp_path / f"{name}.jsonl", output, "--name", "p", "--overwrite") == 0
        return np.array([line["p"] for line in read_lines(output)])

    np.testing.assert_array_equal(confidences("chats", "chats1"), confidences("thinking", "chats1"))
    np.testing.assert_array_equal(confidences("chats", "chats0"), confidences("plain", "chats0"))
    assert (confidences("plain", "chats1") != confidences("thinking", "chats1")).mean() > 0.9
