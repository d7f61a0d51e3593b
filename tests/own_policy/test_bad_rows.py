"""Bad rollouts, responses, models and companions: one sentence names file, row and remedy."""

import json

import pytest

from own_rollouts import read_lines, write_lines


@pytest.fixture
def rollouts(own):
    return own.rollouts


@pytest.fixture
def texts(own):
    return own.texts


@pytest.fixture
def fit(tmp_path, own):
    return lambda rollouts, *more: own.fit(rollouts, tmp_path / "companion", *more)


@pytest.fixture
def score(tmp_path, own):
    return lambda source, *more, **given: own.score(source, tmp_path / "scored.jsonl", *more, **given)


def without(name):
    return lambda line: {key: value for key, value in line.items() if key != name}


def changed(**values):
    return lambda line: line | values


BAD_ROWS = {
    "no response": (without("response_ids"), "line 3: the response (response_ids) is missing, empty or no text"),
    "no tokens": (changed(response_ids=[]), "line 3: field 'response_ids' is empty"),
    "no prompt": (
        lambda line: without("prompt")(without("prompt_ids")(line)),
        "line 3: the prompt (prompt, prompt_ids) is missing, empty or no text; correct or delete the row",
    ),
    "an id beyond the vocabulary": (
        changed(response_ids=[3, 99999]),
        "line 3: response token 1 is 99999, outside the model's vocabulary of 384; give the model that",
    ),
    "no label": (without("correct"), "line 3: the response has no label; give `correct` or a reward"),
    "a label that is none": (changed(correct=0.4), "line 3: field 'correct' is 0.4, neither true nor false"),
    "no step": (without("step"), "line 3: the row has no step, but others have one; add it, or leave out all steps"),
    "a step that is none": (changed(step="two"), "line 3: field 'step' is 'two', not the number of a rollout step"),
    "text for a list": (changed(prompt_ids="1 2"), "line 3: field 'prompt_ids' is not a list of token ids"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_bad_row_of_rollouts_is_named(name, tmp_path, capsys, fit, rollouts, texts):
    change, message = BAD_ROWS[name]
    source = write_lines(tmp_path / "mine.jsonl", rollouts, texts)
    lines = read_lines(source)
    lines[2] = change(lines[2])
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert fit(source) == 2
    (error,) = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert f"{source}: {message}" in error


@pytest.mark.parametrize("name", ["no response", "no tokens", "no prompt", "an id beyond the vocabulary"])
def test_a_bad_row_of_responses_is_named(name, tmp_path, capsys, score, rollouts, texts):
    change, message = BAD_ROWS[name]
    source = write_lines(tmp_path / "in.jsonl", rollouts, texts)
    lines = read_lines(source)
    lines[2] = change(lines[2])
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert score(source) == 2
    assert f"{source}: {message}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; give a file with a JSON object in every line"),
        ("\n \n", "the file is empty"),
        ("{half\n", "line 1: not JSON"),
        ("[1]\n", "line 1: not a JSON object with fields"),
        ('{"text": "a"}\n', "line 1: no field is a prompt (prompt, messages, input, prompt_ids); its fields are text"),
    ],
)
def test_a_bad_file_is_named(tmp_path, capsys, score, fit, text, message):
    source = tmp_path / "in.jsonl"
    source.write_text(text)
    for command in (score, fit):
        assert command(source) == 2
        assert f"{source}: {message}" in capsys.readouterr().err


def test_labels_of_one_class_are_refused(tmp_path, capsys, fit, rollouts, texts):
    source = write_lines(tmp_path / "mine.jsonl", rollouts.assign(correct=True), texts)
    assert fit(source) == 2
    assert f"{source}: line 1: all 60 responses are correct; a companion learns from both" in capsys.readouterr().err


def test_rewards_need_a_threshold_unless_they_are_of_two_kinds(tmp_path, capsys, fit, rollouts, texts):
    lines = read_lines(write_lines(tmp_path / "mine.jsonl", rollouts, texts))
    source = tmp_path / "mine.jsonl"

    def write(reward):
        rows = [without("correct")(line) | {"reward": reward(line["correct"])} for line in lines]
        source.write_text("".join(json.dumps(row) + "\n" for row in rows))

    write(lambda correct: 0.7 if correct else 0.1)
    assert fit(source) == 2
    assert "is neither 1 (correct) nor -1 (wrong), and so are 60 of 60; say from where on" in capsys.readouterr().err
    assert fit(source, "--correct-above", "0.5") == 0
    weights = (tmp_path / "companion/model.safetensors").read_bytes()
    write(lambda correct: 1 if correct else -1)
    assert fit(source) == 0
    assert (tmp_path / "companion/model.safetensors").read_bytes() == weights


def test_a_folder_without_rollouts_names_those_within(tmp_path, capsys, fit, own):
    (tmp_path / "run/dump").mkdir(parents=True)
    assert fit(tmp_path / "run") == 2
    assert "the folder holds no rollouts (*.jsonl, *.parquet, *.pt)" in capsys.readouterr().err
    (tmp_path / "run/dump/1.jsonl").write_text("{}")
    assert fit(tmp_path / "run") == 2
    assert "there are some in dump" in capsys.readouterr().err
    assert fit(tmp_path / "nowhere") == 2
    assert "there is no such file or folder of rollouts" in capsys.readouterr().err


def test_a_scored_file_is_not_scored_again(tmp_path, capsys, score, rollouts, texts):
    source = write_lines(tmp_path / "in.jsonl", rollouts, texts, confidence=[0.5] * len(rollouts))
    assert score(source) == 2
    assert "line 1: there is a field 'confidence' already; give the confidences another name (--name)" in (
        capsys.readouterr().err
    )
    assert score(source, "--name", "companion") == 0


def test_another_model_or_none_is_refused(tmp_path, capsys, score, rollouts, texts, own):
    source = write_lines(tmp_path / "in.jsonl", rollouts, texts)
    assert score(source, model="/nowhere/model") == 2
    assert "/nowhere/model: there is no such folder of a model" in capsys.readouterr().err
    assert score(source, companion="/nowhere/companion") == 2
    assert "make one by `cocal fit`" in capsys.readouterr().err
