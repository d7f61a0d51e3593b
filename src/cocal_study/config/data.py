"""Settings of the question sets: registered ones, those in files of a user, and synthetic ones with their world."""

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from cocal.settings.base import Count, Model, Name, Share

Family = Literal["sums", "products", "equations", "remainders", "sequences", "stories"]
Relation = Literal["city", "job", "mentor"]
Overlap = Literal["exclude", "report", "refuse"]


class SyntheticMathematicsSettings(Model):
    """Verifiable arithmetic questions, generated from a seed (cocal_study.questions.synthetic)."""

    kind: Literal["synthetic-mathematics"]
    questions: Count
    """Number of distinct questions."""
    levels: dict[Annotated[int, Field(ge=1, le=5)], Annotated[float, Field(gt=0)]]
    """Weight of each difficulty level, from 1 (easiest) to 5."""
    families: tuple[Family, ...] = get_args(Family)
    """Problem families, which are drawn with equal probability."""
    steps_spread: Annotated[float, Field(ge=0)] = 0.0
    """Standard deviation of the logarithm of the number of steps within a level; 0 for one number a level."""


class SyntheticFactsSettings(Model):
    """Questions about the made-up people of the facts world (cocal_study.questions.synthetic)."""

    kind: Literal["synthetic-facts"]
    questions: Count
    """Number of distinct questions."""
    hops: tuple[Annotated[int, Field(ge=1, le=3)], ...] = (1,)
    """Numbers of relations to follow: 1 asks for a fact about a person, 2 for one about the person's mentor."""
    relations: tuple[Relation, ...] = ("city", "job", "mentor")
    """Relations that questions ask for."""
    popularity: tuple[Share, Share] = (0.0, 1.0)
    """Range of the popularity ranks of the people asked about: 0 is the most and 1 the least mentioned person."""

    @model_validator(mode="after")
    def _range(self) -> "SyntheticFactsSettings":
        if self.popularity[0] >= self.popularity[1]:
            raise ValueError("popularity must be a range [from, to] with from < to")
        return self


class GivenSettings(Model):
    """A question set that is read from files."""

    questions: Count | None = None
    """Number of questions; a source with another number is refused. Jobs are planned from it before the files of a
    registered set are downloaded, so only a registered training set that the registry has not counted may omit it."""
    limit: Count | None = None
    """Number of questions to use, from the beginning of the set; by default all."""
    spread: bool = False
    """True if the `limit` questions are spread evenly over the set. Sets in the order of their articles or subjects
    begin with few of them."""

    @model_validator(mode="after")
    def _limit(self) -> "GivenSettings":
        if self.limit is not None and self.questions is not None and self.limit > self.questions:
            raise ValueError(f"limit = {self.limit} exceeds questions = {self.questions}")
        if self.spread and self.limit is None:
            raise ValueError("spread needs limit, the number of questions that are spread over the set")
        return self


class RegisteredSettings(GivenSettings):
    """A public question set from the registry (cocal_study.questions.registry)."""

    kind: Literal["registered"]
    name: Name
    """Name of the set in the registry."""
    corrections: bool = False
    """True to correct the rows that the registry lists as wrong. By default the set is used as it is distributed, as
    the paper presumably did. In both cases tables state how many rows are concerned."""


class FileSettings(GivenSettings):
    """A question set in a file of your own (cocal_study.questions.loaders)."""

    kind: Literal["file"]
    path: Annotated[str, Field(pattern=r"\.(jsonl|json|parquet)$")]
    """JSON lines, a JSON list or Parquet with one question per record. The fields are `question`, `answer` and,
    optionally, `aliases` (further accepted answers), `question_id` or `id`, `subject` and `level`. A relative path
    starts at the root of the repository."""


QuestionSourceSettings = SyntheticMathematicsSettings | SyntheticFactsSettings | RegisteredSettings | FileSettings


