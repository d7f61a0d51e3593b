"""The ledger of the paper's claims, read from `config/paper/claims.yaml`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from cocal.settings.base import Count, Model, Name
from cocal_study.config.parse import read_yaml, validate
from cocal_study.evidence.predicates import Predicate

Kind = Literal["direction", "ranking", "count", "ratio"]
"""What a claim states: that one thing is better or greater than another, a rank among all, the number of cases in which
something holds, or a ratio of two numbers."""


class Scope(Model):
    """The cases of a claim: every combination of what the fields list, in the paper's own names and steps."""

    backbones: tuple[Literal["first", "second"], ...] = ("first",)
    """Qwen3-8B, Qwen3-14B, or a study's first and second backbone."""
    datasets: tuple[str, ...] = ("macro-mathematics",)
    """Macro averages, or data sets by their titles in the paper's tables."""
    steps: tuple[Count, ...] = (120,)
    """Steps of the policies."""
    learnt_from: tuple[Count, ...] = ()
    """Rollout steps that the companions learnt from; none if they are those of the policy."""
    off_diagonal: bool = False
    """True if companions that learnt from the steps of their policy are left out."""
    comparison: Literal["main", "sweep", "budgets", "cross-policy"] = "main"
    """Where the companions of several steps, or those of other policies, are compared."""


class Claim(Model):
    """One claim of the paper."""

    id: Name
    title: Annotated[str, Field(min_length=5, max_length=60)]
    """The claim in a few words."""
    section: str
    """Title of its section, subsection or paragraph, or "Abstract"."""
    quotation: Annotated[str, Field(min_length=10)]
    """Its words as the paper's source writes them."""
    kind: Kind
    predicate: Predicate | None = None
    """The statement about numbers that has to be true; none if the paper says too little."""
    scope: Scope = Scope()
    family: str = ""
    """What several claims say again; a claim that nothing restates is a family of its own."""
    reason: str = ""
    """Of a claim without predicate: what the paper leaves open."""
    cannot_fail: str = ""
    """Of a claim without predicate: why no result could contradict it."""
    note: str = ""
    """The reasons for this predicate, where the words allow several."""

    @model_validator(mode="after")
    def _predicate_or_reason(self) -> "Claim":
        if sum((self.predicate is not None, bool(self.reason), bool(self.cannot_fail))) != 1:
            raise ValueError("a claim has a predicate, or a reason why it has none")
        return self

    def scored_by(self, score: str) -> "Claim | None":
        """The claim with a proper score in the place of ECE; None if it does not compare ECEs."""
        names = [name for name in ("metrics", "falls", "rises") if "ece" in getattr(self.predicate, name, ())]
        changed = {
            name: tuple(score if metric == "ece" else metric for metric in getattr(self.predicate, name))
            for name in names
        }
        if self.predicate is None or not names:
            return None
        return self.model_copy(update={"predicate": self.predicate.model_copy(update=changed)})


class _Claims(Model):
    generally: Annotated[float, Field(gt=0, le=1)]
    """The share of the cases in which something "generally" holds, to which predicates refer by a YAML anchor."""
    claims: Annotated[tuple[Claim, ...], Field(min_length=1)]


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims, in the order of the paper. Raises ConfigError if the file is missing or wrong."""
    return validate(_Claims, read_yaml(path), str(path)).claims
