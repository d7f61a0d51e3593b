"""The configuration of a study: one typed model, read from one YAML file; its graphics cards, and its JSON schema."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from cocal.answers.settings import VerifierSettings
from cocal.companion.settings import CompanionSettings
from cocal.errors import ConfigError
from cocal.metrics.settings import MetricSettings
from cocal.runtime.numerics import Numerics
from cocal.settings.base import Model, Name, Positive
from cocal_study.config.backbone import BackboneSettings
from cocal_study.config.data import DatasetSettings, FactsWorldSettings, QuestionSetsSettings, SourceSettings
from cocal_study.config.evaluation import (
    EstimatorSettings,
    ExactMatchSettings,
    GenerationSettings,
    JudgeSettings,
    PostCalSettings,
    QualitySettings,
    ReportSettings,
    SamplingSettings,
    TimingSettings,
)
from cocal_study.config.features import FeatureSettings
from cocal_study.config.methods import METHODS
from cocal_study.config.parse import merged, read_yaml, validate
from cocal_study.config.policy import PolicySettings

_SINGLE_KEYS = "--config 'companion={passes: 10}'"


class CardSettings(Model):
    """A kind of graphics card, and the settings of a study that fit it."""

    label: str
    """Name of the card, or of several with as much memory."""
    memory: Positive
    """Memory of one card in GiB, as `nvidia-smi` counts it: 24 for an RTX 4090, 80 for an A100 or H100."""
    settings: dict[str, Any] = {}
    """Keys of the study that this card decides, in the study's own nesting."""


