"""prime-rl's traces: exact ids out of trees of messages, and what is left out or refused."""

import json
from pathlib import Path

import pytest

from cocal.errors import ConfigError, ContractError
from cocal.rollouts.formats import prime_rl
from dumps import write_episodes
from hand_rows import noted, samples


@pytest.fixture
def folder(tmp_path, own) -> Path:
    return write_episodes(tmp_path, own.rollouts)


def change(folder: Path, edit) -> Path:
    """The file of the first step, the first episode of which is edited."""
    file = folder / "rollouts/step_1/train/all/traces.jsonl"
    first, *others = file.read_text().splitlines()
    episode = json.loads(first)
    edit(episode)
    file.write_text("\n".join([json.dumps(episode), *others]) + "\n")
    return file


def test_every_response_has_its_exact_ids_and_label(folder, own):
    found, notes = noted(folder)
    assert [sample.step for sample in found] == own.rollouts["step"].tolist()
    assert [sample.prompt_ids.tolist() for sample in found] == [list(ids) for ids in own.rollouts["prompt_ids"]]
    assert [sample.response_ids.tolist() for sample in found] == [list(ids) for ids in own.rollouts["response_ids"]]
    assert [sample.truncated for sample in found] == own.rollouts["truncated"].tolist()
    assert [sample.reward for sample in found] == own.rollouts["correct"].astype(float).tolist()
    assert [sample.question_id for sample in found] == own.rollouts["question_id"].tolist()
    assert len({sample.group for sample in found}) == own.rollouts.groupby("step")["question_id"].nunique().sum()
    assert not notes


def test_all_episodes_are_read_and_those_of_evaluations_are_not(folder, own):
    whole = len(samples(folder))
    write_episodes(folder, own.rollouts[own.rollouts["step"] == 1].iloc[:4], "effective")
    evaluated = folder / "rollouts/step_4/eval/all/traces.jsonl"
    evaluated.parent.mkdir(parents=True)
    evaluated.write_text("{}\n")
    assert len(samples(folder)) == len(samples(folder / "rollouts")) == whole
    effective = folder / "rollouts/step_1/train/effective/traces.jsonl"
    assert [sample.step for sample in samples(effective)] == [1] * 4, "a file that is named is read"
    (folder / "rollouts/step_1/train/all/traces.jsonl").unlink()
    assert len(samples(folder)) == whole - (own.rollouts["step"] == 1).sum() + 4


def test_the_response_is_that_of_its_path_through_the_tree(folder, own):
    """Another message before the question belongs to another path."""

    def insert(episode):
        trace = episode["traces"][0]
        question, answer = trace["nodes"]
        other = {"message": {"role": "system", "content": "x"}, "token_ids": [7, 8], "mask": [False] * 2}
        trace["nodes"] = [other, question, answer | {"parent": 1}]

    change(folder, insert)
    first, *_ = samples(folder)
    assert first.prompt_ids.tolist() == list(own.rollouts["prompt_ids"].iloc[0])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda e: e["traces"][0].update(ok=False), "it ended in an error"),
        (lambda e: e["traces"][0]["agent"].update(trainable=False), "its agent is not trained"),
        (lambda e: e["traces"][0]["nodes"].append(e["traces"][0]["nodes"][1]), "it has several turns or none"),
    ],
)
def test_what_is_no_response_of_the_policy_is_left_out_and_counted(folder, own, edit, said):
    change(folder, edit)
    found, notes = noted(folder)
    assert len(found) == len(own.rollouts) - 1
    assert notes == [f"1 row left out: {said}"]


@pytest.mark.parametrize(
    ("edit", "cut"),
    [
        (lambda t: t.update(stop_condition="max_total_tokens"), True),
        (lambda t: t["calls"][0].update(finish_reason="length"), True),
        (lambda t: t["calls"].append({"finish_reason": "length", "error": {"type": "x", "message": "y"}}), False),
        (lambda t: t.update(calls=[]), False),
    ],
)
def test_a_response_was_cut_as_verifiers_says(folder, edit, cut):
    change(folder, lambda episode: episode["traces"][0]["calls"][0].update(finish_reason="stop"))
    change(folder, lambda episode: edit(episode["traces"][0]))
    assert samples(folder)[0].truncated == cut


def test_rewards_are_summed_by_their_weights_or_named(folder):
    parts = {"correct": {"score": 1.0, "weight": 0.5}, "form": {"score": 1.0, "weight": 0.25}, "failed": None}
    file = change(folder, lambda episode: episode["traces"][0].update(rewards=parts))
    assert samples(file)[0].reward == 0.75
    assert next(prime_rl.read(file, "form")).reward == 1.0
    change(folder, lambda episode: episode["traces"][0].update(rewards={}))
    assert samples(file)[0].reward is None


def _nodes(episode) -> list[dict]:
    return episode["traces"][0]["nodes"]


BROKEN = {
    "no ids": (lambda e: [n.update(token_ids=[], mask=[]) for n in _nodes(e)], "field 'mask' does not split 0 tokens"),
    "a short mask": (lambda e: _nodes(e)[1]["mask"].pop(), "field 'mask' does not split"),
    "a gap": (lambda e: _nodes(e)[1]["mask"].__setitem__(-1, False), "field 'mask' does not split"),
    "no prompt": (lambda e: _nodes(e)[1].update(parent=None, token_ids=[5], mask=[True]), "'mask' does not split"),
    "a circle": (lambda e: _nodes(e)[0].update(parent=1), "the parent of message 0 is 1, not an earlier message"),
    "no score": (
        lambda e: e["traces"][0]["rewards"]["correct"].update(score=None),
        "trace 0: reward 'correct' has no score; the rewards are correct: name one by --field reward=NAME",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_trace_is_named(folder, name):
    edit, message = BROKEN[name]
    file = change(folder, edit)
    with pytest.raises(ContractError) as caught:
        samples(folder)
    assert str(caught.value).startswith(f"{file}: line 1")
    assert message in str(caught.value)


def test_only_the_reward_has_a_name_of_its_own(folder):
    assert samples(folder, reward="correct")[0].reward is not None
    with pytest.raises(ContractError, match="reward 'none' has no score; the rewards are correct"):
        samples(folder, reward="none")
    with pytest.raises(ConfigError, match="prime-rl's traces have fields of their own; only that of the label"):
        samples(folder, response="text")
