"""Jobs and rules of the workflow as data: what a job reads and depends on, and what a rule makes."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from cocal.runtime.numerics import Numerics
from cocal.settings.base import Algorithm
from cocal.store.provenance import canonical, digest
from cocal_study.config.study import Study
from cocal_study.planning import plan, results
from cocal_study.provenance.code import code_digest
from cocal_study.stages.base import Stage

DOMAINS = {"": "mathematics", "factual_": "factual"}
"""Domain of the questions by the beginning of the names of its rules of responses and features."""
CELL = "{backbone}", "{algorithm}", "{step}", "{prompt_format}{sampling}"
"""The wildcards of what is made for a checkpoint in one prompt format and sampling."""
NO_GPU = "env", "CUDA_VISIBLE_DEVICES=", "cocal"
"""Words that start a stage that computes on processors."""
Environment = Literal["cocal", "gpu"]
"""The conda environments of envs/, in which jobs run where Snakemake is told to make them."""


class Job(NamedTuple):
    """One job."""

    stage: Stage
    """What it does, with its files and settings. A change of its words reruns it, as one of its code or texts does."""
    inputs: Sequence[str]
    """Files and folders of the study that it waits for."""
    code: str
    """Digest of the code that computes its result."""
    texts: str
    """Digest of the prompt texts that it gives to a policy or a judge."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything about it except the files, as the parameters of a rule."""
        return {"words": self.stage.words, "code": self.code, "texts": self.texts}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A rule of the workflow."""

    name: str
    """Its name in Snakemake, in the table of resources, and in logs and benchmarks."""
    make: Callable[..., Job]
    """Function that makes the job from values of the wildcards and its places."""
    places: Mapping[str, str]
    """Paths that the stage gets for outputs and unfinished work, by field, with wildcards in braces."""
    files: Sequence[str] = ()
    """Paths that a job makes, if these are not the places themselves."""
    limits: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Values of wildcards to which it is limited, beyond those of the study (`Plan.wildcards`)."""
    local: bool = False
    """True if it runs where Snakemake does: it takes seconds, or needs a network that compute nodes lack."""
    threads: int | None = 1
    """Threads of a job; None for a training, which stands alone in the plan."""
    early: bool = False
    """True if it takes long and many jobs wait for it, so that it begins as soon as it can."""
    gpus: int = 0
    """GPUs of a job. Without a GPU, the number means nothing."""
    environment: Environment = "cocal"
    start: Sequence[str] = ("cocal",)
    """Words before those of the stage."""
    shown: bool = False
    """True if its log is printed, too."""

    @property
    def paths(self) -> list[str]:
        """All paths that a job makes."""
        return list(self.files) or [path for name, path in self.places.items() if name != "run_folder"]

    @property
    def label(self) -> str:
        """What distinguishes its jobs in the names of logs and benchmarks; the rule's name if there is only one job."""
        wildcards = dict.fromkeys(re.findall(r"\{(\w+)\}", self.paths[0]))
        label = "-".join(f"{{{name}}}" for name in wildcards) or self.name
        return re.sub(r"-(?=\{(?:comparison|cube|sampling)\})", "", label)  # whose values begin with a hyphen

    def job(self, **wildcards: str) -> Job:
        """The job of these values of the wildcards."""
        return self.make(**wildcards, **{name: path.format(**wildcards) for name, path in self.places.items()})


class Rules(ABC):
    """The rules of one file of stages, and what those of all files share.

    Args:
        study: The study.
        numerics: Numerics of its results; a change reruns what computes.
        prompts: Its prompt texts (`cocal_study.questions.prompts.Prompts`).
        registry: The registered sources that it uses (`cocal_study.questions.registry.Registry`).
        judge_texts: Digest of the texts that a judge is given, if it is a language model.
        scripts: Folder of the scripts that start a training on every node.
    """

    def __init__(
        self, study: Study, *, numerics: Numerics, prompts: Any, registry: Any, judge_texts: str = "", scripts: str = ""
    ):
        self.study, self._numerics, self._prompts, self._registry = study, numerics, prompts, registry
        self._judge_texts, self._scripts = judge_texts, scripts
        self._main, self._final = study.main_backbone, study.policy.steps
        self._training_set = results.questions_file(study.policy.dataset)
        self._sets = {domain: study.evaluation_sets(domain) for domain in DOMAINS.values()}

    @abstractmethod
    def rules(self) -> Iterable[Rule]:
        """The rules that the study needs."""

    @property
    def judge_from_hub(self) -> bool:
        """True if the judge of factual answers has to be downloaded."""
        return self.study.judge.kind == "llm" and not self.study.judge.local

    def trained_by(self, trainer: str, algorithm: Algorithm) -> list[str]:
        """The backbones whose policies of an algorithm are trained by "trl", or are "imported"."""
        if algorithm not in self.study.policy.algorithms:
            return []
        return [name for name in self.study.backbones if plan.trainer_of(self.study, name, algorithm) == trainer]

    def stage_folders(self, algorithm: Algorithm) -> list[str]:
        """The checkpoints that a training leaves."""
        return [results.policy_folder("{backbone}", algorithm, step) for step in self.study.policy.stages]

    def _job(self, kind: type[Stage], *, texts: str = "", beside: Iterable[str] = (), **fields: Any) -> Job:
        """The job of a stage with these fields. It waits for what the stage reads and for what lies beside, and depends
        on the code of the stage's class and, if its results do, on the study's numerics."""
        stage = kind(**fields)
        code = code_digest(f"{kind.__module__}:{kind.__name__}", *stage.named())
        code += f" {canonical({'numerics': self._numerics})}" * stage.computed
        if (declared := stage.declared()) is not None:
            code += f" {digest(declared)}"
        inputs = dict.fromkeys([*map(product_of, stage.reads()), *beside])
        return Job(stage, list(inputs), code, texts)

    def _texts(self, *formats: str, domain: str = "mathematics") -> str:
        return f"prompts:{self._prompts.digest(*formats, domain=domain)}"

    @property
    def _sampling(self) -> dict[str, Any]:
        """The resources and environment of a rule that samples. `--resources gpus=N` bounds the GPUs of all jobs at a
        time, where Snakemake runs them itself; SLURM's jobs ask for theirs in the profile."""
        study = self.study
        engines = [study.generation.engine, *([study.judge.engine] if study.judge.kind == "llm" else [])]
        with_vllm = any(engine.kind == "vllm" for engine in engines)
        gpus = getattr(study.generation.engine, "tensor_parallel", 1)
        return {"gpus": gpus, "environment": "gpu" if with_vllm else "cocal"}

    def _readers(self, backbone: str) -> dict[str, Any]:
        """The checkpoints that read stored rollouts: those of every step, where they were kept, otherwise those of the
        stages."""
        imported = self.study.backbones[backbone].imported
        dumps = imported["grpo"].rollouts if "grpo" in imported else None
        if dumps and dumps.weights:
            return {"exact": dumps.weights}
        return {"checkpoints": [results.policy_folder(backbone, "grpo", step) for step in self.study.policy.stages]}


def product_of(path: PurePath) -> str:
    """The output of a rule that a path is, or lies in: companions of all prefixes are one folder."""
    return "/".join(path.parts[:4]) if path.parts[:2] == ("results", "companions") else str(path)


def is_folder(path: str) -> bool:
    """True if an output of a rule is a folder."""
    return PurePath(path).suffix in ("", ".zarr")


def either(values: Iterable[str]) -> str:
    """A regular expression that matches these values; nothing matches it if there are none."""
    return "|".join(map(re.escape, values)) or "(?!)"
