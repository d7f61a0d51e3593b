"""The environments name the versions that were tested together."""

import re
import tomllib

import yaml


def _pins(lines) -> dict[str, str]:
    pinned = (re.fullmatch(r"([A-Za-z0-9_.-]+)==(\S+)", line.strip()) for line in lines)
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2] for match in pinned if match}


def test_conda_environments_hold_the_dependencies_at_the_constrained_versions(repository):
    constraints = _pins((repository / "constraints.txt").read_text().splitlines())
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[A-Za-z0-9_.-]+", d)[0].lower() for d in project["dependencies"]}
    assert needed <= set(constraints)
    environment = yaml.safe_load((repository / "envs/cocal.yaml").read_text())
    pip = next(entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    assert pip[0] == "torch==2.13.0", "torch comes first, or its newest build is taken"
    found = _pins(pip)
    assert set(found) == needed
    assert found == {name: constraints[name] for name in found}
