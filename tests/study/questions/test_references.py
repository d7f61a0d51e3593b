"""Where question sets come from, in a line each."""

from cocal_study.questions.registry import references, registry_of
from planned_jobs import study_of
from started import ROOT


def test_every_set_has_its_address_or_how_it_is_made():
    study = study_of("paper")
    registry = registry_of(study.question_sets.registered, ROOT / "config/datasets.yaml")
    lines = list(references(study, registry))
    assert len({line.partition(" (")[0].partition(": ")[2] for line in lines}) < len(lines), "sets share repositories"
    for line, dataset in zip(lines, study.datasets.values(), strict=True):
        entry = registry.sets[dataset.source.name]
        end = f"{entry.source.repository}/tree/{entry.source.revision} ({entry.licence})"
        assert line.startswith(f"{dataset.label}: https://")
        assert line.endswith(end)
    first = next(references(study_of("smoke"), registry))
    assert "made by `cocal questions` from {" in first
    assert '"questions":48' in first
    assert first.endswith(", seed 42")
