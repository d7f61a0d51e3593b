"""Every key of a study changes exactly the jobs that depend on it; what is made from them follows along the plan."""

import os
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from cocal_study.config.parse import validate
from cocal_study.config.study import Study, load_study
from planned_jobs import FIXED_BASELINES, ROOT, jobs_of
from sample_predictions import OURS

CONFIG = ROOT / "config/smoke.yaml"
FILE = Path(__file__).with_name("reruns.txt")
TABLE = FILE.read_text(encoding="utf-8").splitlines()
EDITS = {line.partition(" = ")[0]: line.partition(" = ")[2] for line in TABLE if line and not line.startswith("#")}
"""By key: another value, and the labels of the jobs that it changes. `COCAL_RENEW=1 pytest` writes the jobs anew."""
SHAPE = {
    "study",
    "card",
    *(f"policy.{key}" for key in ("algorithms", "dataset", "engine", "steps", "stages", "trl.shard")),
}
SHAPE |= {f"corpus.{domain}_wording.{key}" for domain in ("mathematics", "facts") for key in ("paraphrases", "remarks")}
"""Keys that no other value fits alone, or that make it another study."""


@pytest.fixture(scope="module")
def before():
    return jobs_of(validate(Study, _content(), "before"))


def _content() -> dict:
    """The study with a micro_batch that divides the rollouts of a step, whatever key of it changes alone."""
    content = yaml.safe_load(CONFIG.read_text())
    content["policy"]["micro_batch"] = 4
    content["estimators"] = content.get("estimators", {}) | {"methods": list(OURS)}
    content["reports"] |= {"baselines": list(FIXED_BASELINES)}
    return content


def dependence(job):
    """Everything on which a job depends."""
    return job and (job.parameters, {*job.inputs})


@pytest.mark.parametrize("key", EDITS)
def test_a_key_changes_the_jobs_that_depend_on_it(before, key):
    value, _, expected = EDITS[key].partition(" ->")
    content = _content()
    *path, last = key.split(".")
    place = content
    for part in path:
        place = place.setdefault(part, {})
    place[last] = yaml.safe_load(value)
    after = jobs_of(validate(Study, content, key))
    changed = {job.label for output, job in after.items() if dependence(job) != dependence(before.get(output))}
    if os.environ.get("COCAL_RENEW"):  # in one process
        lines = FILE.read_text(encoding="utf-8").splitlines()
        told = f"{key} = {value} -> {', '.join(sorted(changed - {'table_hyperparameters'}))}".rstrip()
        renewed = [told if line.startswith(f"{key} = ") else line for line in lines]
        FILE.write_text("\n".join([*renewed, ""]), encoding="utf-8")
        pytest.fail(f"{FILE} is written anew (COCAL_RENEW); read its diff, and run the test without the variable")
    assert changed == {*filter(None, expected.strip().split(", ")), "table_hyperparameters"}


def _keys(model, before=""):
    """Dotted keys of a study; one of the evaluation sets and the first backbone stand for the others of their kind."""
    for name in type(model).model_fields:
        value, key = getattr(model, name), f"{before}{name}"
        if isinstance(value, BaseModel):
            yield from _keys(value, f"{key}.")
        elif isinstance(value, dict) and value and all(isinstance(one, BaseModel) for one in value.values()):
            for item in value:
                yield from _keys(value[item], f"{key}.{item}.")
        else:
            yield key


def test_the_table_knows_every_key():
    alike = ("smoke-large", "smoke-deep")
    last = {"role", "domain", "kind", "source", "imported", "start"}
    for key in _keys(load_study(CONFIG)):
        if any(name in key for name in alike) or key.rpartition(".")[2] in last:
            continue
        inside = any(key.startswith(f"{other}.") for other in ("generation.engine", "judge"))
        assert key in EDITS or inside or any(key.endswith(shape) for shape in SHAPE), f"{key}: what does it rerun?"
