"""The commands for a policy of one's own, as its owner types them: `cocal fit`, `score`, `evaluate`."""

import json
import runpy
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dumps
from cocal import Companion
from cocal.commands.catalogue import OWN, STAGES
from cocal.config.evaluation import MetricSettings
from cocal.metrics.calibration import evaluate
from cocal.own_policy import companion as companion_module
from cocal.own_policy import fitting, scoring, states
from cocal.own_policy.formats import find
from cocal.own_policy.quality import measured
from cocal.store import write_frame
from cocal.store.contracts import RESPONSES
from own_rollouts import read_lines, run, write_lines


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


def test_three_commands_lead_from_verl_s_lines_to_a_report(tmp_path, capsys, own, score, rollouts):
    about = Companion.from_pretrained(own.companion).about
    said = " ".join(about.notes)
    assert "3 files of verl's JSON lines" in said
    assert "not read: gts, request_id" in said
    assert "60 prompts are texts without chat markers, which were put back" in said
    assert "ids were made anew" in said
    assert "15 groups have 4 responses" in said
    assert about.spec.training_responses + about.spec.validation_responses == (~rollouts["truncated"]).sum()
    assert not list(own.companion.parent.glob(".*.fit"))

    assert score(own.verl / "2.jsonl") == 0
    lines = read_lines(tmp_path / "scored.jsonl")
    given = read_lines(own.verl / "2.jsonl")
    assert [{k: v for k, v in line.items() if not k.startswith("confidence")} for line in lines] == given
    assert {line["confidence_ids"] for line in lines} == {"tokenised"}
    assert all(0 < line["confidence"] < 1 for line in lines)

    capsys.readouterr()
    assert run("evaluate", tmp_path / "scored.jsonl", "--output", tmp_path / "report", "--resamples", "50") == 0
    printed = capsys.readouterr().out
    confidence, correct = (np.array([line[name] for line in lines]) for name in ("confidence", "acc"))
    expected = evaluate(confidence, np.ones(len(lines), dtype=bool), correct.astype(bool))
    assert f"{expected['ece']:.3f}" in printed
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert f">{expected['auroc']:.3f}<" in page
    assert "data:image/png;base64," in page
    numbers = pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")
    assert numbers.at["ece", "value"] == pytest.approx(expected["ece"])
    assert (tmp_path / "report/quality.pdf").read_bytes().startswith(b"%PDF")


def test_the_restored_ids_are_those_that_verl_s_policy_read(own, rollouts):
    """Its texts lack the markers of the chat and the end token; put back, most ids are the sampled ones."""
    encoder = Companion.from_pretrained(own.companion).encoder(own.policy)
    found = encoder.encode(list(find([own.verl]).samples({}, Counter())))
    prompts = {tuple(map(int, ids)) for ids in rollouts["prompt_ids"]}
    assert {tuple(one.prompt.tolist()) for one in found} == prompts
    complete = {tuple(map(int, ids)) for ids in rollouts[~rollouts["truncated"]]["response_ids"]}
    again = [tuple(one.response.tolist()) in complete for one in found]
    assert np.mean(again) > 0.4


def test_given_ids_are_scored_exactly_and_labels_are_optional(tmp_path, score, rollouts, texts, own):
    source = write_lines(tmp_path / "in.jsonl", rollouts, texts)
    unlabelled = [{k: v for k, v in line.items() if k != "correct"} for line in read_lines(source)]
    source.write_text("".join(json.dumps(line) + "\n" for line in unlabelled))
    assert score(source, "--seed", "137", "--name", "p") == 0
    lines = read_lines(tmp_path / "scored.jsonl")
    expected = Companion.from_pretrained(own.companion).score(
        *own.policy, rollouts["prompt_ids"], rollouts["response_ids"], seed=137
    )
    np.testing.assert_array_equal([line["p"] for line in lines], expected)
    assert {line["confidence_ids"] for line in lines} == {"given"}


def test_texts_and_chats_are_scored_too(tmp_path, score):
    lines = [
        {"prompt": "What is 2 + 3?", "response": "5", "id": "ü"},
        {"messages": [{"role": "user", "content": "What is 2 + 3?"}], "response": "5"},
        {"prompt": "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n", "response": "5<|im_end|>"},
        {"input": "user\nWhat is 2 + 3?\nassistant\n", "output": "5"},
    ]
    found = []
    for line in lines:
        (tmp_path / "in.jsonl").write_text(json.dumps(line, ensure_ascii=False) + "\n\n", encoding="utf-8")
        assert score(tmp_path / "in.jsonl") == 0
        (scored,) = read_lines(tmp_path / "scored.jsonl")
        assert {k: v for k, v in scored.items() if not k.startswith("confidence")} == line
        found.append(scored["confidence"])
    assert len({*found}) == 1


