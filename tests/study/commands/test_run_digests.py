"""A killed run resumes only under the same settings, questions, accepted answers, prompt texts and checkpoint."""

import json
import shutil

import pytest

from cocal import cli
from cocal.store import read_frame, read_provenance, write_frame
from cocal.store.contracts import RESPONSES
from cocal.store.run_folder import RunFolder
from cocal_study.config.data import QuestionSetsSettings
from cocal_study.questions import prompts
from cocal_study.store.contracts import QUESTIONS
from micro import MICRO_SETS, in_bfloat16, own_copy

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
PLAN = {"sets": {"micro-eval": {"samples": 1, "sampled": 1, "max_response_length": 8}}}
COMMANDS = ["train", "resample", "import-rollouts", "responses"]


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
    monkeypatch.setattr("cocal_study.policy.train.train_policy", refuse_training)

    def run(*words):
        with pytest.raises(Opened) as found:
            cli.main(list(map(str, words)))
        return found.value.args[0]

    return run


@pytest.fixture(scope="module")
def micro_checkpoint(micro_checkpoint, tmp_path_factory):
    """The micro policy as a user's own, which may be any stage of any training."""
    return own_copy(micro_checkpoint, tmp_path_factory.mktemp("own") / "base")


@pytest.fixture
def words(tmp_path, micro_checkpoint, micro_questions):
    """The words of a command, with what is given in the place of the usual inputs."""
    dumps = tmp_path / "dumps/step-00001.jsonl"
    dumps.parent.mkdir()
    dumps.write_text("{}\n")

    def of(name, questions=micro_questions, checkpoint=micro_checkpoint, settings=None):
        policy = json.dumps(POLICY | (settings or {}))
        plan = [f"--plan={json.dumps(PLAN)}", f"--settings={json.dumps(settings or {})}", "--prompt-format=answer"]
        training = ["--algorithm=grpo", f"--base={checkpoint}", "--stages=s", "--rollouts=r", "--prompts=tiny"]
        own = {
            "train": [*training, f"--settings={policy}"],
            "resample": [f"--checkpoint={checkpoint}", f"--policy={policy}", "--backbone=micro", "--rollouts=r"],
            "import-rollouts": ["--format=jsonl", f"--dumps={dumps.parent}", f"--policy={checkpoint}"],
            "responses": [f"--checkpoint={checkpoint}", *plan, "--backbone=micro", "--algorithm=base", "--step=0"],
        }[name]
        own += {
            "resample": ["--output-features=f", "--prompts=tiny"],
            "import-rollouts": ["--algorithm=grpo", f"--settings={policy}", "--output=o"],
            "responses": ["--output=o", "--judgements=j", "--prompts=tiny"],
        }.get(name, [])
        given = questions if name == "responses" else questions / "micro-train.parquet"
        return [name, *own, f"--questions={given}", f"--run-folder={tmp_path / 'run'}"]

    return of


@pytest.fixture
def wording(monkeypatch, tmp_path):
    """Changes a text of the prompt set `tiny`."""
    folder = tmp_path / "prompts"
    shutil.copytree(prompts.files("cocal_study.questions.prompts"), folder)
    monkeypatch.setattr(prompts, "files", lambda _: folder)

    def change(prompt_format):
        file = folder / "tiny" / f"{prompt_format}.txt"
        file.write_text("Please. " + file.read_text())

    return change


def _corrected(source, target, column, value):
    """The question sets with another value in the first row of a column."""
    for file in source.glob("*.parquet"):
        frame = read_frame(file, QUESTIONS)
        frame[column] = [value, *frame[column].iloc[1:]]
        write_frame(target / file.name, frame, QUESTIONS, {})
    return target


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_a_run_depends_on_is_in_its_digest(
    opened, words, wording, micro_checkpoint, micro_questions, tmp_path, command
):
    copy = tmp_path / "copy" / micro_checkpoint.name
    shutil.copytree(micro_checkpoint, copy)
    other = in_bfloat16(micro_checkpoint, tmp_path / "other" / micro_checkpoint.name)
    first = opened(*words(command))
    assert opened(*words(command)) == first
    if command != "import-rollouts":  # it names the place of the checkpoint
        assert opened(*words(command, checkpoint=copy)) == first
    asked = [("question", "Is it 1?")]
    if command != "responses":  # they are judged anew, without new responses
        asked += [("answer", "99"), ("aliases", ["99"])]
    found = [
        opened(*words(command, questions=_corrected(micro_questions, tmp_path / column, column, value)))
        for column, value in asked
    ]
    found.append(opened(*words(command, settings={"seed": 7})))
    found.append(opened(*words(command, checkpoint=other)))
    wording("verbal")
    assert opened(*words(command)) == first, "a text that this run does not use"
    wording("answer")
    if command != "import-rollouts":  # which asks nothing
        found.append(opened(*words(command)))
    assert len({first, *found}) == len(found) + 1


def test_a_corrected_answer_is_judged_anew_without_new_responses(words, micro_questions, tmp_path, monkeypatch):
    """The run is killed after the verdicts, before they are published."""
    folder, output = tmp_path / "questions", tmp_path / "responses"
    shutil.copytree(micro_questions, folder)

    def run():
        return cli.main([*words("responses", questions=folder), f"--output={output}", f"--judgements={tmp_path / 'j'}"])

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run()
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
        assert run() == 0
    assert sampled.stat().st_mtime_ns == written
    assert run() == 0
    table = read_frame(output / "micro-eval.parquet", RESPONSES).set_index("question_id")
    assert table.loc[wrong["question_id"], "correct"]
    texts = json.loads(read_provenance(output / "micro-eval.parquet")["settings"])["prompts"]
    assert texts == {"mathematics": prompts.Prompts("tiny").identity("answer")}


def test_a_question_set_depends_on_its_own_slice_and_the_sets_before_it(micro_questions, tmp_path):
    """Its labels and samples are not in its file, and the workflow builds each set alone."""
    other = json.loads(json.dumps(MICRO_SETS))
    for name, dataset in other["datasets"].items():
        dataset |= {"label": f"Other {name}", "samples": 3, "max_response_length": 99}
    sets = QuestionSetsSettings.model_validate(other)
    assert sets.built_before("micro-train") == ["micro-eval"]
    assert sets.built_before("micro-eval") == []
    for name in ("micro-eval", "micro-train"):
        command = ["questions", f"--settings={sets.of(name).model_dump_json()}", f"--output={tmp_path / name}"]
        before = [str(micro_questions / f"{one}.parquet") for one in sets.built_before(name)]
        assert cli.main([*command, *(["--others", *before] if before else [])]) == 0
        assert (tmp_path / name / f"{name}.parquet").read_bytes() == (micro_questions / f"{name}.parquet").read_bytes()


def test_the_prompt_set_has_no_default(words, capsys, tmp_path):
    """Another study's words would pass unnoticed."""
    with pytest.raises(SystemExit):
        cli.main([word for word in words("train") if word != "--prompts=tiny"])
    assert "the following arguments are required: --prompts" in capsys.readouterr().err
    pretraining = '{"source": "pretraining", "label": "M"}'
    assert cli.main(["backbone", "--settings", pretraining, f"--output={tmp_path}/new"]) == 2
    assert "--prompts: a backbone that is pre-trained needs" in capsys.readouterr().err
