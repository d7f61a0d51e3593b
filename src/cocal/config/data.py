"""Settings of the question sets: registered ones, those in files of a user, and synthetic ones with their world."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cocal.config.base import Count, Model, Name, Share

Family = Literal["sums", "products", "equations", "remainders", "sequences", "stories"]
Relation = Literal["city", "job", "mentor"]
Overlap = Literal["exclude", "report", "refuse"]


class SyntheticMathematicsSettings(Model):
    """Verifiable arithmetic, generated from a seed (cocal.questions.mathematics)."""

    kind: Literal["synthetic-mathematics"]
    questions: Count
    """Number of distinct questions."""
    levels: dict[Annotated[int, Field(ge=1, le=5)], Annotated[float, Field(gt=0)]]
    """Weight of each difficulty level, 1 (easiest) to 5."""
    families: tuple[Family, ...] = ("sums", "products", "equations", "remainders", "sequences", "stories")
    """Problem families, drawn evenly."""


class SyntheticFactsSettings(Model):
    """Questions about the made-up people of the facts world (cocal.questions.facts)."""

    kind: Literal["synthetic-facts"]
    questions: Count
    """Number of distinct questions."""
    hops: tuple[Annotated[int, Field(ge=1, le=3)], ...] = (1,)
    """Relations to follow: 1 asks for a fact, 2 for a fact about somebody's mentor, and so on."""
    relations: tuple[Relation, ...] = ("city", "job", "mentor")
    """Relation asked for last."""
    popularity: tuple[Share, Share] = (0.0, 1.0)
    """Range of popularity rank asked about: 0 is the most, 1 the least mentioned person."""

    @model_validator(mode="after")
    def _range(self) -> "SyntheticFactsSettings":
        if self.popularity[0] >= self.popularity[1]:
            raise ValueError("popularity must be a range [from, to] with from < to")
        return self


class GivenSettings(Model):
    """A question set that is read, not drawn."""

    questions: Count | None = None
    """Number of its questions; another number is refused. Jobs are planned from it, before the files of a registered
    set are here: of those, only a training set whose number the registry does not know may do without."""
    limit: Count | None = None
    """Only the first so many questions, for trials."""

    @model_validator(mode="after")
    def _limit(self) -> "GivenSettings":
        if None not in (self.limit, self.questions) and self.limit > self.questions:
            raise ValueError(f"limit = {self.limit} exceeds questions = {self.questions}")
        return self


class RegisteredSettings(GivenSettings):
    """A public question set, from the registry (cocal.questions.registry)."""

    kind: Literal["registered"]
    name: Name
    """Its name in the registry."""
    corrections: bool = False
    """Whether rows that the registry knows to be wrong are mended. By default the set is as it is distributed, which
    is what the paper can be taken to have used; tables say of either choice how many rows it concerns."""


class FileSettings(GivenSettings):
    """A question set in a file of your own (cocal.questions.files)."""

    kind: Literal["file"]
    path: Annotated[str, Field(pattern=r"\.(jsonl|json|parquet)$")]
    """JSON lines, a JSON list or Parquet, a question a record: `question`, `answer`, and where they are known `aliases`
    (further accepted answers), `question_id` or `id`, `subject`, `level`. A relative path starts at the root of the
    repository."""


QuestionSourceSettings = SyntheticMathematicsSettings | SyntheticFactsSettings | RegisteredSettings | FileSettings


class DatasetSettings(Model):
    """One question set and how it is sampled."""

    label: str
    """Name shown in tables and figures."""
    role: Literal["training", "evaluation"]
    domain: Literal["mathematics", "factual"]
    source: Annotated[QuestionSourceSettings, Field(discriminator="kind")]
    samples: Count = 1
    """Responses evaluated for each question: ten on the small sets, one elsewhere (section 5, evaluation
    protocol)."""
    max_response_length: Count = 4096
    """Longest evaluation response in tokens (table of hyperparameters)."""

    @model_validator(mode="after")
    def _planned(self) -> "DatasetSettings":
        if self.role == "evaluation" and self.size is None and not isinstance(self.source, FileSettings):
            raise ValueError("an evaluation set needs the number of its questions (source.questions)")
        return self

    @property
    def size(self) -> int | None:
        """Number of its questions, known before they are here; None for one that is not yet counted: a training set, or
        a file before `cocal.questions.files.counted`."""
        return getattr(self.source, "limit", None) or self.source.questions


