"""The plans of the smoke and the paper study: what each product is made from, and what commands are told."""

import json
from collections.abc import Iterable
from itertools import chain, groupby
from pathlib import Path

import pytest
from pydantic import BaseModel

from cocal.store.damage import product_of, remedy
from cocal_study.config.method import Baseline
from cocal_study.config.study import Study
from cocal_study.exhibits import recalibrated
from cocal_study.planning.baselines import BASELINES, baselines_of
from cocal_study.questions.registry import Registry
from golden import assert_golden
from planned_jobs import IMPORTED, ROOT, PlannedJob, fixed_study, jobs_of, study_of

GOLDEN = Path(__file__).parent / "golden"
STUDIES = ("smoke", "paper")


_SAID = {"algorithm", "backbone", "step", "output", "cost"}


class Named:
    """Prompt texts whose digest is the names of their formats."""

    def digest(self, *formats, domain="mathematics"):
        return f"{'+'.join(formats)}@{domain}"


def each(study: Study, *texts) -> list[PlannedJob]:
    """Every job of a study once, by its first product."""
    jobs = jobs_of(study, *texts).values()
    return sorted({id(job): job for job in jobs}.values(), key=lambda job: job.outputs)


def _said(value, study: Study) -> str:
    """A setting: settings of a part of the study by the name of the part, with what differs from it."""
    if isinstance(value, BaseModel):
        of_study = [name for name in type(study).model_fields if type(getattr(study, name)) is type(value)]
        content = value.model_dump(mode="json")
        if isinstance(value, Registry):
            return ", ".join(value.sets)
        if len(of_study) != 1:
            return json.dumps(content)
        part = getattr(study, of_study[0]).model_dump(mode="json")
        changed = {name: one for name, one in content.items() if one != part[name]}
        return f"study.{of_study[0]}" + (f" with {json.dumps(changed)}" if changed else "")
    return json.dumps(
        value, default=lambda one: one.model_dump(mode="json") if isinstance(one, BaseModel) else str(one)
    )


def planned(study: Study) -> list[tuple[str, ...]]:
    """By job: what it makes, is told and waits for, and the prompt texts that it depends on. What its outputs say
    (`_SAID`) is left out where they do."""
    found = []
    for job in each(study, Named(), "judge"):
        said = {part.removeprefix("step-") for file in job.outputs for part in Path(file).with_suffix("").parts}
        said |= {place for file in job.outputs for place in (file, str(Path(file).parent))}
        settings = {name: _said(value, study).replace(f"{ROOT}/", "") for name, value in sorted(job.settings.items())}
        told = [
            f"  {name} = {value}"
            for name, value in settings.items()
            if name not in _SAID or value.strip('"') not in said
        ]
        waits = [file for file in job.inputs if not any(f'"{file}"' in one for one in told)]
        texts = [f"  texts {job.texts}"] if job.texts else []
        waits = [f"  waits for {files}" for files in _by_folder(waits)]
        found.append((f"{job.label}: {' '.join(_by_folder(job.outputs))}", *told, *waits, *texts))
    return found


def _by_folder(files: Iterable[str]) -> list[str]:
    """Files, of which those that follow one another in one folder stand in braces."""
    folders = ((folder, [*inside]) for folder, inside in groupby(map(Path, files), lambda file: file.parent))
    return [f"{at}/{{{','.join(one.name for one in of)}}}" if of[1:] else str(of[0]) for at, of in folders]


@pytest.mark.parametrize("name", STUDIES)
def test_every_job_reads_makes_and_is_told_what_somebody_has_read(name):
    """Files by stage, companions with their steps, targets and order, sets with their samples and lengths."""
    assert_golden(GOLDEN / f"{name}.txt", chain(*planned(fixed_study(name))))


@pytest.mark.parametrize("name", STUDIES)
def test_an_error_advises_to_delete_what_the_workflow_makes_again(name, tmp_path, monkeypatch):
    """It would not notice that a single file of a folder is gone."""
    jobs = jobs_of(study_of(name))
    monkeypatch.chdir(tmp_path)
    for output in jobs:
        inner = "part/file" if not Path(output).suffix or output.endswith(".zarr") else ""
        assert product_of(Path(output, inner)) == Path(output)
        assert (f"delete {output} and rerun" if inner else "delete it and rerun") in remedy(Path(output, inner))


@pytest.mark.parametrize(
    ("stages", "methods", "given"),
    [
        ([4], ["token-probability"], set()),
        ([2, 4], ["cocal-binary"], {"previous_stage", "features", "companions", "rollout_features"}),
        ([4], ["postcal-binary"], {"features", "companions", "resampled", "resampled_features"}),
    ],
)
def test_baselines_are_given_what_their_study_has(stages, methods, given):
    shape = {"policy": {"stages": stages, "algorithms": ["grpo"]}, "reports": {"early_steps": [1, stages[0]]}}
    jobs = jobs_of(study_of("smoke", **shape, estimators={"methods": methods}))
    told = jobs["results/recalibration/smoke/grpo/step-4.json"].settings
    known = {"previous_stage", "features", "companions", "rollout_features", "resampled", "resampled_features"}
    assert told.keys() & known == given
    assert ("results/companions/smoke/one-layer" in jobs) == (methods == ["cocal-binary"])
    assert ("results/companions/smoke/postcal" in jobs) == (methods == ["postcal-binary"])


@pytest.mark.parametrize(
    ("layers", "blocks", "stored"), [("all", [0, -2], True), ("final", [1, -1], True), ("final", [-2], False)]
)
def test_a_study_that_stores_no_states_of_a_block_leaves_its_reader_out_and_says_so(
    monkeypatch, layers, blocks, stored
):
    late = Baseline(
        name="late", label="Late", position=95, method="cocal-binary", learn="late:learn", blocks=tuple(blocks)
    )
    monkeypatch.setitem(BASELINES, "late", late)
    study = study_of("smoke", features={"layers": layers}, estimators={"methods": ["cocal-binary"]})
    assert (late in baselines_of(study, "grpo")) == stored
    (table,) = recalibrated.of_study(study, {})
    assert ("late" in table.layout.labels) == stored
    said = "Late is left out: it reads a block that features.layers lacks."
    assert (said in table.layout.notes) == (not stored)


@pytest.mark.parametrize("kept", [{}, {"weights": "/weights"}], ids=["stages", "every step"])
def test_stored_rollouts_are_read_by_the_weights_of_their_steps_where_they_were_kept(kept):
    training = IMPORTED | {"rollouts": IMPORTED["rollouts"] | kept}
    jobs = jobs_of(study_of("smoke", backbones={"smoke": {"imported": {"grpo": training}}}))
    stages = [Path(f"results/policies/smoke/grpo/step-{step}") for step in (2, 4)]
    for output in ("rollouts/smoke/grpo", "features/smoke/grpo/rollouts.zarr", "features/smoke/grpo/prompts.zarr"):
        settings = jobs[f"results/{output}"].settings
        told = {name: settings[name] for name in ("exact", "checkpoints") if name in settings}
        assert told == ({"exact": "/weights"} if kept else {"checkpoints": (*stages,)})
