"""Rollout dumps of other engines: the same rows as our own, or an error that names file, sample and field."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import dumps
from cocal.cli import main
from cocal.errors import ContractError
from cocal.rollouts.formats import slime
from cocal.rollouts.sample import Sample
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.policy import importing
from cocal_study.policy.importing import QuestionIndex
from cocal_study.store.contracts import QUESTIONS


@pytest.fixture(scope="module")
def rollouts(own) -> pd.DataFrame:
    return own.rollouts


@pytest.fixture
def slime_dumps(tmp_path, own) -> Path:
    """The rollouts as slime's dumps."""
    return dumps.write_slime(tmp_path / "dumps", own.rollouts, own.policy.tokenizer)


def edited(file: Path, edit) -> None:
    """Change the samples of one of slime's dumps."""
    content = torch.load(file, weights_only=True)
    content["samples"] = edit(content["samples"]) or content["samples"]
    torch.save(content, file)


@pytest.fixture
def run(tmp_path, own, micro_checkpoint):
    """`cocal import-rollouts` with golds that the micro policy sometimes gives; returns the exit code."""
    questions = tmp_path / "micro-train.parquet"
    write_frame(questions, own.questions, QUESTIONS, {})

    def start(name, folder, *more):
        command = ["import-rollouts", "--settings", dumps.SETTINGS.model_dump_json(), "--algorithm", "grpo"]
        command += ["--format", name, "--dumps", folder, "--questions", questions, "--policy", micro_checkpoint]
        command += ["--run-folder", tmp_path / "run", "--output", tmp_path / "rollouts", *more]
        return main([str(word) for word in command])

    return start


def same(found: pd.DataFrame, expected: pd.DataFrame, but: tuple[str, ...] = ()) -> None:
    pd.testing.assert_frame_equal(
        found.drop(columns=list(but)), RESPONSES.check(expected, "expected").drop(columns=list(but)), check_dtype=False
    )


@pytest.mark.parametrize("name", ["slime", "jsonl", "trl"])
def test_a_dump_gives_the_rows_that_our_own_engine_records(name, tmp_path, run, rollouts, micro_policy):
    if name == "slime":
        folder = dumps.write_slime(tmp_path / "dumps", rollouts, micro_policy[1])
    elif name == "jsonl":
        folder = dumps.write_jsonl(tmp_path / "dumps", rollouts)
    else:
        folder = tmp_path / "dumps"
        for step, frame in rollouts.groupby("step"):
            write_frame(folder / f"step-{step:05d}.parquet", frame, RESPONSES, {})
    assert run(name, folder) == 0
    found = read_frame(tmp_path / "rollouts", RESPONSES)
    same(found, rollouts)
    assert not (tmp_path / "run").exists()
    made = json.loads(read_provenance(tmp_path / "rollouts/step-00001.parquet")["settings"])
    assert made["format"] == name


def test_verdicts_are_ours(tmp_path, run, rollouts, micro_policy):
    folder = dumps.write_slime(tmp_path / "dumps", rollouts.assign(correct=~rollouts["correct"]), micro_policy[1])
    assert run("slime", folder) == 0
    same(read_frame(tmp_path / "rollouts", RESPONSES), rollouts)


def test_groups_are_gathered_wherever_their_responses_lie(tmp_path, run, rollouts, slime_dumps):
    edited(slime_dumps / "1.pt", lambda samples: [samples[0], *samples[:0:-1]])
    assert run("slime", slime_dumps) == 0
    found = read_frame(tmp_path / "rollouts", RESPONSES)
    for column in ("question_id", "group_accuracy"):
        groups = found[column].to_numpy().reshape(-1, dumps.GROUP)
        assert (groups == groups[:, :1]).all()
    assert sorted(found["text"]) == sorted(rollouts["text"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": None}, "sample 3: field 'tokens' is missing"),
        ({"status": "aborted"}, "sample 3: its status is 'aborted'; group accuracies need a response in its place"),
        ({"status": "lost"}, "sample 3: field 'status' is 'lost': input should be 'completed' or 'truncated'"),
        (
            {"tokens": [1, 2, 999_999, 2], "response_length": 2, "loss_mask": None, "rollout_log_probs": None},
            "response token 0 is 999999, outside the model's vocabulary",
        ),
        ({"rollout_log_probs": [0.0]}, "sample 3: field 'rollout_log_probs' has 1 values"),
        ({"group_index": 1}, "sample 0: its group has 3 responses, but policy.responses_per_question is 4"),
        ({"metadata": {"question_id": "nowhere-1"}}, "sample 3: question 'nowhere-1' is not in the question set"),
        ({"prompt": "Say hello."}, "sample 3: its prompt holds no question of the question set: 'Say hello.'"),
    ],
)
def test_what_a_dump_lacks_is_named(tmp_path, run, slime_dumps, capsys, change, message):
    edited(slime_dumps / "0.pt", lambda samples: samples[3].update(change))
    assert run("slime", slime_dumps) == 2
    error = capsys.readouterr().err
    assert str(slime_dumps / "0.pt") in error
    assert message in error
    assert not (tmp_path / "rollouts").exists()


def test_a_complete_response_needs_its_end(run, slime_dumps, capsys):
    def shorten(samples):
        sample = next(s for s in samples if s["status"] == "completed" and s["response_length"] > 1)
        for name in ("tokens", "rollout_log_probs", "loss_mask"):
            sample[name] = sample[name][:-1]
        sample["response_length"] -= 1

    edited(slime_dumps / "0.pt", shorten)
    assert run("slime", slime_dumps) == 2
    assert "a complete response ends with token" in capsys.readouterr().err


