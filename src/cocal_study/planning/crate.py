"""Descriptions of a bundle for machines: a Workflow Run RO-Crate of all its files, and Croissant of its predictions."""

import json
import mimetypes
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

from cocal.store.contracts import PREDICTIONS
from cocal.store.provenance import file_digest
from cocal_study.config.study import Study
from cocal_study.planning.digests import Maker

CRATE, CROISSANT = "ro-crate-metadata.json", "croissant.json"
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
_FIELDS = {"string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}
"""Croissant's types of the columns of predictions, by their Arrow types."""


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


def write_croissant(folder: Path, study: Study, predictions: Iterable[str], licence: str, date: str) -> None:
    """Write `croissant.json`, which describes the tables of predictions at these places, each as a set of records."""
    tables = list(predictions)
    files = [{"@type": "cr:FileObject", "@id": place, "name": place, "contentUrl": place} for place in tables]
    for one in files:
        one |= {"encodingFormat": "application/x-parquet", "sha256": file_digest(folder / one["name"])}
    content = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"cocal-{study.study}",
        "description": f"Confidences of every method on every response. {study.caption}",
        "license": licence,
        "datePublished": date,
        "version": "1.0.0",
        "distribution": files,
        "recordSet": list(map(_records, tables)),
    }
    (folder / CROISSANT).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _records(place: str) -> dict[str, Any]:
    """The set of records of a table of predictions."""
    name = place.removeprefix("results/predictions/").removesuffix(".parquet")
    fields = [
        {"@type": "cr:Field", "@id": f"{name}/{column}", "name": column, "dataType": _FIELDS[str(kind)]}
        | {"source": {"fileObject": {"@id": place}, "extract": {"column": column}}}
        for column, kind in PREDICTIONS.types.items()
    ]
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


_TERMS = ("column", "extract", "field", "fileObject", "recordSet", "source")
_CONTEXT = {"@language": "en", "@vocab": "https://schema.org/", "sc": "https://schema.org/"}
_CONTEXT |= {"cr": "http://mlcommons.org/croissant/", "conformsTo": "http://purl.org/dc/terms/conformsTo"}
_CONTEXT |= {"dataType": {"@id": "cr:dataType", "@type": "@vocab"}, **{term: f"cr:{term}" for term in _TERMS}}
"""The part of Croissant's context that these records use."""
