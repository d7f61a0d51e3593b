"""The description of a bundle for machines: a Workflow Run RO-Crate of all its files."""

import mimetypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from cocal.store.provenance import file_digest
from cocal_study.config.study import Study
from cocal_study.planning.digests import Maker

WORKFLOW = "Snakefile"
_PROFILES = (
    "https://w3id.org/ro/wfrun/process/0.5",
    "https://w3id.org/ro/wfrun/workflow/0.5",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0",
)
_TYPES = {
    ".parquet": "application/vnd.apache.parquet",
    ".nc": "application/netcdf",
    ".safetensors": "application/octet-stream",
    ".yaml": "application/yaml",
    ".tex": "application/x-tex",
    ".smk": "text/x-python",
}
"""Media types by the ending of a file, where Python knows none or machines differ."""


def write_crate(
    folder: Path, study: Study, made_by: Maker, sets: Mapping[str, Mapping[str, Any]], licence: str, date: str
) -> None:
    """Write `ro-crate-metadata.json` about a folder that holds all files of a bundle but this one and its list.

    Args:
        sets: What `cocal_study.questions.references` says of the question sets.
        licence: Address of the licence.
        date: Day of the publication, as YYYY-MM-DD.
    """

    def named(address: str, kind: str, /, **properties: Any) -> ContextEntity:
        return crate.add(ContextEntity(crate, address, {"@type": kind, **properties}))

    crate = ROCrate(gen_preview=False, version="1.1")  # the one that the profiles of runs build upon
    crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"
    crate.name, crate.description = f"CoCal study {study.study}", study.caption
    crate.root_dataset["datePublished"] = date
    crate.license = named(licence, "CreativeWork", name=licence)
    entities = {}
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = str(file.relative_to(folder))
        media_type = _TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "text/plain"
        said = {"encodingFormat": media_type, "contentSize": str(file.stat().st_size)}
        said["sha256"] = file_digest(file)
        if place == WORKFLOW:
            entity = workflow = crate.add_workflow(file, place, main=True, lang="snakemake", properties=said)
        else:
            entity = crate.add_file(file, place, properties={"name": place, **said})
        entities[place] = entity
    crate.root_dataset["conformsTo"] = [
        named(address, "CreativeWork", name=address.split("/")[-2], version=address.split("/")[-1])
        for address in _PROFILES
    ]
    entities["README.md"]["about"] = crate.root_dataset
    workflow["conformsTo"] = {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"}
    workflow["name"], workflow["version"], workflow["license"] = "CoCal", made_by.commit, {"@id": licence}
    given = [entities["study.yaml"]]
    for name, properties in sets.items():
        words = {key: ", ".join(value) if isinstance(value, list) else value for key, value in properties.items()}
        given.append(named(f"#questions/{name}", "Dataset", **words))
    takes = named("#study", "FormalParameter", additionalType="File", name="study", valueRequired="True")
    reads = named("#questions", "FormalParameter", additionalType="Dataset", name="question sets")
    gives = named("#results", "FormalParameter", additionalType="File", name="results")
    workflow["input"], workflow["output"] = [takes, reads], gives
    results = [entity for place, entity in entities.items() if place.startswith(("results/", "companions/"))]
    for parameter, values in ((takes, given[:1]), (reads, given[1:]), (gives, results)):
        parameter["conformsTo"] = {"@id": "https://bioschemas.org/profiles/FormalParameter/1.0-RELEASE"}
        for value in values:
            value["exampleOfWork"] = parameter
    described = f"commit {made_by.commit}; {made_by.numerics} numerics on {made_by.processor}"
    versions = [
        named(address, "SoftwareApplication", name=name, softwareVersion=version, url=address)
        for name, version in made_by.versions.items()
        if (address := f"https://pypi.org/project/{name}/{version}/")
    ]
    workflow["softwareRequirements"] = versions
    run = named("#run", "CreateAction", name=f"Run of the study {study.study}", description=described)
    run["instrument"], run["object"], run["result"] = workflow, given, results
    run["actionStatus"] = "http://schema.org/CompletedActionStatus"
    crate.root_dataset["mentions"] = run
    crate.metadata.write(folder)