def test_pickled_objects_are_never_loaded(tmp_path):
    class Payload:
        def __reduce__(self):
            return (tmp_path / "owned").touch, ()

    torch.save({"samples": [Payload()]}, tmp_path / "0.pt")
    (tmp_path / "1.pt").write_bytes(pickle.dumps({"samples": [Payload()]}))
    (tmp_path / "2.pt").write_bytes(b"not a dump")
    for name in ("0.pt", "1.pt", "2.pt"):
        with pytest.raises(ContractError, match=name):
            slime.read(tmp_path / name, "acc")
    assert not (tmp_path / "owned").exists()


def test_a_group_with_two_questions_is_refused(run, rollouts, slime_dumps, capsys):
    ids = rollouts["question_id"]
    other = {"question_id": ids[ids != ids.iloc[0]].iloc[0]}
    edited(slime_dumps / "0.pt", lambda samples: samples[3].update(metadata=other))
    assert run("slime", slime_dumps) == 2
    assert "sample 0: the responses of its group answer different questions" in capsys.readouterr().err


def test_a_missing_step_is_named(run, slime_dumps, capsys):
    (slime_dumps / "2.pt").unlink()
    assert run("slime", slime_dumps) == 2
    assert "no dump of rollout step 3; steps 1 to 3 are needed" in capsys.readouterr().err


def test_a_killed_import_goes_on_with_the_next_step(tmp_path, run, rollouts, monkeypatch, capsys):
    folder = dumps.write_jsonl(tmp_path / "dumps", rollouts)
    second = folder / "step-00002.jsonl"
    whole = second.read_text()
    second.write_text(whole[:-20])
    assert run("jsonl", folder) == 2
    lines = whole.count("\n")
    assert f"{second}: line {lines}: not JSON" in capsys.readouterr().err
    assert (tmp_path / "run/rollouts/step-00001.parquet").exists()

    read = []
    real = importing.FORMATS["jsonl"].read
    second.write_text(whole)

    def interrupted(path):
        read.append(path.name)
        if len(read) == 2:
            raise KeyboardInterrupt
        return real(path)

    monkeypatch.setattr(importing.FORMATS["jsonl"], "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("jsonl", folder)
    assert run("jsonl", folder) == 0
    # the mended file made other dumps of them: all were read again, and after the kill those that were left
    assert read == ["step-00001.jsonl", "step-00002.jsonl", "step-00002.jsonl", "step-00003.jsonl"]
    same(read_frame(tmp_path / "rollouts", RESPONSES), rollouts)


def test_missing_log_probabilities_are_computed_by_checkpoints(tmp_path, run, rollouts, micro_checkpoint, capsys):
    folder = dumps.write_jsonl(tmp_path / "dumps", rollouts, logprobs=False)
    assert run("jsonl", folder) == 2
    assert "line 1: has no log-probabilities; give checkpoints" in capsys.readouterr().err
    (tmp_path / "step-3").symlink_to(micro_checkpoint)
    assert run("jsonl", folder, "--checkpoints", tmp_path / "step-3") == 0
    found = read_frame(tmp_path / "rollouts", RESPONSES)
    same(found, rollouts, but=("logprobs", "mean_logprob"))
    for mine, engines in zip(found["logprobs"], rollouts["logprobs"], strict=True):
        np.testing.assert_allclose(mine, engines, atol=1e-4)


def test_text_alone_is_refused(tmp_path, run, rollouts, own, capsys):
    assert run("trl", dumps.write_completions(tmp_path / "dumps", rollouts, own.questions, spacing=2)) == 2
    assert "row 0: holds text without token ids" in capsys.readouterr().err


def test_questions_are_found_in_prompts():
    texts = ["What is 2 + 3?", "What is 2 + 3? Give", "Is 7 prime?", "Twice?", "What is 2"]
    answers = ["5", "6", "yes", "1", "2"]
    frame = pd.DataFrame({"question_id": list("abcde"), "question": texts, "answer": answers, "aliases": [[]] * 5})
    index = QuestionIndex(frame)

    def found(prompt):
        return frame["question_id"].iloc[index.find(Sample(where="here", group=0, prompt=prompt))]

    assert found("<user>\nWhat  is 2 + 3?</user>") == "a"
    assert found("Please: what is 2 + 3? Give the answer") == "b"
    assert found("user\nIS 7 prime?<|im_end|>") == "c"
    assert found("twice?<|im_end|>") == "d"
    for prompt in ("Somewhat is 2", "What is 23"):
        with pytest.raises(ContractError, match="here: its prompt holds no question"):
            found(prompt)
    doubled = pd.concat([frame, frame.iloc[:1].assign(question_id="f")], ignore_index=True)
    assert QuestionIndex(doubled).find(Sample(where="here", group=0, prompt=texts[0])) == 0
    doubled.loc[5, "answer"] = "7"
    with pytest.raises(ContractError, match="here: a, f are the same text with different answers"):
        QuestionIndex(doubled).find(Sample(where="here", group=0, prompt=texts[0]))
    assert QuestionIndex(doubled).find(Sample(where="here", group=0, prompt=texts[0], question_id="f")) == 5