def test_a_killed_run_goes_on(tmp_path, score, rollouts, texts, monkeypatch):
    """It is killed in its third block; what it has written of it is written again."""
    monkeypatch.setattr(states, "BLOCK", 7)
    monkeypatch.setattr(scoring, "ROWS", 14)
    source = write_lines(tmp_path / "in.jsonl", rollouts, texts)
    assert score(source) == 0
    whole = (tmp_path / "scored.jsonl").read_bytes()
    (tmp_path / "scored.jsonl").unlink()

    real, blocks = Companion.score_encoded, []

    def killed(self, policy, rows, **options):
        blocks.append(len(rows))
        if len(blocks) == 3:
            raise KeyboardInterrupt
        return real(self, policy, rows, **options)

    monkeypatch.setattr(Companion, "score_encoded", killed)
    with pytest.raises(KeyboardInterrupt):
        score(source)
    unfinished = tmp_path / ".scored.jsonl.score/scored.jsonl"
    unfinished.write_bytes(unfinished.read_bytes() + b'{"half of a li')
    assert not (tmp_path / "scored.jsonl").exists()
    assert score(source) == 0
    assert blocks == [14, 14, 14, 14, 14, 4]
    assert (tmp_path / "scored.jsonl").read_bytes() == whole
    assert not unfinished.exists()


def test_scoring_takes_the_same_memory_however_many_responses_there_are(tmp_path, own, monkeypatch):
    """With ten times the responses, the most that Python holds stays the same."""
    monkeypatch.setattr(scoring, "ROWS", 64)
    monkeypatch.setattr(companion_module, "states_of", lambda policy, about, rows, _: np.zeros((len(rows), 64), "f4"))
    companion = Companion.from_pretrained(own.companion)
    most = []
    for count in (250, 2500):
        source = tmp_path / "in.jsonl"
        source.write_text(f'{{"prompt_ids": {[1, 2] * 100}, "response_ids": {[3, 4] * 100}}}\n' * count)
        wanted = scoring.Wanted(source, {})
        checked = scoring.check(wanted, companion.about)
        folder = type("Folder", (), {"path": tmp_path / str(count)})
        folder.path.mkdir()
        tracemalloc.start()
        scoring.score_file(companion, own.policy, wanted, checked, folder)
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len((folder.path / "scored.jsonl").read_text().splitlines()) == count
    assert most[1] < 1.2 * most[0]


@pytest.mark.parametrize("name", ["slime", "trl", "traces", "episodes", "tables"])
def test_the_dumps_of_other_engines_are_read(name, tmp_path, capsys, fit, rollouts, own):
    if name == "slime":
        folder, more = (
            dumps.write_slime(tmp_path / "dumps", rollouts, own.policy.tokenizer),
            ["--field", "reward=acc"],
        )
        said = "3 files of slime's dumps"
    elif name == "trl":
        folder, more = dumps.write_completions(tmp_path / "dumps", rollouts, own.questions, spacing=2), []
        said = "correctness as reward"
    elif name == "traces":
        folder, more = dumps.write_traces(tmp_path / "dumps", rollouts), ["--correct-above", "0"]
        said = "1 file of open-instruct's JSON lines"
    elif name == "episodes":
        folder, more, said = dumps.write_episodes(tmp_path / "dumps", rollouts), [], "3 files of prime-rl's traces"
    else:
        folder, more, said = tmp_path / "dumps", [], "rollout tables of CoCal"
        for step, frame in rollouts.groupby("step"):
            write_frame(folder / f"step-{step:05d}.parquet", frame, RESPONSES, {})
    assert fit(folder, *more) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert "15 groups have 4 responses" in printed
    spec = Companion.from_pretrained(tmp_path / "companion").about.spec
    if name != "trl":
        assert spec.training_responses + spec.validation_responses == (~rollouts["truncated"]).sum()
    assert spec.steps == 3


def test_a_table_of_another_step_than_its_name_says_is_refused(tmp_path, capsys, fit, rollouts):
    for name, step in ((1, 1), (2, 3)):
        rows = rollouts[rollouts["step"] == step]
        write_frame(tmp_path / "dumps" / f"step-{name:05d}.parquet", rows, RESPONSES, {})
    assert fit(tmp_path / "dumps") == 2
    assert "step-00002.parquet: holds rollouts of step 3, which its name denies" in capsys.readouterr().err


def test_a_killed_fit_goes_on_with_the_states_that_it_has(tmp_path, fit, rollouts, texts, monkeypatch):
    source = write_lines(tmp_path / "mine.jsonl", rollouts, texts)
    assert fit(source) == 0
    whole = (tmp_path / "companion/model.safetensors").read_bytes()
    real, passes = fitting.pooled_states, []

    def killed(*given):
        passes.append(len(given[2]))
        if len(passes) == 2:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(fitting, "pooled_states", killed)
    with pytest.raises(KeyboardInterrupt):
        fit(source)
    assert fit(source) == 0
    assert passes == [20, 20, 20, 20]
    assert (tmp_path / "companion/model.safetensors").read_bytes() == whole