class DatasetSettings(Model):
    """One question set and how it is sampled."""

    label: str
    """Name shown in tables and figures."""
    role: Literal["training", "evaluation"]
    domain: Literal["mathematics", "factual"]
    source: Annotated[QuestionSourceSettings, Field(discriminator="kind")]
    samples: Count = 1
    """Number of evaluated responses per question. The paper takes ten on the small sets and one on the others
    (section 5, evaluation protocol)."""
    max_response_length: Count = 4096
    """Longest evaluation response in tokens (table of hyperparameters)."""

    @model_validator(mode="after")
    def _planned(self) -> "DatasetSettings":
        if self.role == "evaluation" and self.size is None and not isinstance(self.source, FileSettings):
            raise ValueError("an evaluation set needs the number of its questions (source.questions)")
        return self

    @property
    def size(self) -> int | None:
        """Number of questions as the configuration gives it; None if they are not counted yet (some training sets, and
        files before `cocal_study.questions.loaders.counted`)."""
        return getattr(self.source, "limit", None) or self.source.questions


def drawing_order(datasets: Mapping[str, DatasetSettings]) -> list[str]:
    """Names of the sets in the order in which they are built: the evaluation sets come first."""
    return sorted(datasets, key=lambda name: datasets[name].role == "training")


class FactsWorldSettings(Model):
    """The synthetic world of people that the pre-training corpus describes."""

    people: Count = 300
    popularity_exponent: Annotated[float, Field(ge=0)] = 1.0
    """Exponent a of the popularity: the corpus mentions the person of rank r in proportion to r^-a."""


class SourceSettings(Model):
    """Source of the files of registered question sets, and treatment of questions that two sets share."""

    registry: str = "config/datasets.yaml"
    """The dataset registry; a relative path starts at the root of the repository."""
    mirror: str | None = None
    """Base URL that replaces the hosts, such as `https://...` or `file:///folder`. The environment variable
    COCAL_MIRROR overrides it."""
    cache: str = "results/sources"
    """Folder of the downloaded files, in the layout of the hosts; studies may share it. A relative path starts in the
    folder that holds `results/`."""
    overlap: Overlap = "exclude"
    """Treatment of questions of a training set that an evaluation set asks, too (equal except for case, spaces and
    punctuation): exclude them from training, only report them, or refuse the study. It applies to registered sets and
    files; synthetic training sets are disjoint by construction."""


class QuestionSetsSettings(Model):
    """The slice of a study that its question sets, or some of them, depend on."""

    datasets: dict[Name, DatasetSettings]
    world: FactsWorldSettings = FactsWorldSettings()
    seed: int = 42
    overlap: Overlap = "exclude"

    @property
    def registered(self) -> dict[str, RegisteredSettings]:
        """Sources of the registered sets by name of the data set."""
        return {name: d.source for name, d in self.datasets.items() if isinstance(d.source, RegisteredSettings)}

    @property
    def files(self) -> dict[str, FileSettings]:
        """Sources of the sets in a user's files by name of the data set."""
        return {name: d.source for name, d in self.datasets.items() if isinstance(d.source, FileSettings)}

    def bare(self) -> "QuestionSetsSettings":
        """These settings without labels, numbers of responses and response lengths, on which no question depends."""
        bare = {
            name: DatasetSettings(label=name, role=dataset.role, domain=dataset.domain, source=dataset.source)
            for name, dataset in self.datasets.items()
        }
        return self.model_copy(update={"datasets": bare})

    def of(self, name: str) -> "QuestionSetsSettings":
        """The slice that one set depends on, apart from the sets that are built before it."""
        dataset = self.datasets[name]
        source = dataset.source
        settings = QuestionSetsSettings(datasets={name: dataset}).bare()
        if isinstance(source, GivenSettings):
            return settings.model_copy(update={"overlap": self.overlap}) if dataset.role == "training" else settings
        world = self.world if isinstance(source, SyntheticFactsSettings) else settings.world
        return settings.model_copy(update={"world": world, "seed": self.seed})

    def built_before(self, name: str) -> list[str]:
        """Names of the sets with whose questions those of this set are compared when it is built: a synthetic set draws
        none that an earlier set of its domain asks, and a training set that is read from files leaves out those of
        evaluation sets, unless `overlap` is "report"."""
        dataset, order = self.datasets[name], drawing_order(self.datasets)
        earlier = [other for other in order[: order.index(name)] if self.datasets[other].domain == dataset.domain]
        if not isinstance(dataset.source, GivenSettings):
            return earlier
        if dataset.role == "evaluation" or self.overlap == "report":
            return []
        return [other for other in order if self.datasets[other].role == "evaluation"]