def with_card(content: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a study, not yet validated, with those that its card decides; without a card they stay as they are.
    Raises ValueError if the card is not in `cards`, or decides a key to which the study itself gives another value."""
    chosen, cards = content.get("card"), content.get("cards") or {}
    if chosen is None or not isinstance(cards, Mapping):
        return dict(content)
    if chosen not in cards:
        raise ValueError(f"card = {chosen!r} is not in cards, which has {', '.join(map(repr, cards)) or 'none'}")
    card = cards[chosen]
    settings = card.settings if isinstance(card, CardSettings) else card.get("settings", {})
    return _added(content, settings, chosen, "")


def _added(content: Mapping[str, Any], settings: Mapping[str, Any], card: str, before: str) -> dict[str, Any]:
    merged = dict(content)
    for key, value in settings.items():
        given = merged.get(key, value)
        if isinstance(value, Mapping) and isinstance(given, Mapping):
            merged[key] = _added(merged.get(key, {}), value, card, f"{before}{key}.")
        elif given != value and not (isinstance(given, tuple) and list(given) == value):
            raise ValueError(
                f"{before}{key} = {given!r}, but the card {card!r} sets it to {value!r}: change it in "
                f"cards.{card}.settings, where values that depend on the card belong"
            )
        else:
            merged[key] = value
    return merged


class Study(Model):
    """The content of a configuration file: everything that one run of the workflow computes."""

    study: Name
    """Name of the study; every table, figure and file attribute carries it."""
    caption: str
    """Sentence in every caption that says what was measured."""
    seed: int = 42
    """Seed of the synthetic questions and of the facts world."""
    numerics: Numerics = "native"
    """Results of computations are the same bytes on every x86-64 processor with AVX2 and FMA ("portable"), or each
    library uses the fastest code for the processor ("native"). With "bfloat16", policies also compute in this format on
    processors that have instructions for it, as they do on a GPU, and trainings use all processors that Snakemake may
    use. Portable numerics are for studies on processors; results of a GPU depend on its model."""
    prompts: Name = "tiny"
    """Name of the prompt set, a folder of cocal_study/questions/prompts."""
    world: FactsWorldSettings = FactsWorldSettings()
    datasets: dict[Name, DatasetSettings]
    sources: SourceSettings = SourceSettings()
    backbones: dict[Name, BackboneSettings]
    """Backbones by name; the first one is that of the main table."""
    card: Name | None = None
    """Graphics card on which the study runs, one of `cards`; its settings are then those of the study. A run whose GPUs
    have less memory is refused before its first job."""
    cards: dict[Name, CardSettings] = {}
    """Graphics cards by name, each with the settings that depend on its memory."""
    policy: PolicySettings
    generation: GenerationSettings = GenerationSettings()
    second_sampling: SamplingSettings | None = None
    """How the final policies of the main backbone, and the one before training, answer the evaluation questions once
    more, for tables/sampling; `{}` means as rollouts are sampled. By default they do not."""
    features: FeatureSettings = FeatureSettings()
    companion: CompanionSettings = CompanionSettings()
    postcal: PostCalSettings = PostCalSettings()
    estimators: EstimatorSettings = Field(default_factory=EstimatorSettings)
    verifier: VerifierSettings = VerifierSettings()
    judge: JudgeSettings = ExactMatchSettings()
    metrics: MetricSettings = MetricSettings()
    quality: QualitySettings = QualitySettings()
    timing: TimingSettings = TimingSettings()
    reports: ReportSettings

    @model_validator(mode="before")
    @classmethod
    def _of_card(cls, content: Any) -> Any:
        return with_card(content) if isinstance(content, Mapping) else content

    @model_validator(mode="after")
    def _references(self) -> "Study":
        if not self.backbones:
            raise ValueError("backbones is empty")
        for key, name, role in (
            ("policy.dataset", self.policy.dataset, "training"),
            ("reports.reliability_dataset", self.reports.reliability_dataset, "evaluation"),
        ):
            if name not in self.datasets or self.datasets[name].role != role:
                raise ValueError(f"{key} = {name!r} is not a dataset with role: {role}")
        if (domain := self.datasets[self.policy.dataset].domain) != "mathematics":
            raise ValueError(f"policy.dataset = {self.policy.dataset!r} is {domain}: only mathematics has rewards")
        if self.reports.reliability_seed not in self.companion.seeds:
            raise ValueError(f"reports.reliability_seed = {self.reports.reliability_seed} is not in companion.seeds")
        for key, last in (("early_steps", self.policy.stages[0]), ("budgets", self.policy.steps)):
            steps = getattr(self.reports, key)
            if list(steps) != sorted(set(steps)) or steps[-1] != last:
                raise ValueError(f"reports.{key} must rise and end with step {last}, not {list(steps)}")
        return self

    @model_validator(mode="after")
    def _evaluation(self) -> "Study":
        if not self.evaluation_sets("mathematics"):
            raise ValueError("datasets has no evaluation set of mathematics")
        trained = max(self.policy.max_response_length[a] for a in self.policy.algorithms)
        for name, dataset in self.datasets.items():
            if dataset.samples > self.generation.pool:
                raise ValueError(f"datasets.{name}.samples exceeds generation.pool = {self.generation.pool}")
            if dataset.role == "evaluation" and dataset.max_response_length < trained:
                raise ValueError(
                    f"datasets.{name}.max_response_length = {dataset.max_response_length} is too short: policies learn "
                    f"to give responses of up to {trained} tokens"
                )
        return self

    @model_validator(mode="after")
    def _trainings(self) -> "Study":
        policy = self.policy
        if "grpo" not in policy.algorithms:
            raise ValueError("policy.algorithms lacks grpo: companions learn from GRPO's rollouts")
        for name, backbone in self.backbones.items():
            for algorithm, imported in backbone.imported.items():
                key = f"backbones.{name}.imported.{algorithm}"
                if algorithm not in policy.algorithms:
                    raise ValueError(f"{key}: policy.algorithms has no {algorithm}")
                if sorted(imported.stages) != list(policy.stages):
                    raise ValueError(f"{key}.stages has steps {sorted(imported.stages)}, not {list(policy.stages)}")
                if algorithm == "grpo" and imported.rollouts is None:
                    raise ValueError(f"{key}.rollouts is missing: companions learn from GRPO's rollouts")
        return self

    @model_validator(mode="after")
    def _states(self) -> "Study":
        if isinstance(layers := self.features.layers, tuple):
            for name, backbone in self.backbones.items():
                if not layers or max(layers) >= backbone.depth:
                    raise ValueError(f"features.layers = {list(layers)}: {name} has blocks 0 to {backbone.depth - 1}")
        return self

    @model_validator(mode="after")
    def _methods(self) -> "Study":
        named = self.estimators.methods if "methods" in self.estimators.model_fields_set else ()
        if lacking := [name for name in named if name not in self.methods]:
            raise ValueError(
                f"estimators.methods: {lacking[0]} reads log-probabilities that generation.best_logprobs keeps"
            )
        return self

    @property
    def methods(self) -> list[str]:
        """The compared methods (`estimators.methods`), without those that read what the responses do not keep."""
        kept = self.generation.best_logprobs
        return [name for name in self.estimators.methods if kept or not METHODS[name].reads_best_logprobs]

    @property
    def question_sets(self) -> QuestionSetsSettings:
        """The settings on which the questions depend."""
        return QuestionSetsSettings(
            datasets=self.datasets, world=self.world, seed=self.seed, overlap=self.sources.overlap
        )

    @property
    def main_backbone(self) -> str:
        """Backbone of the main table."""
        return next(iter(self.backbones))

    def evaluation_sets(self, domain: str) -> list[str]:
        """Names of the evaluation sets of a domain, in the order of the file."""
        return [n for n, d in self.datasets.items() if d.role == "evaluation" and d.domain == domain]


def load_study(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Study:
    """The study in a YAML file, with `overrides` merged into it key by key. Raises ConfigError if the file, one that it
    is based on, or the merged result is not a valid study."""
    return validate(Study, _whole(merged(read_yaml(path), overrides or {}), Path(path).parent), str(path))


def _whole(keys: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The keys merged into those of the file that `based_on` names, relative to `folder`, or as they are without
    `based_on`. The keys state what differs from that file, and a null value removes a key."""
    keys = dict(keys)
    if (name := keys.pop("based_on", None)) is None:
        return keys
    path = folder / name
    return merged(_whole(read_yaml(path), path.parent), keys, removing=True)


def configured_study(files: Sequence[str | Path], changes: Mapping[str, Any]) -> Study:
    """The study of a run of the workflow: the file that --configfile names, with the values that --config gives. Raises
    ConfigError if there are several files, the file is not a whole study, or the result is not a valid study."""
    if len(files) > 1:
        raise ConfigError(
            f"--configfile {' '.join(map(str, files))}: a run has one study, and files are never merged; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    if "study" not in read_yaml(files[0]):
        raise ConfigError(
            f"{files[0]}: no key `study:`. A file given with --configfile is a whole study and replaces the default; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    return load_study(files[0], changes)


def study_schema() -> str:
    """Text of the JSON schema, ending with a newline, as `cocal schema` prints it."""
    schema = Study.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "CoCal study"
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
