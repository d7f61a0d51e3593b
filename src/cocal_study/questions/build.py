"""Construction of a study's question sets: it draws synthetic ones and takes given ones as they are loaded."""

import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pandas as pd

from cocal.errors import ConfigError
from cocal.store.provenance import digest
from cocal.store.rows import normalised
from cocal_study.config.data import (
    DatasetSettings,
    FactsWorldSettings,
    GivenSettings,
    SyntheticFactsSettings,
    SyntheticMathematicsSettings,
    drawing_order,
)
from cocal_study.questions.loaders import Question
from cocal_study.questions.synthetic import World, problem

_TRIES = 200
"""Number of draws of taken questions, per question of the set, after which a synthetic set is given up."""


def build_questions(
    datasets: Mapping[str, DatasetSettings],
    world: FactsWorldSettings,
    seed: int,
    given: Mapping[str, Sequence[Question]] | None = None,
    taken: Iterable[str] = (),
) -> dict[str, pd.DataFrame]:
    """All question sets, each as a table that meets the contract cocal_study.store.contracts.QUESTIONS.

    Evaluation sets are drawn first, so that the size of a training set never changes them, and no text is drawn twice
    across all sets. Questions that given sets share with others are treated later (cocal_study.questions.overlap).
    Raises ConfigError if a given set has another number of questions than the study says, or a synthetic one needs more
    questions than its families, levels or people can give.

    Args:
        seed: Seed of the questions and the world.
        given: All questions of each set that is registered or in a file.
        taken: Texts of the sets that were built before these; they are not drawn again.
    """
    known = {normalised(text) for text in taken}
    people = World(world.people, world.popularity_exponent, seed)
    frames = {}
    for name in drawing_order(datasets):
        dataset = datasets[name]
        if isinstance(dataset.source, GivenSettings):
            rows = _given(name, dataset.source, (given or {})[name])
        else:
            draw = random.Random(f"{seed}/{name}")
            if isinstance(dataset.source, SyntheticFactsSettings):
                drawn = _facts(dataset.source, people, draw)
            else:
                drawn = _mathematics(dataset.source, draw)
            rows = _distinct(name, drawn, dataset.source.questions, known)
        frames[name] = pd.DataFrame(rows).assign(dataset=name, domain=dataset.domain, split=dataset.role)
        known |= set(frames[name]["question"].map(normalised))
    return frames


def _distinct(name: str, drawn: Iterable[dict], count: int, taken: Collection[str]) -> list[dict]:
    """The first `count` questions that are drawn, without repetitions and without those that are `taken`."""
    rows: dict[str, dict] = {}
    for number, row in enumerate(drawn):
        text = normalised(row["question"])
        if text not in taken and text not in rows:
            rows[text] = row | {"question_id": f"{name}-{len(rows):05d}", "aliases": []}
            if len(rows) == count:
                break
        elif number - len(rows) >= _TRIES * count:
            raise ConfigError(
                f"datasets.{name}: only {len(rows)} of {count} distinct questions were found; "
                "ask for fewer, or for more levels, families or people"
            )
    return list(rows.values())


def _given(name: str, source: GivenSettings, questions: Sequence[Question]) -> list[dict]:
    if source.questions not in (None, len(questions)):
        raise ConfigError(
            f"datasets.{name}: the source has {len(questions)} questions, source.questions says {source.questions}"
        )
    used = questions[: source.limit]
    if source.spread and source.limit and source.limit < len(questions):
        used = [questions[k * len(questions) // source.limit] for k in range(source.limit)]
    return [
        {
            "question_id": f"{name}-{row.id}",
            "question": row.question,
            "answer": row.answer,
            "aliases": list(row.aliases),
            "subject": row.subject,
            "level": row.level,
        }
        for row in used
    ]


def _mathematics(source: SyntheticMathematicsSettings, draw: random.Random) -> Iterator[dict]:
    levels, weights = list(source.levels), list(source.levels.values())
    while True:
        family = draw.choice(source.families)
        level = draw.choices(levels, weights=weights)[0]
        drawn = problem(family, level, draw.getrandbits(32), source.steps_spread)
        yield {"question": drawn.question, "answer": drawn.answer, "subject": family, "level": level}


def _facts(source: SyntheticFactsSettings, world: World, draw: random.Random) -> Iterator[dict]:
    first, last = (round(edge * (len(world.people) - 1)) for edge in source.popularity)
    while True:
        fact = world.ask(draw.randint(first, last), draw.choice(source.relations), draw.choice(source.hops))
        yield {"question": fact.question, "answer": fact.answer, "subject": fact.relation, "level": fact.hops}


def texts_digest(questions: pd.DataFrame) -> str:
    """Digest of the ids and texts of the questions, in the order of the rows of a QUESTIONS table."""
    return digest([questions["question_id"].tolist(), questions["question"].tolist()])


def golds_digest(questions: pd.DataFrame) -> str:
    """Digest of the ids, answers and aliases: a run that resumed after a correction would mix two kinds of verdicts."""
    aliases = [list(some) for some in questions["aliases"]]
    return digest([questions["question_id"].tolist(), questions["answer"].tolist(), aliases])


def questions_digests(questions: pd.DataFrame) -> dict[str, str]:
    """Both digests, `questions` and `golds`, for the digest of a run that samples and judges."""
    return {"questions": texts_digest(questions), "golds": golds_digest(questions)}