def test_steps_may_lie_in_any_order(tmp_path, fit, rollouts, texts):
    """Responses are learnt in the order of their steps."""
    source = write_lines(tmp_path / "mine.jsonl", rollouts, texts)
    assert fit(source) == 0
    weights = (tmp_path / "companion/model.safetensors").read_bytes()
    later_first = pd.concat([rollouts[rollouts["step"] == step] for step in (3, 1, 2)])
    write_lines(source, later_first, texts)
    assert fit(source) == 0
    assert (tmp_path / "companion/model.safetensors").read_bytes() == weights


def test_a_field_of_another_name_is_mapped(tmp_path, capsys, fit, rollouts, texts):
    lines = read_lines(write_lines(tmp_path / "mine.jsonl", rollouts, texts))
    renamed = [{k: v for k, v in line.items() if k != "correct"} | {"verdict": int(line["correct"])} for line in lines]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in renamed))
    assert fit(tmp_path / "mine.jsonl") == 2
    assert "no field is a label (correct, reward)" in capsys.readouterr().err
    assert fit(tmp_path / "mine.jsonl", "--field", "correct=verdict") == 0
    assert "verdict as correct" in capsys.readouterr().out
    for words, message in (
        ("x=verdict", "no such meaning"),
        ("correct=none", "no such field"),
        ("a", "not MEANING=NAME"),
    ):
        assert fit(tmp_path / "mine.jsonl", "--field", words) == 2
        assert message in capsys.readouterr().err


def test_the_script_of_the_documentation_runs(tmp_path, capsys, own, repository, monkeypatch):
    words = ["own_policy.py", str(own.checkpoint), str(own.verl), str(tmp_path / "companion")]
    monkeypatch.setattr(sys, "argv", [*words, "--widths", "16", "12", "8", "4", "--max-response-length", "20"])
    runpy.run_path(str(repository / "docs/own_policy.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("On ")
    assert [line.split(":")[0] for line in printed[1:3]] == ["\\boxed{19}", "\\boxed{20}"]
    assert len(printed) == 8
    assert (tmp_path / "companion/README.md").exists()


def test_intervals_resample_questions(rollouts):
    """Four responses to one question are not four questions: the interval is wider than that of single responses."""
    draw = np.random.default_rng(0)
    skill = draw.random(80)
    correct = (draw.random((80, 8)) < skill[:, None]).ravel()
    confidence = skill.repeat(8)
    settings = MetricSettings(resamples=300)
    grouped = measured([f"q{k // 8}" for k in range(640)], confidence, correct, settings).set_index("metric")
    single = measured([f"q{k}" for k in range(640)], confidence, correct, settings).set_index("metric")
    width = grouped["upper"] - grouped["lower"], single["upper"] - single["lower"]
    assert width[0]["accuracy"] > 1.5 * width[1]["accuracy"]
    np.testing.assert_array_equal(grouped["value"], single["value"])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"correct": True}, "line 2: there is no field 'confidence'; add it by `cocal score`"),
        ({"confidence": 1.2, "correct": True}, "line 2: field 'confidence' is 1.2, not a confidence from 0 to 1"),
        ({"confidence": 0.2}, "line 2: the response has no label"),
        ({"confidence": "high", "correct": True}, "line 2: field 'confidence' is not a finite number: 'high'"),
    ],
)
def test_a_line_that_cannot_be_evaluated_is_named(tmp_path, capsys, line, message):
    source = tmp_path / "scored.jsonl"
    source.write_text("".join(json.dumps(one) + "\n" for one in ({"confidence": 0.5, "correct": False}, line)))
    assert run("evaluate", source, "--output", tmp_path / "report") == 2
    assert f"{source}: {message}" in capsys.readouterr().err


def test_invalid_confidences_count_for_the_accuracy_alone(tmp_path, capsys):
    rows = [{"confidence": 0.5, "correct": True}, {"confidence": None, "correct": False}] * 20
    (tmp_path / "scored.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("evaluate", tmp_path / "scored.jsonl", "--output", tmp_path / "report", "--resamples", "20") == 0
    numbers = pd.read_csv(tmp_path / "report/numbers.csv").set_index("metric")["value"]
    assert numbers["accuracy"] == 0.5
    assert numbers["ece"] == 0.5
    assert np.isnan(numbers["auroc"])
    page = (tmp_path / "report/index.html").read_text(encoding="utf-8")
    assert "20 of them have no valid confidence" in page
    assert "the lines name no question" in capsys.readouterr().out


def test_the_first_page_of_help_shows_the_commands_for_people():
    def said(*words):
        command = [sys.executable, "-m", "cocal", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    shown = said("--help")
    assert all(f"\n  {name} " in shown for name in OWN)
    assert not any(f"\n  {name} " in shown for name in STAGES)
    listed = said("stages")
    assert [line.split()[0] for line in listed.splitlines()] == list(STAGES)
    assert "--run-folder" in said("train", "--help")
