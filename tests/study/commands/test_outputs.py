"""Outputs of commands: nothing of somebody else's is replaced, wrong flags are refused, and refusals leave nothing."""

import json
import os
import pty
import shutil
import socket
import subprocess

import pytest

from cocal import Companion
from cocal.errors import ContractError
from cocal.fitting import fit as fitting
from cocal.store import label_folder, read_frame, write_frame
from cocal_study.store.contracts import QUESTIONS
from own_rollouts import read_lines, run, write_lines


def everything(folder):
    """Every path below a folder, with the bytes of files and the targets of links."""
    return {
        path.relative_to(folder): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


@pytest.fixture
def place(tmp_path, own):
    """A user's folder: a policy, lines with and without confidences, a folder of notes."""
    shutil.copytree(own.checkpoint, tmp_path / "policy", ignore=shutil.ignore_patterns("provenance.json"))
    write_lines(tmp_path / "in.jsonl", own.rollouts, own.texts)
    lines = read_lines(tmp_path / "in.jsonl")
    for name, first in (("scored", 0), ("labelled", 24)):
        scored = [line | {"confidence": 0.1 + place / 90} for place, line in enumerate(lines[first:][:24])]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in scored))
    (tmp_path / "notes/deep").mkdir(parents=True)
    (tmp_path / "notes/thesis.tex").write_text("years of work")
    (tmp_path / "notes/deep/data.csv").write_text("a,b\n")
    (tmp_path / "linked.jsonl").symlink_to("scored.jsonl")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nowhere").symlink_to("gone/away")
    return tmp_path


