"""Every command of the README is run, in a form that is cheap; one that this module cannot run fails."""

import re
import shlex
import shutil
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml

import started
from cocal import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""Code blocks; those without a language hold commands."""


def _commands(text: str) -> list[str]:
    """The commands of a Markdown text, each once: lines of its code blocks, and code within sentences that begins with
    the name of a program or is a flag."""
    lines = [line for language, block in BLOCK.findall(text) if not language for line in block.splitlines()]
    found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
    found += [code for code in inline if re.match(r"(snakemake|cocal|make) |(snakemake|cocal|make)$|--", code)]
    return list(dict.fromkeys(filter(None, found)))


def _said(*words: str, fails: bool = False, cwd: Path = ROOT) -> str:
    done = started.run(words, cwd)
    assert (done.returncode != 0) == fails, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@cache
def _help(*words: str) -> str:
    if words[0] == "snakemake":
        return _said("snakemake", "--help")
    with redirect_stdout(StringIO()) as printed, suppress(SystemExit):
        cli.main([*words[1:], "--help"])
    return printed.getvalue()


def _snakemake(words: list[str]) -> None:
    """A dry-run into an empty folder; a report comes as far as the missing files."""
    if shutil.which("conda") is None and "--sdm" in words:
        start = words.index("--sdm")
        words = words[:start] + words[start + 2 :]
    if "--directory" in words:  # a folder of this test's instead
        start = words.index("--directory")
        words = words[:start] + words[start + 2 :]
    _start_snakemake(*(word for word in words if word != "-n"))


@cache
def _start_snakemake(*words: str) -> None:
    with TemporaryDirectory() as folder:
        command = ["snakemake", *words, "--directory", folder]
        if "--report" in words:
            assert "claims.html marked for report but does not exist" in _said(*command, fails=True)
        elif "--unlock" in words:
            assert "Unlocked" in _said(*command)
        else:
            assert "Job stats:" in _said(*command, "--dry-run")


def _cocal(words: list[str]) -> None:
    """The help of the command, which must know the flags; a plan is cheap."""
    text = _help("cocal", *words[: 2 if words[0] == "decide" else 1])  # its ways have flags of their own
    assert "usage:" in text
    for flag in words:
        assert not flag.startswith("--") or flag in text
    if words[0] == "plan":
        with TemporaryDirectory() as folder:
            assert "GPU-hours" in _said("cocal", *words, "--directory", folder)


def _make(words: list[str]) -> None:
    assert "\n" in _said("make", "--dry-run", *words), "nothing would be done"


def _flag(words: list[str]) -> None:
    """A flag of Snakemake with its value is tried; one that is only named must be a flag of Snakemake or of ours."""
    if len(words) > 1:
        return _snakemake(words)
    ours = "".join(path.read_text() for path in (ROOT / "src/cocal/commands").rglob("*.py"))
    assert re.search(rf"{words[0]}\b", _help("snakemake")) or re.search(rf'"{words[0]}[" ]', ours)


def _shell(words: list[str]) -> None:
    """`source .venv/bin/activate`, after `make`, and variables that something reads."""
    for name in re.findall(r"\bCOCAL_SLURM_(\w+)(?==)", " ".join(words)):
        assert _said("grep", "-r", name, "src", "workflow"), f"nothing reads {name}"
    assert "=" in words[0] or words == [".venv/bin/activate"]


RUNNERS = {"snakemake": _snakemake, "cocal": _cocal, "make": _make, "export": _shell, "source": _shell}


def _try(command: str) -> None:
    program, *words = shlex.split(command)
    if program.startswith("--"):
        return _flag([program, *words])
    assert program in RUNNERS, f"README.md: no test knows how to run {command!r}"
    RUNNERS[program](words)


def _marked(command: str):
    """Commands that start Snakemake take seconds."""
    starts = re.match(r"snakemake|cocal plan|--[\w-]+ ", command)
    return pytest.param(command, marks=pytest.mark.slow if starts else [])


@pytest.mark.parametrize("command", list(map(_marked, _commands(README))))
def test_every_command_of_the_readme_runs(command):
    _try(command)


@pytest.mark.slow
def test_a_wrong_command_would_be_noticed():
    text = "Type `cocal plan --studie x`, `make\nnothing-of-that-name` or `--confg a=b` and `--config\na`; "
    text += "`results/` is no command.\n\n"
    text += '```\nsnakemake --config \'{"companion": {"passes": 10}}\'   # JSON\n  trainer --fast\n```\n'
    commands = _commands(text)
    assert len(commands) == 6
    for command in commands:
        with pytest.raises(AssertionError):
            _try(command)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--directory", "studies/mine"]])
def test_the_example_of_an_imported_training_plans_as_written(tmp_path, flags):
    """In a study that is otherwise the paper's and trains GRPO alone, the default; its paths start at the checkout."""
    for name in ("Snakefile", "workflow", "config", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    example = next(yaml.safe_load(block) for language, block in BLOCK.findall(README) if "imported:" in block)
    study = yaml.safe_load((ROOT / "config/paper.yaml").read_text()) | example
    del study["policy"]["algorithms"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    for folder in ("checkpoints/base", "runs/iter39", "runs/iter79", "runs/iter119", "runs/dump"):
        (tmp_path / folder).mkdir(parents=True)
    text = _said("snakemake", "--dry-run", "--configfile", "mine.yaml", "--cores", "1", *flags, cwd=tmp_path)
    planned = dict(re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE))
    assert {"import_grpo", "import_rollouts", "existing_backbone", "figure_reliability"} <= set(planned)
    assert not {"train_grpo", "train_rlcr", "figure_cross_policy", "table_cost", "table_scale"} & set(planned)
