"""Every command of the README is run, in a form that is cheap; one that this module cannot run fails."""

import re
import shlex
import shutil
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

import started
from cocal import cli
from cocal.resources import forecast

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""Code blocks; those without a language hold commands."""
PROGRAMS = ("snakemake", "cocal", "make")
SHELL = ("export", "source")
"""Words of the shell that commands of the README prepare with."""


def _commands(text: str) -> list[str]:
    """The commands of a Markdown text, each once: lines of its code blocks, and code within sentences that begins with
    the name of a program or is a flag."""
    lines = [line for language, block in BLOCK.findall(text) if not language for line in block.splitlines()]
    found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
    found += [code for code in inline if code.partition(" ")[0] in PROGRAMS or code.startswith("--")]
    return list(dict.fromkeys(filter(None, found)))


def _run(repository: Path, words: list[str]) -> tuple[int, str]:
    if words[0] == "snakemake":
        done = started.snakemake(words[1:], repository)
    else:
        if words[0] == "cocal":
            words = ["cocal", *words[1:]]
        done = subprocess.run(words, check=False, capture_output=True, text=True, cwd=repository)
    return done.returncode, done.stdout + done.stderr


def _snakemake(repository: Path, folder: Path, words: list[str]) -> None:
    """A dry-run into an empty folder. Only the report cannot be tried so; it must come as far as the missing files."""
    if shutil.which("conda") is None and "--sdm" in words:
        start = words.index("--sdm")
        words = words[:start] + words[start + 2 :]
    flags = [] if {"--report", "--unlock"} & set(words) else ["--dry-run"]
    status, text = _run(repository, ["snakemake", *flags, *words, "--directory", str(folder)])
    if "--report" in words:
        assert "claims.html marked for report but does not exist" in text
    else:
        assert status == 0, text[-3000:]
        assert ("Unlocked" if "--unlock" in words else "Job stats:") in text


def _cocal(repository: Path, folder: Path, words: list[str]) -> None:
    """The help of the command, which must know the flags; a plan is cheap."""
    named = words[:2] if words[0] == "decide" else words[:1]  # its ways have flags of their own
    status, text = _run(repository, ["cocal", *named, "--help"])
    assert status == 0, text
    for flag in words:
        assert not flag.startswith("--") or flag in text
    if words[0] == "plan":
        _plan(repository, ["plan", *words[1:], "--directory", str(folder)])


def _plan(repository: Path, words: list[str]) -> None:
    """With the dry-run in a fork; test_estimate.py has one as a user has it."""
    printed = StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(repository)
        forked = SimpleNamespace(run=lambda command, **_: started.snakemake(command[3:]))
        patch.setattr(forecast, "subprocess", forked)
        assert cli.main(words) == 0
    assert "GPU-hours" in printed.getvalue()


def _make(repository: Path, folder: Path, words: list[str]) -> None:
    status, text = _run(repository, ["make", "--dry-run", *words])
    assert status == 0, text
    assert "\n" in text, "nothing would be done"


def _flag(repository: Path, folder: Path, words: list[str]) -> None:
    """A flag of Snakemake with its value is tried; one that is only named must be a flag of Snakemake or of ours."""
    if len(words) > 1:
        return _snakemake(repository, folder, words)
    _, text = _run(repository, ["snakemake", "--help"])
    ours = "".join(path.read_text() for path in (repository / "src/cocal/commands").glob("*.py"))
    assert re.search(rf"{words[0]}\b", text) or f'"{words[0]}"' in ours


def _shell(repository: Path, folder: Path, words: list[str]) -> None:
    """`source .venv/bin/activate`, after `make`, and variables that something reads."""
    for name in re.findall(r"\bCOCAL_\w+(?==)", " ".join(words)):
        status, _ = _run(repository, ["grep", "-rq", name.removeprefix("COCAL_SLURM_"), "src", "workflow"])
        assert status == 0, f"nothing reads {name}"
    assert "=" in words[0] or words == [".venv/bin/activate"]


RUNNERS = {"snakemake": _snakemake, "cocal": _cocal, "make": _make} | dict.fromkeys(SHELL, _shell)


def _try(repository: Path, folder: Path, command: str) -> None:
    program, *words = shlex.split(command)
    if program.startswith("--"):
        return _flag(repository, folder, [program, *words])
    assert program in RUNNERS, f"README.md: no test knows how to run {command!r}"
    RUNNERS[program](repository, folder, words)


@pytest.mark.parametrize("command", _commands(README))
def test_every_command_of_the_readme_runs(repository, tmp_path, command):
    _try(repository, tmp_path, command)


def test_a_wrong_command_would_be_noticed(repository, tmp_path):
    text = "Type `cocal plan --studie x`, `make\nnothing-of-that-name` or `--confg a=b` and `--config\na`; "
    text += "`results/` is no command.\n\n"
    text += '```\nsnakemake --config \'{"companion": {"passes": 10}}\'   # JSON\n  trainer --fast\n```\n'
    commands = _commands(text)
    assert len(commands) == 6
    for command in commands:
        with pytest.raises(AssertionError):
            _try(repository, tmp_path, command)


@pytest.mark.parametrize("flags", [[], ["--directory", "studies/mine"]])
def test_the_example_of_an_imported_training_plans_as_written(repository, tmp_path, flags):
    """In a study that is otherwise the paper's and trains GRPO alone, the default; its paths start at the checkout."""
    for name in ("Snakefile", "workflow", "config", "profiles"):
        (tmp_path / name).symlink_to(repository / name)
    example = next(yaml.safe_load(block) for language, block in BLOCK.findall(README) if "imported:" in block)
    study = yaml.safe_load((repository / "config/paper.yaml").read_text()) | example
    del study["policy"]["algorithms"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    for folder in ("checkpoints/base", "runs/iter39", "runs/iter79", "runs/iter119", "runs/dump"):
        (tmp_path / folder).mkdir(parents=True)
    command = ["snakemake", "--dry-run", "--configfile", "mine.yaml", "--cores", "1", *flags]
    status, text = _run(tmp_path, command)
    assert status == 0, text[-3000:]
    planned = dict(re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE))
    assert {"import_grpo", "import_rollouts", "existing_backbone", "figure_reliability"} <= set(planned)
    assert not {"train_grpo", "train_rlcr", "figure_cross_policy", "table_cost", "table_scale"} & set(planned)