SCORE = ["score", "--companion", "{companion}", "--model", "{place}/policy", "{place}/in.jsonl"]
FIT = ["fit", "--model", "{place}/policy", "--rollouts", "{place}/in.jsonl", "--output"]
EVALUATE = ["evaluate", "{place}/scored.jsonl", "--output"]
VOTE = ["decide", "vote", "{place}/scored.jsonl", "--output"]
ABSTAIN = ["decide", "abstain", "{place}/scored.jsonl", "--calibration", "{place}/labelled.jsonl", "--output"]
REFUSED = [
    (SCORE, "notes", "is a folder or a device, but the command writes a file"),
    (SCORE, "in.jsonl", "the output is the input"),
    (VOTE, "linked.jsonl", "the output is the input"),
    (ABSTAIN, "labelled.jsonl", "the output is the input"),
    (FIT, "policy", "the output is the input"),
    (FIT, "policy/companion", "the output lies within the input"),
    (FIT, ".", "the output holds the input"),
    (SCORE, "policy/out.jsonl", "the output lies within the input"),
    (FIT, "in.jsonl", "is a file, but the command writes a folder"),
    (FIT, "notes", "notes: exists already; replace it by --overwrite"),
    (EVALUATE, "notes", "notes: exists already; replace it by --overwrite"),
    (SCORE, "in.jsonl/below/out.jsonl", "the output lies within the input"),
    (VOTE, "loop", "loop: is a symbolic link that leads nowhere"),
    (VOTE, "nowhere", "nowhere: is a symbolic link that leads nowhere"),
    (VOTE, "o" * 300, "File name too long"),
    (VOTE, "/dev/null", "is a folder or a device, but the command writes a file"),
    (["compare", "rlcr", "p-true", "--output"], "scored.jsonl", "exists already"),
    (["replicate", "--number", "2", "--study", "{place}/in.jsonl", "--output"], "in.jsonl", "the output is the input"),
    (["spread", "{place}/notes", "{place}/policy", "--output"], "notes", "the output is the input"),
    (["spread", "{place}/deep", "--output"], "notes", "notes: exists already"),
    (["digests", "--write"], "labelled.jsonl", "exists already"),
    (["document", "--tables", "{place}/notes/thesis.tex", "--output"], "notes/thesis.tex", "the output is the input"),
    (["exhibit", "overview", "--output"], "notes/thesis.pdf", "exists already"),
    (["backbone", "--settings={{}}", "--output"], "notes", "notes: exists, and does not say that `cocal backbone`"),
    (["judge", "--questions=q", "--responses=r", "--output"], "in.jsonl", "does not say that `cocal judge` has made"),
    (["metrics", "--predictions=p", "--output=m.nc", "--resamples"], "m.nc", "the output is that of --"),
]
"""Flags, the output, and the refusal."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "output", "message"), REFUSED, ids=[f"{flags[0]}-{output[:20]}" for flags, output, _ in REFUSED]
)
def test_an_output_replaces_nothing_of_somebody_else(place, own, capsys, monkeypatch, flags, output, message):
    monkeypatch.chdir(place)
    (place / "notes/thesis.pdf").write_text("years of printing")
    before = everything(place)
    companion = own.companion if flags is SCORE else ""
    capsys.readouterr()  # what its fit may have said
    words = [flag.format(place=place, companion=companion) for flag in flags]
    assert run(*words, output) == 2
    error = capsys.readouterr().err
    assert error.count("\n") <= 2
    assert message in error
    assert everything(place) == before
    if flags[0] in ("score", "evaluate", "decide") and "exists" not in message:
        assert run(*words, output, "--overwrite") == 2
        assert everything(place) == before


@pytest.fixture
def unusual(place):
    """Outputs that are not plain files, and links to them, by name."""
    os.mkfifo(place / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place / "socket"))
    master, slave = pty.openpty()
    (place / "terminal").symlink_to(os.ttyname(slave))
    (place / "to-pipe").symlink_to("pipe")
    yield ["pipe", "socket", "terminal", "to-pipe"]
    os.close(master)
    os.close(slave)


@pytest.mark.slow
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
def test_an_output_that_is_no_plain_file_stays(place, unusual, overwrite):
    before = everything(place)
    for name in unusual:
        command = ["cocal", "decide", "vote", "scored.jsonl", "--output", name, "--resamples", "20", *overwrite]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), name
        assert f"{name}: " in done.stderr
        assert everything(place) == before
    evaluate = ["evaluate", place / "scored.jsonl", "--resamples", "20", "--output", place / "report", "--overwrite"]
    (place / "report").mkdir()
    os.mkfifo(place / "report/numbers.csv")
    assert run(*evaluate) == 2
    assert (place / "report/numbers.csv").is_fifo()
    assert [file.name for file in (place / "report").iterdir()] == ["numbers.csv"]


def test_an_output_that_links_to_a_file_is_written_there(place):
    """Such as one on a larger disk; the link stays."""
    (place / "disk").mkdir()
    (place / "disk/real.jsonl").touch()
    (place / "link").symlink_to("disk/real.jsonl")
    assert run("decide", "best-of-n", place / "scored.jsonl", "--output", place / "link") == 0
    assert (place / "link").is_symlink()
    assert read_lines(place / "disk/real.jsonl") == read_lines(place / "link") != []
    assert run("decide", "best-of-n", place / "scored.jsonl", "--output", place / "link") == 2


def test_outputs_of_the_same_command_are_replaced(place, own, micro_questions):
    """A companion, question sets beside others, a folder made by Snakemake, an empty folder and an empty file."""
    (place / "empty").touch()
    assert run("decide", "best-of-n", place / "scored.jsonl", "--output", place / "empty") == 0
    (place / "companion").mkdir()
    for seeds in (["42", "137"], ["500"]):
        words = [flag.format(place=place) for flag in FIT]
        small = ["--widths", "8", "--passes", "1", "--seeds", *seeds]
        assert run(*words, place / "companion", *small, "--overwrite") == 0
    assert json.loads((place / "companion/config.json").read_text())["spec"]["settings"]["seeds"] == [500]
    sets = shutil.copytree(micro_questions, place / "sets")
    first = read_frame(sets / "micro-eval.parquet", QUESTIONS)
    source = {"kind": "synthetic-mathematics", "questions": 5, "levels": {1: 1}}
    question_set = {"label": "A", "role": "evaluation", "domain": "mathematics", "source": source}
    settings = {"datasets": {"a": question_set}, "world": {"people": 10}}
    command = ("questions", "--settings", json.dumps(settings), "--output", sets)
    assert run(*command) == run(*command) == 0
    write_frame(sets / "b.parquet", first, QUESTIONS, {"stage": "judge"})
    assert run(*command) == 2


def test_a_saved_companion_replaces_no_other_model(place, own):
    before = everything(place)
    with pytest.raises(ContractError, match=r"policy: its config\.json is not a companion's"):
        Companion.from_pretrained(own.companion).save_pretrained(place / "policy")
    (place / "notes/README.md").write_text("# Thesis")
    with pytest.raises(ContractError, match=r"notes: its README\.md is not a companion's"):
        Companion.from_pretrained(own.companion).save_pretrained(place / "notes")
    (place / "notes/README.md").unlink()
    assert everything(place) == before


WRONG_VALUES = {
    "fit --correct-above": ["nan", "inf", "so"],
    "fit --seeds": ["-1", str(2**32), "one"],
    "fit --layer": ["-1", "0.5"],
    "fit --field": ["a", "=b", "a="],
    "fit --template-field": ["thinking", "=true"],
    "fit --passes": ["0", "-3", "2.5", "many", "9" * 5000],
    "score --name": ["", " ", "confidence_ids"],
    "evaluate --resamples": ["0", "19"],
    "decide abstain --threshold": ["nan", "7", "-0.1", "inf", "high"],
    "decide abstain --max-risk": ["0", "1", "nan", "1.5"],
    "decide abstain --delta": ["0", "1"],
    "compare --step": ["-1", "last"],
    **{flag: ["0"] for flag in ("fit --widths", "score --batch-tokens")},
}


@pytest.mark.parametrize("flag", WRONG_VALUES)
def test_a_value_that_means_nothing_is_refused(capsys, flag):
    *command, name = flag.split()
    for value in WRONG_VALUES[flag]:
        with pytest.raises(SystemExit):
            run(*command, f"{name}={value}")
        assert f"argument {name}: {value!r} is not " in capsys.readouterr().err


@pytest.mark.parametrize(("fitted", "warned"), [(None, True), (4, True), (5, False)], ids=["unsaid", "other", "same"])
def test_a_checkpoint_of_another_step_is_warned_of(place, own, caplog, fitted, warned):
    """The companion learnt from steps 1 to 3; that counts where it does not say the step of its policy."""
    label_folder(place / "policy", {"stage": "train", "step": "5"})
    companion = shutil.copytree(own.companion, place / "companion")
    about = json.loads((companion / "config.json").read_text())
    del about["provenance"]  # with the seal, as in an older companion
    assert about["base_model"]["step"] == 0  # own.checkpoint is a study's base policy
    about["base_model"]["step"] = fitted
    (companion / "config.json").write_text(json.dumps(about))
    words = [flag.format(place=place, companion=companion) for flag in SCORE]
    assert run(*words, place / "out.jsonl") == 0
    learnt = about["spec"]["steps"] if fitted is None else fitted
    assert (f"is step 5 of the policy, but the companion was fitted for step {learnt}" in caplog.text) == warned


def changed(lines, place=2, **values):
    return [line | values if number == place else line for number, line in enumerate(lines)]


UNKNOWN = "response token 1 is 99999, outside the model's vocabulary of 384; give the model that"
REFUSALS = [
    (SCORE, lambda lines: changed(lines, response_ids=[3, 99999]), [], f"line 3: {UNKNOWN}"),
    (SCORE, None, ["--seed", "7"], "the companion has no seed 7"),
    (SCORE, None, ["--target", "group"], "the companion has no target 'group'"),
    (SCORE, None, ["--model", "/nowhere/model"], "/nowhere/model: is neither a folder of a model"),
    (
        SCORE,
        None,
        ["--companion", "/nowhere/companion"],
        "is neither a folder of a companion (`cocal fit` makes one)",
    ),
    (SCORE, None, ["--field", "response=nothing"], "there is no such field for --field response=nothing"),
    (SCORE, lambda lines: [], [], "the file is empty; give a file with a JSON object in every line"),
    (FIT, lambda lines: [line | {"correct": True} for line in lines], [], "all 60 responses, from "),
    (FIT, lambda lines: lines[::4], ["--target", "group"], "but the group target needs several"),
    (FIT, None, ["--layer", "9"], "the model has blocks 0 to 1"),
    (FIT, None, ["--seeds", "1", "1"], "seeds"),
    (FIT, None, ["--rollouts", "/nowhere"], "there is no such file or folder of rollouts"),
]


@pytest.mark.parametrize(("words", "change", "flags", "message"), REFUSALS, ids=[one[3][-25:] for one in REFUSALS])
def test_a_refusal_names_its_cause_and_leaves_nothing_behind(place, own, capsys, words, change, flags, message):
    if change:
        lines = change(read_lines(place / "in.jsonl"))
        (place / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = everything(place)
    words = [flag.format(place=place, companion=own.companion) for flag in words]
    assert run(*words, place / "new", *flags) == 2
    assert message in capsys.readouterr().err
    assert everything(place) == before


def test_a_refusal_keeps_the_work_of_a_killed_run(place, own, monkeypatch):
    """The companion is fitted by a run that is killed; the next one is refused by its flags, the last one goes on."""
    words = [flag.format(place=place) for flag in FIT]
    small = ["--widths", "8", "--passes", "1", "--seeds", "42"]
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "best", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(*words, place / "companion", *small) == 130
        patch.setattr(fitting, "best", lambda *_: (_ for _ in ()).throw(ContractError("refused")))
        assert run(*words, place / "companion", *small) == 2
    states = everything(place / ".companion.fit")
    assert len(states) > 5
    assert not list(place.glob(".*.lock"))
    with monkeypatch.context() as patch:
        patch.setattr(fitting, "states_and_tokens", None)  # they are not computed again
        assert run(*words, place / "companion", *small) == 0
    assert not (place / ".companion.fit").exists()
