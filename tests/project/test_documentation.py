"""README and documentation: every command is known, and the site is built."""

import re
import shlex
import shutil
import sys
import tomllib
from contextlib import redirect_stdout, suppress
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
import yaml
from snakemake.cli import get_argument_parser, parse_config

import started
from cocal import cli
from cocal_study.config.study import configured_study
from cocal_study.stages import MODULES
from cocal_study.stages.base import flags_of
from planned_jobs import jobs_of
from started import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = README + "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
SNAKEMAKE = get_argument_parser()
BLOCK = re.compile(r"^ *```([^`\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
"""Code blocks; those without a language hold commands."""


def _commands(text: str) -> list[str]:
    """The commands of a Markdown text, each once: lines of its code blocks, and code within sentences that begins with
    the name of a program or is a flag."""
    lines = [line for language, block in BLOCK.findall(text) if not language for line in block.splitlines()]
    found = [shlex.join(shlex.split(line, comments=True)) for line in lines]
    inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", BLOCK.sub("", text))]
    found += [code for code in inline if re.match(r"(snakemake|cocal|make|pip) |(snakemake|cocal|make)$|--", code)]
    return list(dict.fromkeys(filter(None, found)))


def _said(*words: str, cwd: Path = ROOT) -> str:
    done = started.run(words, cwd)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout + done.stderr


@cache
def _help(*words: str) -> str:
    with redirect_stdout(StringIO()) as printed, suppress(SystemExit):
        cli.main([*words, "--help"])
    return printed.getvalue()


def _snakemake(words: list[str]) -> None:
    """Snakemake knows the options, the study is one, and the targets are among what it makes."""
    options = SNAKEMAKE.parse_args(words)
    assert all((ROOT / profile / "config.yaml").exists() for profile in options.profile or ())
    files = options.configfile or [Path("config/config.yaml")]
    study = configured_study([ROOT / file for file in files], parse_config(options.config))
    assert not options.targets or {*options.targets} <= jobs_of(study).keys()


def _cocal(words: list[str]) -> None:
    """The help of the command knows the flags."""
    named = [word for word in words[: 1 + ("decide" in words)] if not word.startswith("--")]  # its ways have own flags
    text = _help(*named)
    assert "usage:" in text
    assert all(not word.startswith("--") or word in text for word in words)


def _make(words: list[str]) -> None:
    assert "\n" in _said("make", "--dry-run", *words), "nothing would be done"


def _flag(words: list[str]) -> None:
    """A flag of Snakemake with its value, or one that is only named, of Snakemake or of ours."""
    if len(words) > 1:
        return _snakemake(words)
    ours = "".join(path.read_text() for path in ROOT.glob("src/*/commands/**/*.py"))
    ours += "".join(f'"{one.name}"' for names in MODULES.values() for name in names for one in flags_of(name))
    assert re.search(rf"{words[0]}\b", SNAKEMAKE.format_help()) or re.search(rf'"{words[0]}[" ]', ours)


def _shell(words: list[str]) -> None:
    """`source .venv/bin/activate`, after `make`, and variables that something reads."""
    for name in re.findall(r"\bCOCAL_SLURM_(\w+)(?==)", " ".join(words)):
        assert _said("grep", "-r", name, "src", "workflow"), f"nothing reads {name}"
    assert "=" in words[0] or words == [".venv/bin/activate"]


def _pip(words: list[str]) -> None:
    """`pip install` of this checkout, with extras that it has, and `-e` or not."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    command, *places = words
    assert command == "install"
    for place in set(places) - {"-e", "./src"}:
        assert {*filter(None, re.fullmatch(r"\.(?:\[(.*)\])?", place).groups())} <= {*extras}


def _copy(words: list[str]) -> None:
    """`cp` of files of this checkout into one of its folders."""
    *files, folder = words
    assert (ROOT / folder).is_dir()
    assert all([*ROOT.glob(file)] for file in files)


RUNNERS = {
    "cp": _copy,
    "snakemake": _snakemake,
    "cocal": _cocal,
    "make": _make,
    "pip": _pip,
    "export": _shell,
    "source": _shell,
}


@pytest.mark.parametrize("command", _commands(PAGES))
def test_every_command_is_known(command):
    program, *words = shlex.split(command)
    if program.startswith("--"):
        return _flag([program, *words])
    assert program in RUNNERS, f"README.md or docs: no test knows how to run {command!r}"
    RUNNERS[program](words)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [[], ["--directory", "studies/mine"]])
def test_the_example_of_an_imported_training_plans_as_written(tmp_path, flags):
    """In a study that is otherwise the paper's and trains GRPO alone, the default; its paths start at the checkout."""
    for name in ("Snakefile", "workflow", "config", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    example = next(yaml.safe_load(block) for language, block in BLOCK.findall(PAGES) if "imported:" in block)
    study = yaml.safe_load((ROOT / "config/paper.yaml").read_text()) | example
    del study["policy"]["algorithms"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(study))
    for folder in ("checkpoints/base", "runs/iter39", "runs/iter79", "runs/iter119", "runs/dump"):
        (tmp_path / folder).mkdir(parents=True)
    text = _said("snakemake", "--dry-run", "--configfile", "mine.yaml", "--cores", "1", *flags, cwd=tmp_path)
    planned = dict(re.findall(r"^(\w+) +(\d+)$", text, re.MULTILINE))
    assert {"import_grpo", "import_rollouts", "existing_backbone", "figure_reliability"} <= set(planned)
    assert not {"train_grpo", "train_rlcr", "figure_cross_policy", "table_cost", "table_scale"} & set(planned)


def test_the_readme_is_short():
    assert len(README.split()) <= 1200


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    """Links between pages are checked. A key, a command and a column of a table have found their way into it."""
    pages = shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("_build", "reference"))
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    said = _said(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-b", "html", pages, tmp_path / "site")
    assert "build succeeded" in said
    held_by = {"configuration": "advantage_scale", "commands": "--max-risk", "contracts": "group_accuracy"}
    for page, held in held_by.items():
        assert held in (tmp_path / f"site/reference/{page}.html").read_text(encoding="utf-8")
