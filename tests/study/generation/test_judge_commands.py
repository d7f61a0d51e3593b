"""`cocal responses` and `cocal judge` with a real language model as judge: the micro policy, which talks nonsense."""

import json
import logging

import numpy as np
import pandas as pd
import pytest

from cocal.cli import main
from cocal.engines.engine import Completion
from cocal.rollouts.recorded import sampled_rows
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES
from cocal_study.generation import sampling
from cocal_study.store.contracts import JUDGEMENTS, QUESTIONS, SAMPLED, VERDICTS

COUNT, POOL = 6, 3


@pytest.fixture(scope="module")
def place(tmp_path_factory, micro_questions):
    """Folder with the micro evaluation questions, passed off as factual ones: rarely right, so that all is asked."""
    folder = tmp_path_factory.mktemp("facts")
    questions = read_frame(micro_questions / "micro-eval.parquet", QUESTIONS).head(COUNT)
    facts = questions.assign(dataset="facts", domain="factual", answer="the Nile", aliases=[["Nile river"]] * COUNT)
    write_frame(folder / "questions/facts.parquet", facts, QUESTIONS, {})
    write_frame(folder / "questions/sums.parquet", questions.assign(dataset="sums"), QUESTIONS, {})
    return folder


@pytest.fixture
def command(place, tmp_path, micro_checkpoint):
    """The flags of `cocal responses`; everything that it writes lies in `tmp_path`."""

    def flags(judge: dict, *sets: str) -> list[str]:
        how = {"samples": 1, "sampled": POOL, "max_response_length": 12, "pool": True}
        return [
            "responses",
            f"--plan={json.dumps({'sets': dict.fromkeys(sets or ['facts'], how)})}",
            f"--judge={json.dumps(judge)}",
            f"--judgements={tmp_path / 'judgements'}",
            "--prompt-format=answer",
            f"--questions={place / 'questions'}",
            f"--checkpoint={micro_checkpoint}",
            "--backbone=micro",
            "--algorithm=base",
            "--step=0",
            "--prompts=tiny",
            f"--run-folder={tmp_path / 'run'}",
            f"--output={tmp_path / 'responses'}",
        ]

    return flags


@pytest.fixture
def judge(micro_checkpoint):
    """Settings of the micro policy as judge."""
    return {"kind": "llm", "checkpoint": str(micro_checkpoint), "max_tokens": 5, "max_unparsable": 1.0}


def _no_engine(monkeypatch):
    def refuse(*_):
        raise AssertionError("an engine was opened")

    for module in ("judge", "sampling"):
        monkeypatch.setattr(f"cocal_study.generation.{module}.open_engine", refuse)


@pytest.mark.parametrize("engine", ["transformers", pytest.param("vllm", marks=pytest.mark.vllm)])
def test_nonsense_is_recorded_as_no_verdict(place, command, judge, tmp_path, monkeypatch, engine):
    judge["engine"] = {"kind": engine}
    assert main(command(judge)) == 0
    path = tmp_path / "responses/facts.parquet"
    table = read_frame(path, RESPONSES)
    assert len(table) == COUNT * POOL
    assert table["answer"].notna().sum() > COUNT
    assert not table["correct"].any()
    assert (table["answer_class"] >= 0).tolist() == table["answer"].notna().tolist()
    kept = read_frame(next((tmp_path / "judgements").iterdir()), JUDGEMENTS)
    judged = json.loads(read_provenance(path)["judge"])
    assert judged["judgements"] == judged["unparsable"] == len(kept) > 0
    assert judged["engines"] == sorted(set(kept["engine"]))
    assert judged["engines"][0].startswith(f"{engine} ")
    assert {"checkpoint", "revision", "prompts", "max_tokens", "temperature"} <= set(judged)
    assert read_provenance(path)["engine"].startswith("transformers ")
    assert not (tmp_path / "run").exists()
    # all of it again, from the kept replies alone
    _no_engine(monkeypatch)
    again = ["judge", *(flag for flag in command(judge) if flag.startswith("--judge")), "--pool"]
    again += [f"--questions={place / 'questions/facts.parquet'}"]
    assert main([*again, f"--responses={path}", f"--output={tmp_path / 'again.parquet'}"]) == 0
    pd.testing.assert_frame_equal(read_frame(tmp_path / "again.parquet", RESPONSES), table)
    assert json.loads(read_provenance(tmp_path / "again.parquet")["judge"]) == judged


