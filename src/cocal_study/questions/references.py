"""Question sets by reference: where each comes from, without a text of it."""

from collections.abc import Iterator

from cocal.store.provenance import canonical
from cocal_study.config.data import RegisteredSettings
from cocal_study.config.study import Study
from cocal_study.questions.registry import Registry

_HOSTS = {"github": "https://github.com/{0}/tree/{1}", "huggingface": "https://huggingface.co/datasets/{0}/tree/{1}"}


def references(study: Study, registry: Registry) -> Iterator[str]:
    """A line for each question set of a study: its name, with address, revision and licence, or how it is made."""
    for dataset in study.datasets.values():
        if isinstance(dataset.source, RegisteredSettings):
            entry = registry.sets[dataset.source.name]
            address = _HOSTS[entry.source.host].format(entry.source.repository, entry.source.revision)
            yield f"{dataset.label}: {address} ({entry.licence})"
        else:
            source = canonical(dataset.source.model_dump(mode="json", exclude={"path"}))
            made = f"{dataset.role}, {dataset.domain}, made by `cocal questions` from {source}, seed {study.seed}"
            yield f"{dataset.label}: {made}"
