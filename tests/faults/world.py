"""The files that the campaign damages: a policy of one's own with its rollouts, and a finished smoke study."""

import json
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support")]

import started  # noqa: E402 (its folder is in the path only now)
from smoke_study import CONFIG, flags_of  # noqa: E402

SMALL = "--widths 16 8 --seeds 42 137 --passes 2"
"""Flags of a small companion."""
LIGHT = ("companions", "features", "predictions", "metrics", "recalibrate", "checks", "exhibit", "landing")
"""Stages of the study whose jobs take a second or two; together they read every kind of file."""

WRITTEN = ("--output", "--run-folder", "--cost", "--resamples")
"""Flags of what these jobs write."""


@dataclass(frozen=True)
class Command:
    """A command, and the files and folders that it reads and writes, relative to the folder of the world."""

    words: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def make_own(folder: Path) -> dict[str, Command]:
    """A policy, its rollouts in every format, a companion and scored lines; the commands about them by name."""
    import dumps
    from cocal.models.loading import load_policy
    from cocal.store import write_frame
    from cocal.store.contracts import RESPONSES
    from micro import MICRO_POLICY, MICRO_SETS, own_copy
    from own_rollouts import OwnPolicy, write_lines

    folder.mkdir(parents=True)
    questions = folder / "questions"
    _cocal(folder, "questions", "--settings", json.dumps(MICRO_SETS), "--output", questions)
    words = ["backbone", "--settings", json.dumps(MICRO_POLICY), "--prompts", "tiny", "--output", "base"]
    _cocal(folder, *words, "--questions", *sorted(questions.glob("*.parquet")))
    own_copy(folder / "base", folder / "model")
    own = OwnPolicy(folder / "model", load_policy(folder / "model"), questions / "micro-train.parquet", folder)
    rollouts, tokenizer = own.rollouts, own.policy.tokenizer
    assert own.verl
    dumps.write_slime(folder / "slime", rollouts, tokenizer)
    dumps.write_completions(folder / "trl", rollouts, own.questions, spacing=2)
    dumps.write_traces(folder / "traces", rollouts)
    for step, frame in rollouts.groupby("step"):
        write_frame(folder / "tables" / f"step-{step:05d}.parquet", frame, RESPONSES, {})
    (folder / "lines").mkdir()
    write_lines(folder / "lines/1.jsonl", rollouts, own.texts)
    asked = rollouts["question_id"].isin(rollouts["question_id"].unique()[:5])
    some = rollouts[asked].reset_index(drop=True)
    write_lines(folder / "in.jsonl", some, own.texts, text=list(some["text"]))
    write_lines(folder / "others.jsonl", rollouts[~asked], own.texts)
    fit = f"fit --model model {SMALL} --output out --rollouts"
    more = {"slime": " --field reward=acc", "traces": " --correct-above 0"}
    commands = {
        f"fit {name}": Command((*fit.split(), name, *more.get(name, "").split()), (name,), ("out",))
        for name in ("verl", "slime", "trl", "traces", "tables", "lines")
    }
    score = ("score", "--companion", "companion", "--model", "model")
    commands |= {
        "score": Command((*score, "in.jsonl", "out"), ("in.jsonl", "companion", "model"), ("out",)),
        "evaluate": _reads("evaluate scored.jsonl --output out --resamples 20", "scored.jsonl"),
        "vote": _reads("decide vote scored.jsonl --field response=text --output out --resamples 20", "scored.jsonl"),
        "abstain": _reads(
            "decide abstain scored.jsonl --calibration labelled.jsonl --max-risk 0.9 --delta 0.3 --output out",
            *("scored.jsonl", "labelled.jsonl"),
        ),
    }
    _cocal(folder, *fit.replace("out ", "companion ").split(), "lines")
    _cocal(folder, *score, "in.jsonl", "scored.jsonl")
    _cocal(folder, *score, "others.jsonl", "labelled.jsonl")
    return commands


def _reads(words: str, *files: str) -> Command:
    return Command(tuple(words.split()), files, ("out",))


def _cocal(folder: Path, *words: object) -> None:
    done = started.run(["cocal", *words], folder)
    assert done.returncode == 0, done.stderr


def make_study(folder: Path, finished: Path | None) -> dict[str, Command]:
    """The smoke study, made here or copied from where it is finished; its light jobs by what they write."""
    snakemake = ["snakemake", *flags_of(folder, CONFIG)]
    if finished:
        shutil.copytree(finished, folder, symlinks=True)
    else:
        started.said(snakemake)
    planned = started.run([*snakemake, "--dry-run", "--forceall", "--printshellcmds"])
    said = planned.stdout + planned.stderr
    assert planned.returncode == 0, said
    commands = {}
    for line in re.findall(r"^Shell command: (?:CUDA_VISIBLE_DEVICES= )?(cocal .*)$", said, re.MULTILINE):
        words = shlex.split(re.split(r" (?:>|2>&1) ", line)[0])[1:]
        if words[0] not in LIGHT:
            continue
        reads, writes = _paths(words, folder)
        commands[f"{words[0]} {writes[0]}"] = Command(tuple(words), tuple(reads), tuple(writes))
    return commands


def _paths(words: list[str], folder: Path) -> tuple[list[str], list[str]]:
    """Files and folders of results/ that a command reads, and those that it writes."""
    reads, writes, flag = [], [], ""
    for word in words:
        if word.startswith("--"):
            flag = word
        elif (found := re.search(r"(?:^|=)(results/.*)", word)) and not word.startswith("{"):
            (writes if flag.startswith(WRITTEN) else reads).append(found[1])
    return [path for path in reads if (folder / path).exists()], writes
