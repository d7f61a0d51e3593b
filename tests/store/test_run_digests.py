"""A killed run resumes under the same prompt texts and the same accepted answers alone."""

import json
import shutil

import pytest
import torch

from cocal import cli
from cocal.config.data import QuestionSetsSettings
from cocal.models.loading import cast_weights
from cocal.questions.prompts import Prompts
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import QUESTIONS, RESPONSES
from cocal.store.run_folder import RunFolder
from micro import MICRO_SETS, own_copy
from other_process import writer_of

POLICY = {
    "algorithms": ["grpo", "rlcr", "dcpo"],
    "dataset": "micro-train",
    "steps": 1,
    "stages": [1],
    "questions_per_step": 2,
    "responses_per_question": 2,
    "max_response_length": {"grpo": 8, "rlcr": 8, "dcpo": 8},
    "micro_batch": 4,
}


class Opened(Exception):
    """Raised in the place of the work, with the digest of the run folder."""


@pytest.fixture
def opened(monkeypatch):
    """Runs a command up to its run folder and returns the folder's digest."""

    def refuse(self, path, settings_digest):
        raise Opened(settings_digest)

    def refuse_training(*_, run_digest, **__):
        raise Opened(run_digest)

    monkeypatch.setattr(RunFolder, "__init__", refuse)
    monkeypatch.setattr("cocal.policy.train.train_policy", refuse_training)

    def run(command):
        with pytest.raises(Opened) as found:
            cli.main(list(map(str, command)))
        return found.value.args[0]

    return run


@pytest.fixture(scope="module")
def micro_checkpoint(micro_checkpoint, tmp_path_factory):
    """The micro policy as a user's own, which may be any stage of any training."""
    return own_copy(micro_checkpoint, tmp_path_factory.mktemp("own") / "base")


def _command(name, checkpoint, questions, tmp_path):
    common = ["--questions", questions, "--run-folder", tmp_path / "run"]
    if name != "import-rollouts":
        common += ["--prompts", "tiny"]
    if name in ("train", "slime"):
        command = [name, "--algorithm", "grpo", "--base", checkpoint, "--stages", tmp_path / "s"]
        command += ["--rollouts", tmp_path / "r", *common]
        settings = POLICY
        if name == "slime":
            settings = POLICY | {"slime": {"torch_dist": {"micro": str(tmp_path)}}}
            backbone = {"source": "checkpoint", "label": "M", "path": str(checkpoint), "depth": 2, "width": 32}
            command += ["--backbone-name", "micro", "--backbone", json.dumps(backbone)]
        return [*command, "--settings", json.dumps(settings)]
    if name == "resample":
        places = ["--rollouts", tmp_path / "r", "--output-features", tmp_path / "f"]
        cell = ["--checkpoint", checkpoint, "--backbone", "micro"]
        return ["resample", "--policy", json.dumps(POLICY), *cell, *places, *common]
    if not (tmp_path / "dumps").exists():
        (tmp_path / "dumps").mkdir()
        (tmp_path / "dumps/step-00001.jsonl").write_text("{}\n")
    dumps = ["--format", "jsonl", "--dumps", tmp_path / "dumps", "--policy", checkpoint, "--output", tmp_path / "o"]
    return [
        "import-rollouts",
        "--algorithm",
        "grpo",
        "--tokenise",
        "tiny",
        "--settings",
        json.dumps(POLICY),
        *dumps,
        *common,
    ]


def _corrected(source, target, column="answer"):
    """The question set with another answer, or another alias, of its first question."""
    frame = read_frame(source, QUESTIONS)
    frame[column] = ["99" if column == "answer" else ["99"], *frame[column].iloc[1:]]
    write_frame(target, frame, QUESTIONS, {})
    return target


@pytest.mark.parametrize("command", ["train", "slime", "resample", "import-rollouts"])
def test_a_corrected_answer_resumes_nothing(opened, micro_checkpoint, micro_questions, tmp_path, command):
    questions = micro_questions / "micro-train.parquet"
    found = [opened(_command(command, micro_checkpoint, questions, tmp_path))]
    found += [opened(_command(command, micro_checkpoint, questions, tmp_path))]
    for column in ("answer", "aliases"):
        other = _corrected(questions, tmp_path / f"{column}.parquet", column)
        found.append(opened(_command(command, micro_checkpoint, other, tmp_path)))
    assert found[0] == found[1]
    assert len(set(found)) == 3


