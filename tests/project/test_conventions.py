"""The files by which hosts, tools and people know the project: they agree with the Makefile and with one another."""

import re
import tomllib

import pytest
import yaml

import cocal
from started import ROOT

TARGETS = {*re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()}
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "config/README.md", "docs/artifact.md")


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_workflows_and_hooks_call_targets_that_there_are():
    """The workflow tries what the project's own script tries."""
    job, own = yaml.safe_load(_read(".github/workflows/ci.yml"))["jobs"]["make"], _read(".ci/run")
    assert job["steps"][-1]["run"] == "make ${{ matrix.target }}"
    assert {*re.findall(r"^make (\S+)$", own, re.MULTILINE)} <= {*job["strategy"]["matrix"]["target"]} <= TARGETS
    hooks = [hook for repo in yaml.safe_load(_read(".pre-commit-config.yaml"))["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == ["make lint"]


@pytest.mark.parametrize("page", PAGES)
def test_pages_name_targets_and_files_that_there_are(page):
    text = _read(page)
    named = re.findall(r"`make ([a-z][a-z -]*)", text) + re.findall(r"^make (\S+)", text, re.MULTILINE)
    assert {word for names in named for word in names.split()} <= TARGETS
    links = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
    links += re.findall(r"`((?:tests|src|docs|config)/[\w./-]+)`", text) if page != "config/README.md" else []
    base = (ROOT / page).parent
    assert [link for link in links if not any((folder / link).exists() for folder in (base, ROOT))] == []


def test_the_page_on_configuration_names_every_file():
    named = re.findall(r"`([\w./-]+)`", _read("config/README.md"))
    assert {file.name for file in (ROOT / "config").glob("*.yaml")} <= {*named}


def test_versions_and_titles_agree():
    project = tomllib.loads(_read("pyproject.toml"))["project"]
    citation = yaml.safe_load(_read("CITATION.cff"))
    first = re.search(r"^## (\S+)", _read("CHANGELOG.md"), re.MULTILINE)[1]
    assert {project["version"], citation["version"], first} == {cocal.__version__}
    assert citation["license"] == project["license"]
    assert citation["authors"] == project["authors"]
    assert citation["preferred-citation"]["title"] in " ".join(_read("README.md").split())
    assert citation["preferred-citation"]["repository-code"] in project["urls"].values()
