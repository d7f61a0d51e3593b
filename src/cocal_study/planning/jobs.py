"""Jobs and rules of the workflow as data: what a job reads and depends on, and what a rule makes."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from cocal.settings.base import Model
from cocal.store.provenance import canonical

Files = str | list[str]
Parameters = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One job.

    Attributes:
        inputs: Files and folders of the study that it reads, by name; they are made before it.
        stage: The job itself, where its command is a stage (`cocal_study.stages.base.Stage`), in place of settings.
        settings: Flags of its command that follow from the study; settings' models become JSON. A change reruns it.
        code: Digest of the code that computes its result. A change reruns it.
        texts: Digest of the prompt texts that it gives to a policy or a judge. A change reruns it.
    """

    inputs: Mapping[str, Files] = field(default_factory=dict)
    stage: Any = None
    settings: Parameters = field(default_factory=dict)
    code: str = ""
    texts: str = ""

    @property
    def words(self) -> list[str]:
        """The settings as words of a command line: a flag that is True stands alone, and an empty list is left out.

        This is the only place where settings become text. They are words and no file that commands read, because a
        file could change between the plan and a job that waits for hours in the queue of a cluster, and because the
        printed command then says everything and can be typed again.
        """
        words = list(self.stage.words) if self.stage else []
        for name, value in self.settings.items():
            if isinstance(value, (list, tuple)):
                words += [f"--{name}", *map(str, value)] if value else []
            elif isinstance(value, (Model, dict)):
                words += [f"--{name}", canonical(value)]
            else:
                words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return words

    @property
    def parameters(self) -> dict[str, Any]:
        """All of it but the files, as the parameters of a rule."""
        return {"settings": self.words, "code": self.code, "texts": self.texts}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the workflow.

    Attributes:
        name: Its name in Snakemake, in the table of resources and in benchmarks.
        outputs: Paths that a job makes, by name, with wildcards in braces.
        job: The job of some values of the wildcards.
        limits: Values of wildcards to which the rule is limited, beyond those of the study (`Plan.wildcards`).
    """

    name: str
    outputs: Mapping[str, Files]
    job: Callable[..., Job]
    limits: Mapping[str, Iterable[str]] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """All paths that a job makes."""
        return [path for files in self.outputs.values() for path in ([files] if isinstance(files, str) else files)]


def is_folder(path: str) -> bool:
    """True if an output of a rule is a folder."""
    return PurePath(path).suffix in ("", ".zarr")


def either(values: Iterable[str]) -> str:
    """The regular expression of these values; of none, one that nothing matches."""
    return "|".join(map(re.escape, values)) or "(?!)"