@pytest.mark.parametrize("command", ["train", "slime", "resample", "import-rollouts"])
def test_a_run_beside_another_is_refused_in_words(micro_checkpoint, micro_questions, tmp_path, capsys, command):
    """As after a SIGKILL of Snakemake, whose local jobs go on."""
    words = _command(command, micro_checkpoint, micro_questions / "micro-train.parquet", tmp_path)
    with writer_of(tmp_path / "run") as process:
        assert cli.main(list(map(str, words))) == 2
    message = capsys.readouterr().err
    assert f"cocal {command}: error: {tmp_path / 'run'}: an earlier run is still at work here" in message
    assert message.endswith(f"or end it: kill {process.pid}\n")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def wording(monkeypatch, tmp_path):
    """Changes a text of the prompt set `tiny`."""
    from cocal.questions import prompts

    folder = tmp_path / "prompts"
    shutil.copytree(prompts.files("cocal.questions.prompts"), folder)
    monkeypatch.setattr(prompts, "files", lambda _: folder)

    def change(prompt_format):
        file = folder / "tiny" / f"{prompt_format}.txt"
        file.write_text("Please. " + file.read_text())

    return change


@pytest.mark.parametrize("command", ["train", "slime", "resample", "import-rollouts"])
def test_an_edited_prompt_resumes_nothing(opened, wording, micro_checkpoint, micro_questions, tmp_path, command):
    asked = _command(command, micro_checkpoint, micro_questions / "micro-train.parquet", tmp_path)
    before = opened(asked)
    wording("verbal")
    assert opened(asked) == before, "a text that this run does not use"
    wording("answer")
    assert opened(asked) != before


def test_the_digest_of_texts_is_that_of_a_format_and_a_domain():
    prompts = Prompts("qwen")
    assert prompts.digest("answer") != prompts.digest("verbal")
    assert prompts.digest("answer") != prompts.digest("answer", domain="factual")
    assert prompts.digest("p_true") == prompts.digest("p_true", domain="factual"), "no words of its own"
    assert prompts.digest() != Prompts("tiny").digest()
    assert prompts.identity("answer") == {"set": "qwen", "texts": prompts.digest("answer")}


def _responses(checkpoint, questions, tmp_path):
    plan = {"sets": {"micro-eval": {"samples": 1, "sampled": 1, "max_response_length": 8}}}
    cell = ["--backbone", "micro", "--algorithm", "base", "--step", "0", "--prompt-format", "answer"]
    places = ["--questions", questions, "--checkpoint", checkpoint, "--run-folder", tmp_path / "run"]
    places += ["--prompts", "tiny", "--output", tmp_path / "responses", "--judgements", tmp_path / "judgements"]
    return cli.main(list(map(str, ["responses", "--plan", json.dumps(plan), *cell, *places])))


def test_a_corrected_answer_is_judged_anew_without_new_responses(
    micro_checkpoint, micro_questions, tmp_path, monkeypatch
):
    """Killed after the verdicts, before they were published."""
    folder = tmp_path / "questions"
    shutil.copytree(micro_questions, folder)
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            _responses(micro_checkpoint, folder, tmp_path)
    sampled = tmp_path / "run/sampled/micro-eval.parquet"
    written = sampled.stat().st_mtime_ns
    (judged,) = (tmp_path / "run").glob("judged-*/micro-eval.parquet")
    answers = read_frame(judged, RESPONSES, ["question_id", "answer", "correct"])
    wrong = answers[answers["answer"].notna() & ~answers["correct"]].iloc[0]
    questions = read_frame(folder / "micro-eval.parquet", QUESTIONS)
    questions.loc[questions["question_id"] == wrong["question_id"], "answer"] = wrong["answer"]
    write_frame(folder / "micro-eval.parquet", questions, QUESTIONS, {})
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "publish", lambda self, outputs: None)
        assert _responses(micro_checkpoint, folder, tmp_path) == 0
    assert sampled.stat().st_mtime_ns == written
    assert _responses(micro_checkpoint, folder, tmp_path) == 0
    table = read_frame(tmp_path / "responses/micro-eval.parquet", RESPONSES).set_index("question_id")
    assert table.loc[wrong["question_id"], "correct"]
    texts = json.loads(read_provenance(tmp_path / "responses/micro-eval.parquet")["settings"])["prompts"]
    assert texts == {"mathematics": Prompts("tiny").identity("answer")}


def test_question_sets_carry_nothing_of_presentation(micro_questions, tmp_path):
    """Labels, samples and other sets are not in a set's file: an edit of them gives the same bytes."""
    other = json.loads(json.dumps(MICRO_SETS))
    for name, dataset in other["datasets"].items():
        dataset |= {"label": f"Other {name}", "samples": 3, "max_response_length": 99}
    del other["datasets"]["micro-train"]
    assert cli.main(["questions", "--settings", json.dumps(other), "--output", str(tmp_path)]) == 0
    assert (tmp_path / "micro-eval.parquet").read_bytes() == (micro_questions / "micro-eval.parquet").read_bytes()