@pytest.mark.slow
def test_a_judge_of_nonsense_costs_no_responses(command, judge, tmp_path, capsys, monkeypatch):
    """The sampled responses outlive the judge, and another judge takes them as they are."""
    assert main(command(judge | {"max_unparsable": 0.01})) == 2
    assert 'neither "certain" nor "uncertain", more than judge.max_unparsable = 0.01' in capsys.readouterr().err
    assert not (tmp_path / "responses").exists()
    _no_engine(monkeypatch)
    assert main(command({"kind": "exact-match"})) == 0
    table = read_frame(tmp_path / "responses/facts.parquet", RESPONSES)
    monkeypatch.undo()
    assert main(command({"kind": "exact-match"})) == 0
    pd.testing.assert_frame_equal(read_frame(tmp_path / "responses/facts.parquet", RESPONSES), table)


def _dying(monkeypatch, name: str) -> list[str]:
    """The sets with which a function of the evaluation is called, the second of which kills the run."""
    real, seen = getattr(sampling, name), []

    def dying(*given, **options):
        seen.append(next(part for part in given if "question" in part)["dataset"].iloc[0])
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(*given, **options)

    monkeypatch.setattr(sampling, name, dying)
    return seen


def test_a_killed_run_neither_samples_nor_judges_again(command, tmp_path, monkeypatch, caplog):
    judged, both = _dying(monkeypatch, "judge_set"), command({"kind": "exact-match"}, "facts", "sums")
    with pytest.raises(KeyboardInterrupt):
        main(both)
    assert not (tmp_path / "responses").exists()
    _no_engine(monkeypatch)
    with caplog.at_level(logging.INFO):
        assert main(both) == 0
    assert judged == ["facts", "sums", "sums"]
    assert "facts: judged earlier" in caplog.text
    assert {file.name for file in (tmp_path / "responses").iterdir()} == {"facts.parquet", "sums.parquet"}


def test_all_sets_are_sampled_by_one_engine(command, tmp_path, monkeypatch):
    """A run that goes on under another engine begins anew: its sets must not differ in their engine."""
    sampled, both = _dying(monkeypatch, "sample_responses"), command({"kind": "exact-match"}, "facts", "sums")
    with pytest.raises(KeyboardInterrupt):
        main(both)
    (run,) = (tmp_path / "run").rglob("facts.parquet")
    engine = read_provenance(run)["engine"]
    write_frame(run, read_frame(run, SAMPLED), SAMPLED, {"engine": "transformers 0.1"})
    assert main(both) == 0
    assert sampled == ["facts", "sums", "facts", "sums"]
    assert read_provenance(tmp_path / "responses/facts.parquet")["engine"] == engine


def test_mathematics_does_not_look_at_the_judge(command, tmp_path):
    assert main(command({"kind": "llm", "checkpoint": "/nowhere"}, "sums")) == 0
    assert "judge" not in read_provenance(tmp_path / "responses/sums.parquet")
    assert not (tmp_path / "judgements").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "llm", "checkpoint": "Qwen/Qwen2.5-32B-Instruct"}, "a checkpoint on the hub needs its revision"),
        (
            {"kind": "llm", "checkpoint": "a/b", "revision": "1", "prompts": "/nowhere"},
            "judge.prompts: /nowhere cannot be",
        ),
        ({"kind": "llm", "checkpoint": "/nowhere"}, "judge.checkpoint: /nowhere holds no .safetensors"),
    ],
)
def test_a_wrong_judge_is_refused_before_anything_is_sampled(command, capsys, monkeypatch, settings, message):
    _no_engine(monkeypatch)
    assert main(command(settings)) == 2
    assert message in capsys.readouterr().err


def test_responses_of_a_user_are_judged(place, tmp_path, capsys):
    """A table without verdicts, of mathematics, by computer algebra."""
    questions = read_frame(place / "questions/sums.parquet", QUESTIONS)
    texts = [f"\\boxed{{0{answer}}}" for answer in questions["answer"]]
    completion = Completion([2], np.array([-0.5], dtype=np.float32), "stop")
    facts = {"dataset": "sums", "question_ids": questions["question_id"], "prompt_ids": [[1]] * COUNT}
    table = sampled_rows([completion] * COUNT, texts, "answer", group_size=1, step=0, **facts)
    assert not set(VERDICTS) & set(table)
    table.to_parquet(tmp_path / "mine.parquet")
    flags = ["judge", f"--questions={place / 'questions/sums.parquet'}", f"--output={tmp_path / 'judged.parquet'}"]
    assert main([*flags, f"--responses={tmp_path / 'mine.parquet'}"]) == 0
    found = read_frame(tmp_path / "judged.parquet", RESPONSES)
    assert found["correct"].all()
    assert found["answer_class"].isna().all()
    table.drop(columns="answer").to_parquet(tmp_path / "mine.parquet")
    assert main([*flags, f"--responses={tmp_path / 'mine.parquet'}"]) == 2
    assert "mine.parquet: column 'answer' is missing" in capsys.readouterr().err
