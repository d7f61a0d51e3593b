"""Question sets by reference: where each comes from, and the digest of its content, without a text of it."""

from pathlib import Path
from typing import Any

from cocal.store.provenance import canonical
from cocal_study.config.data import RegisteredSettings
from cocal_study.config.study import Study
from cocal_study.provenance.content import content_digest
from cocal_study.questions.registry import Registry

_HOSTS = {"github": "https://github.com/{0}/tree/{1}", "huggingface": "https://huggingface.co/datasets/{0}/tree/{1}"}


def question_sets(study: Study, registry: Registry, questions: Path) -> dict[str, dict[str, Any]]:
    """Name, description, source, licence and digests of each question set of a study, by its key; `questions` is the
    folder of the tables."""
    found = {}
    for name, dataset in study.datasets.items():
        said: dict[str, Any] = {"name": dataset.label, "description": f"{dataset.role}, {dataset.domain}"}
        if isinstance(dataset.source, RegisteredSettings):
            entry = registry.sets[dataset.source.name]
            source = entry.source
            said |= {"url": _HOSTS[source.host].format(source.repository, source.revision), "license": entry.licence}
            said["sha256"] = [file.sha256 or "unknown" for file in source.files]
        else:
            source = dataset.source.model_dump(mode="json", exclude={"path"})
            said["description"] += f", made by `cocal questions` from {canonical(source)}, seed {study.seed}"
        table = questions / f"{name}.parquet"
        found[name] = said | ({"identifier": f"content {content_digest(table)}"} if table.exists() else {})
    return found
