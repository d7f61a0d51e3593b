"""Settings of the question sets and of the synthetic world behind some of them."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cocal.config.base import Count, Model, Name, Share

Family = Literal["sums", "products", "equations", "remainders", "sequences", "stories"]
Relation = Literal["city", "job", "mentor"]


class SyntheticMathematics(Model):
    """Verifiable arithmetic, generated from a seed (cocal.questions.mathematics)."""

    kind: Literal["synthetic-mathematics"]
    questions: Count
    """Number of distinct questions."""
    levels: dict[Annotated[int, Field(ge=1, le=5)], Annotated[float, Field(gt=0)]]
    """Weight of each difficulty level, 1 (easiest) to 5."""
    families: tuple[Family, ...] = ("sums", "products", "equations", "remainders", "sequences", "stories")
    """Problem families, drawn evenly."""


class SyntheticFacts(Model):
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
    def _range(self) -> "SyntheticFacts":
        if self.popularity[0] >= self.popularity[1]:
            raise ValueError("popularity must be a range [from, to] with from < to")
        return self


class Dataset(Model):
    """One question set and how it is sampled."""

    label: str
    """Name shown in tables and figures."""
    role: Literal["training", "evaluation"]
    domain: Literal["mathematics", "factual"]
    source: Annotated[SyntheticMathematics | SyntheticFacts, Field(discriminator="kind")]
    samples: Count = 1
    """Responses evaluated for each question: ten on the small sets, one elsewhere (section 5, evaluation
    protocol)."""
    max_response_length: Count = 4096
    """Longest evaluation response in tokens (table of hyperparameters)."""


class FactsWorld(Model):
    """The synthetic world of people that the pre-training corpus tells about."""

    people: Count = 300
    popularity_exponent: Annotated[float, Field(ge=0)] = 1.0
    """Mentions of the person of rank r are proportional to r to the power of minus this."""


class QuestionSets(Model):
    """The slice of a study that its synthetic questions depend on."""

    datasets: dict[Name, Dataset]
    world: FactsWorld = FactsWorld()
    seed: int = 42
