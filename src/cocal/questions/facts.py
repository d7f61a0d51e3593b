"""A synthetic world of people with a city, a job and a mentor each, for factual question answering.

Popularity decides how often the pre-training corpus mentions a person, so that the policy knows some facts and not
others. Questions follow mentors: a question with one hop asks for a fact about a person, one with two hops for a fact
about the person's mentor, and so on. Answers are names, never numbers: factual questions share neither words nor answer
type with the mathematics that companions are trained on.
"""

import random
from dataclasses import dataclass
from functools import cached_property

_STARTS = ("Ba", "Ce", "Do", "Fi", "Ga", "Hu", "Jo", "Ka", "Le", "Mi", "No", "Pa", "Ri", "Su", "Te", "Va")
_ENDS = ("dan", "fer", "gul", "kin", "lor", "mas", "nel", "pim", "rak", "sev", "tov", "wyn", "zed", "bri", "cam")
_CITIES = ("Arden", "Bexley", "Corun", "Delmar", "Estra", "Farrow", "Gilden", "Hollin", "Istra", "Juna")
_JOBS = ("baker", "carver", "diver", "farmer", "glazier", "hunter", "judge", "mason", "pilot", "weaver")
RELATIONS = ("city", "job", "mentor")


@dataclass(frozen=True)
class Fact:
    """A question about the world.

    Attributes:
        question: Text of the question.
        answer: A name or a noun.
        steps: The chain of facts that leads to the answer, each as a sentence.
        relation: Relation that the question asks for.
        hops: Length of the chain.
        person: Rank of the person that the chain starts at; 0 is the most popular.
    """

    question: str
    answer: str
    steps: tuple[str, ...]
    relation: str
    hops: int
    person: int


class World:
    """The people and their facts, drawn from a seed.

    Args:
        people: Number of people; at most 3,600.
        popularity_exponent: The person of rank r is mentioned in proportion to (r + 1) ** -popularity_exponent.
        seed: Seed of the names and facts.
    """

    def __init__(self, people: int, popularity_exponent: float, seed: int):
        draw = random.Random(f"world/{seed}")
        names = [f"{start}{end}" for start in _STARTS for end in _ENDS]
        pairs = [f"{first} {last}" for first in names[:60] for last in names[60:120]]
        self.people = draw.sample(pairs, people)
        self.mentions = [(rank + 1.0) ** -popularity_exponent for rank in range(people)]
        self.facts = {
            "city": [draw.choice(_CITIES) for _ in self.people],
            "job": [draw.choice(_JOBS) for _ in self.people],
            "mentor": [self.people[self._mentor(rank, draw)] for rank in range(people)],
        }

    @cached_property
    def _rank(self) -> dict[str, int]:
        return {name: rank for rank, name in enumerate(self.people)}

    def _mentor(self, rank: int, draw: random.Random) -> int:
        """Rank of a mentor, somebody else. Popular people have more pupils, by the root of their popularity."""
        others = [(other, weight**0.5) for other, weight in enumerate(self.mentions) if other != rank]
        ranks, weights = zip(*others, strict=True)
        return draw.choices(ranks, weights)[0]

    def mentioned(self, draw: random.Random) -> int:
        """Rank of a person, drawn by popularity."""
        return draw.choices(range(len(self.people)), weights=self.mentions)[0]

    def ask(self, person: int, relation: str, hops: int) -> Fact:
        """The question for `relation` of the person who is `hops` - 1 mentors away from the person of rank `person`."""
        name, steps = self.people[person], []
        described = name
        for _ in range(hops - 1):
            mentor = self.facts["mentor"][self._rank[name]]
            steps.append(f"The mentor of {name} is {mentor}.")
            name, described = mentor, f"the mentor of {described}"
        answer = self.facts[relation][self._rank[name]]
        steps.append(_STATEMENTS[relation].format(name=name, answer=answer))
        question = _QUESTIONS[relation].format(name=described)
        return Fact(question, answer, tuple(steps), relation, hops, person)


_STATEMENTS = {
    "city": "{name} lives in {answer}.",
    "job": "{name} is a {answer}.",
    "mentor": "The mentor of {name} is {answer}.",
}
_QUESTIONS = {
    "city": "Where does {name} live?",
    "job": "What does {name} do?",
    "mentor": "Who is the mentor of {name}?",
}