def test_one_set_alone_is_the_one_among_all(micro_questions, tmp_path):
    """As the workflow builds it, from its own slice and the sets before it."""
    sets = QuestionSetsSettings.model_validate(MICRO_SETS)
    assert sets.built_before("micro-train") == ["micro-eval"]
    assert sets.built_before("micro-eval") == []
    command = ["questions", "--settings", sets.of("micro-train").model_dump_json(), "--output", str(tmp_path)]
    assert cli.main([*command, "--others", str(micro_questions / "micro-eval.parquet")]) == 0
    assert (tmp_path / "micro-train.parquet").read_bytes() == (micro_questions / "micro-train.parquet").read_bytes()


@pytest.mark.parametrize("command", ["train", "slime", "resample"])
def test_the_prompt_set_has_no_default(micro_checkpoint, micro_questions, tmp_path, capsys, command):
    """Another study's words would pass unnoticed."""
    words = list(map(str, _command(command, micro_checkpoint, micro_questions / "micro-train.parquet", tmp_path)))
    place = words.index("--prompts")
    with pytest.raises(SystemExit):
        cli.main(words[:place] + words[place + 2 :])
    assert "the following arguments are required: --prompts" in capsys.readouterr().err


def test_pre_training_needs_the_prompt_set(tmp_path, capsys):
    assert cli.main(["backbone", "--settings", '{"source": "pretraining", "label": "M"}', f"--output={tmp_path}"]) == 2
    assert "--prompts: a backbone that is pre-trained needs" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "slime", "resample", "import-rollouts"])
def test_a_run_of_other_settings_resumes_nothing(opened, micro_checkpoint, micro_questions, tmp_path, command):
    asked = list(map(str, _command(command, micro_checkpoint, micro_questions / "micro-train.parquet", tmp_path)))
    other = [word.replace('"steps": 1,', '"steps": 1, "seed": 7,') for word in asked]
    assert asked != other
    assert opened(asked) != opened(other)


@pytest.mark.parametrize("command", ["train", "slime", "resample"])
def test_a_run_of_another_checkpoint_resumes_nothing(opened, micro_checkpoint, micro_questions, tmp_path, command):
    questions = micro_questions / "micro-train.parquet"
    other = tmp_path / "other" / micro_checkpoint.name
    shutil.copytree(micro_checkpoint, other)
    found = [opened(_command(command, folder, questions, tmp_path)) for folder in (micro_checkpoint, other)]
    cast_weights(other, torch.bfloat16)
    found.append(opened(_command(command, other, questions, tmp_path)))
    renamed = other.rename(tmp_path / "renamed")
    found.append(opened(_command(command, renamed, questions, tmp_path)))
    if command == "slime":  # its backbone's settings name the place of the checkpoint
        found[1] = found[0]
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_responses_of_other_settings_questions_texts_or_checkpoints_resume_nothing(
    opened, wording, micro_checkpoint, micro_questions, tmp_path
):
    plan = {"sets": {"micro-eval": {"samples": 1, "sampled": 1, "max_response_length": 8}}}
    cell = ["--backbone", "micro", "--algorithm", "base", "--step", "0", "--prompts", "tiny"]
    places = ["--run-folder", "run", "--output", "responses", "--judgements", "judgements"]

    def digest_of(
        plan=plan, settings="{}", prompt_format="answer", questions=micro_questions, checkpoint=micro_checkpoint
    ):
        words = ["responses", "--plan", json.dumps(plan), "--settings", settings, *cell, *places]
        words += ["--prompt-format", prompt_format, "--questions", questions, "--checkpoint", checkpoint]
        return opened(words)

    other = tmp_path / "other" / micro_checkpoint.name
    shutil.copytree(micro_checkpoint, other)
    cast_weights(other, torch.bfloat16)
    asked = read_frame(micro_questions / "micro-eval.parquet", QUESTIONS)
    asked["question"] = ["Is it 1?", *asked["question"].iloc[1:]]
    write_frame(tmp_path / "asked/micro-eval.parquet", asked, QUESTIONS, {})
    longer = {"sets": {"micro-eval": plan["sets"]["micro-eval"] | {"max_response_length": 9}}}
    first = digest_of()
    found = [
        digest_of(settings='{"seed": 7}'),
        digest_of(plan=longer),
        digest_of(prompt_format="verbal"),
        digest_of(questions=tmp_path / "asked"),
        digest_of(checkpoint=other),
    ]
    wording("answer")
    found.append(digest_of())
    assert len({first, *found}) == 7