def drawing_order(datasets: Mapping[str, DatasetSettings]) -> list[str]:
    """Names of the sets in the order in which they are built: those of evaluation first."""
    return sorted(datasets, key=lambda name: datasets[name].role == "training")


class FactsWorldSettings(Model):
    """The synthetic world of people that the pre-training corpus tells about."""

    people: Count = 300
    popularity_exponent: Annotated[float, Field(ge=0)] = 1.0
    """Mentions of the person of rank r are proportional to r to the power of minus this."""


class SourceSettings(Model):
    """Where the files of registered question sets come from, and what happens to questions that two sets share."""

    registry: str = "config/datasets.yaml"
    """The dataset registry; a relative path starts at the root of the repository."""
    mirror: str | None = None
    """Base that takes the place of the hosts, as `https://...` or `file:///folder`. COCAL_MIRROR overrides it."""
    cache: str = "results/sources"
    """Folder of the downloaded files, in the layout of the hosts; may be shared by studies. A relative path starts
    where `results/` lies."""
    overlap: Overlap = "exclude"
    """What becomes of questions of a registered training set, or of one in a file, that an evaluation set asks too
    (equal but for case, spaces and punctuation): exclude them from training, only report them, or refuse the study.
    Synthetic training sets are disjoint by construction."""


class QuestionSetsSettings(Model):
    """The slice of a study that some of its questions depend on."""

    datasets: dict[Name, DatasetSettings]
    world: FactsWorldSettings = FactsWorldSettings()
    seed: int = 42
    overlap: Overlap = "exclude"

    @property
    def registered(self) -> dict[str, RegisteredSettings]:
        """Sources of the registered sets, by data set."""
        return {name: d.source for name, d in self.datasets.items() if isinstance(d.source, RegisteredSettings)}

    @property
    def files(self) -> dict[str, FileSettings]:
        """Sources of the sets in files of a user, by data set."""
        return {name: d.source for name, d in self.datasets.items() if isinstance(d.source, FileSettings)}

    def bare(self) -> "QuestionSetsSettings":
        """These settings without what no question depends on: how sets are called in print, and how often and at what
        length their questions are answered."""
        datasets = {
            name: DatasetSettings(label=name, role=dataset.role, domain=dataset.domain, source=dataset.source)
            for name, dataset in self.datasets.items()
        }
        return self.model_copy(update={"datasets": datasets})

    def of(self, name: str) -> "QuestionSetsSettings":
        """The slice that one set depends on, besides the sets that are built before it."""
        dataset = self.datasets[name]
        source = dataset.source
        settings = QuestionSetsSettings(datasets={name: dataset}).bare()
        if isinstance(source, GivenSettings):
            return settings.model_copy(update={"overlap": self.overlap}) if dataset.role == "training" else settings
        world = self.world if isinstance(source, SyntheticFactsSettings) else settings.world
        return settings.model_copy(update={"world": world, "seed": self.seed})

    def built_before(self, name: str) -> list[str]:
        """The sets that a set must be compared with when it is built.

        A synthetic set draws no question of its domain that an earlier set asks. A training set that is given
        leaves out what an evaluation set asks, unless such questions are only reported.
        """
        dataset, order = self.datasets[name], drawing_order(self.datasets)
        earlier = [other for other in order[: order.index(name)] if self.datasets[other].domain == dataset.domain]
        if not isinstance(dataset.source, GivenSettings):
            return earlier
        if dataset.role == "evaluation" or self.overlap == "report":
            return []
        return [other for other in order if self.datasets[other].role == "evaluation"]
