"""The config of a companion: its settings, the model that it was fitted for, its quality, and its model card."""

import hashlib
import logging
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

import numpy as np

from cocal import __version__
from cocal.companion.spec import CompanionSpec
from cocal.errors import ConfigError, ContractError
from cocal.features.extract import TOKEN_INPUTS
from cocal.fitting.held_out import LEAST_COMPARED, HeldOut, Part, ResponseStatistics, table_of, table_of_parts
from cocal.models.hub import may_be_on_hub
from cocal.models.loading import text_config
from cocal.rollouts.format import Reading
from cocal.settings.base import Count, Model

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Recipe = Literal["best", "paper"]
Truncated = Literal["as-labelled", "wrong", "leave-out"]
_UNLIKELY = (
    "most of these responses are less likely to the model than 95 % of those that the companion learnt from: are the "
    "prompts worded otherwise, or is the policy another? Confidences may be wrong here; measure them (cocal evaluate)"
)
_LIKE_A_CONSTANT = "* Not shown to be better than a constant"
_DIGITS = 8


class Tried(Model):
    """A recipe that was tried, and its Brier score by cross-validation over all responses that are learnt from."""

    name: str
    brier: float


class BaseModelInfo(Model):
    """The language model whose hidden states a companion reads."""

    name: str
    """Name on the hub, or path of its folder; a card shows the folder's own name alone (`shown`)."""
    revision: str | None = None
    """Commit on the hub, if it comes from there."""
    step: int | None = None
    """Rollout step of its training, if its folder says it."""
    adapter: str | None = None
    """Digest of an adapter that was merged into it."""
    weights: str | None = None
    """Digest of its files of weights, if it is a folder."""
    sample: str | None = None
    """Digest of some of its weights as they were read (`cocal.models.weights.sample_digest`)."""
    tokenizer: str | None = None
    """Digest of its vocabulary, if a file names the ids."""
    model_type: str
    hidden: Count
    """Width of a hidden state."""
    blocks: Count
    vocabulary: Count

    @property
    def shown(self) -> str:
        """The name for other people: that on the hub, or the last part of a path."""
        return self.name if may_be_on_hub(self.name) else PurePath(self.name).name

    @classmethod
    def of(cls, config: "PretrainedConfig", name: str | None = None) -> "BaseModelInfo":
        """The facts in the configuration of a transformers model."""
        text, name = text_config(config), name or config.name_or_path or "unnamed"
        if may_be_on_hub(name) and Path(name).is_dir():  # otherwise it would be taken for a name on the Hub
            name = f"./{name}"
        return cls(
            name=name,
            revision=getattr(config, "_commit_hash", None),
            model_type=config.model_type,
            hidden=text.hidden_size,
            blocks=text.num_hidden_layers,
            vocabulary=text.vocab_size,
        )


def prompt_digest(ids: np.ndarray) -> str:
    """The first digits of a digest of a prompt's token ids."""
    return hashlib.sha256(ids.astype(np.int32).tobytes()).hexdigest()[:_DIGITS]


def prompt_digests(prompts: Iterable[np.ndarray]) -> str:
    """The distinct `prompt_digest`s of these prompts, sorted and concatenated."""
    return "".join(sorted({*map(prompt_digest, prompts)}))


class CompanionConfig(Reading):
    """The content of a companion's `config.json`, including how the rollouts were read."""

    model_type: Literal["cocal-companion"] = "cocal-companion"
    cocal_version: str = __version__
    spec: CompanionSpec
    """Architecture, training settings, the layer and poolings that are read, and the steps that were learnt from."""
    states: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format to which hidden states are rounded before they are read."""
    base_model: BaseModelInfo
    license: str | None = None
    """Licence of the companion, by the Hub's name for it, such as "apache-2.0"; None if nobody has said it."""
    notes: tuple[str, ...] = ()
    """Sentences about the rollouts, and about what was assumed of them."""
    recipe: Recipe = "paper"
    """How the members were chosen and fitted (`cocal.fitting.fit.fit`)."""
    truncated: Truncated = "leave-out"
    """Whether responses that were cut at the limit kept the verifier's labels, counted as wrong, or were not learnt."""
    token_probability: bool = False
    """Whether the last `TOKEN_INPUTS` inputs are token statistics."""
    prefixes: Count | None = None
    """Interval, in tokens, at which growing responses were learnt from, too; None if only whole ones were."""
    tried: tuple[Tried, ...] = ()
    """The recipes that were compared, the best first."""
    held_out: HeldOut | None = None
    """Quality on the last stage: the last tenth of the steps that have held-out questions."""
    held_out_all_steps: HeldOut | None = None
    """Quality on all steps; None if there is only the last stage."""
    held_out_complete: HeldOut | None = None
    """Quality on the responses of all steps that ended; None where none were cut, or this is not known."""
    held_out_truncated: HeldOut | None = None
    """Quality on the responses of all steps that were truncated; None in the same cases."""
    trajectory: tuple[Part, ...] = ()
    """Quality while responses of all steps grow; empty if prefixes were not learnt from."""
    learnt: str | None = None
    """Digest of the token ids of all rollouts (`cocal.fitting.fit.digest_of`)."""
    asked: str = ""
    """The `prompt_digests` of the prompts that were learnt from; empty if these are not known."""
    rollouts: ResponseStatistics | None = None
    """Statistics of all responses of the last stage, to held-out questions and others."""
    unlikely: float | None = None
    """Mean log-probability of the tokens below which a twentieth of the rollouts lie; None where it was not read."""

    @property
    def prompts(self) -> frozenset[str]:
        """The digests of the prompts that were learnt from."""
        return frozenset(self.asked[at : at + _DIGITS] for at in range(0, len(self.asked), _DIGITS))

    @property
    def states_width(self) -> int:
        """Number of inputs that are states."""
        return self.spec.inputs - TOKEN_INPUTS * self.token_probability

    @property
    def has_steps(self) -> bool:
        """Whether the rollouts named their steps."""
        return self.held_out is None or self.held_out.steps is not None

    @property
    def architecture(self) -> str:
        """The members, in words."""
        widths = self.spec.settings.widths
        return f"Hidden layers {' / '.join(map(str, widths))}" if widths else "No hidden layer: a linear probe"

    def check_model(self, model: BaseModelInfo) -> None:
        """Raise a ContractError if a model has another architecture or vocabulary, or lacks the block or the width that
        is read."""
        base, spec = self.base_model, self.spec
        words = {
            "model_type": "type",
            "hidden": "hidden width",
            "blocks": "number of blocks",
            "vocabulary": "vocabulary",
        }
        for name, word in words.items():
            ours, theirs = getattr(base, name), getattr(model, name)
            if ours != theirs:
                raise ContractError(
                    f"{model.name}: the model's {word} is {theirs}, but the companion reads the states of {base.name}, "
                    f"where it is {ours}; give that model, or fit a companion for this one (cocal fit)"
                )
        if not 0 <= spec.layer < model.blocks:
            raise ContractError(
                f"{model.name}: the companion reads block {spec.layer}, but the model has blocks 0 to "
                f"{model.blocks - 1}; fit a companion for this model (cocal fit)"
            )
        if (width := len(spec.poolings) * model.hidden) != self.states_width:
            raise ContractError(
                f"{model.name}: its states have width {model.hidden}, {width} with {' and '.join(spec.poolings)}, but "
                f"the companion reads {self.states_width}; give the model that it was fitted for"
            )
        if None not in (base.tokenizer, model.tokenizer) and base.tokenizer != model.tokenizer:
            raise ContractError(
                f"{model.name}: its tokenizer gives other ids to texts than that of {base.name}, for which the "
                "companion was fitted; put the tokenizer that the policy was trained with into the folder"
            )

    def warn_of_other(self, model: BaseModelInfo) -> None:
        """Log a warning if a model is another checkpoint or commit than the companion's, or has another adapter."""
        base, step = self.base_model, self.base_model.step or (self.spec.steps if self.has_steps else None)
        if base.adapter != model.adapter:
            ours, theirs = ("with an adapter" if info.adapter else "without one" for info in (base, model))
            logging.warning(
                "%s: the companion was fitted for the states of %s %s, and these are %s%s; give what it was fitted for "
                "(--adapter), unless that is merged into this model",
                *(model.name, base.name, ours, theirs, ", another one" * (ours == theirs)),
            )
        compared = (("commit", base.revision, model.revision), ("step", step, model.step))
        compared = (*compared, ("weights", base.weights, model.weights))
        for word, ours, theirs in compared:
            if None not in (ours, theirs) and ours != theirs:
                other = f"is {word} {theirs} of the policy, but the companion was fitted for {word} {ours}"
                logging.warning(
                    "%s: %s; its confidences may be worse calibrated here: give that checkpoint, or measure them "
                    "(cocal evaluate)",
                    *(model.name, f"its weights are not those of {base.name}" if word == "weights" else other),
                )
                break

    def check_prefixes(self) -> None:
        """Raise a ConfigError if the companion learnt from whole responses alone and cannot score growing ones."""
        if self.prefixes is None:
            raise ConfigError(
                "the companion has learnt from whole responses alone and says little before their end; fit one that "
                "has learnt from prefixes, too (cocal fit --prefixes 16)"
            )

    def warn_of_unlikely(self, inputs: np.ndarray) -> None:
        """Log a warning if most responses, given their inputs, float32 (n, inputs), are unlikely to come from the
        policy of the rollouts or to answer such prompts."""
        if not self.token_probability or self.unlikely is None:
            return
        if (inputs[:, self.states_width + 1] < self.unlikely).sum() > len(inputs) / 2:
            logging.warning(_UNLIKELY)

    def summary(self, alone: "CompanionConfig | None" = None) -> str:
        """Held-out quality in a few lines, on the last stage first, or a sentence that it was not measured; beside it
        that of the companion of states `alone`, if there is one."""
        if self.held_out is None:
            return "The quality on held-out questions was not measured."
        lines = []
        stages = alone._stages() if alone else {}
        for title, held in self._stages().items():
            basis, *table = held.table({"states alone": stages.get(title)})
            lines += [f"{title}: {basis}", *table, ""]
        return "\n".join([*lines, *self._judged()]).rstrip()

    def recipes(self) -> list[str]:
        """A table of the recipes that were tried, the best first."""
        head = "Brier score by cross-validation"
        return table_of([["recipe", head], *([recipe.name, f"{recipe.brier:.4f}"] for recipe in self.tried)])

    def _stages(self) -> dict[str, HeldOut]:
        """The quality by title: on all responses, or on the last stage and all steps; empty if it was not measured."""
        stages = {"Last stage" if self.held_out_all_steps else "All responses": self.held_out}
        stages |= {"All steps": self.held_out_all_steps}
        return {title: held for title, held in stages.items() if held}

    def _judged(self) -> list[str]:
        """Sentences on whether the companion differs from the baselines and from a constant by more than chance."""
        last = self.held_out if self.held_out_all_steps else None
        parts = {"the last stage": last} if last and last.has_interval else {}
        parts |= {"all of these": self.held_out_all_steps or self.held_out, "those that ended": self.held_out_complete}
        known = {name: held for name, held in parts.items() if held}
        said = [f"* On {name} {standing}." for name, held in known.items() if (standing := held.standing())]
        if all(held.questions < LEAST_COMPARED for held in known.values()):
            said = ["* So few questions do not tell which of these is better."]
        if alike := [name for name, held in known.items() if held.like_a_constant]:
            why = "more rollouts are needed, or the responses do not tell their labels"
            said.append(f"{_LIKE_A_CONSTANT} on {' and '.join(alike)}: {why}.")
        return said

    def warn_of_constant(self) -> None:
        """Log a warning where the card does not show the companion to be better than a constant."""
        for said in self._judged():
            if said.startswith(_LIKE_A_CONSTANT):
                logging.warning("the companion's card says: %s", said.removeprefix("* "))

    def card(self) -> str:
        """The model card, in Markdown with the Hub's metadata, from the template `card.md`."""
        from huggingface_hub import ModelCard, ModelCardData

        name = self.base_model.name
        data = ModelCardData(
            library_name="cocal",
            tags=["confidence-calibration", "companion"],
            base_model=name if may_be_on_hub(name) else None,
            license=self.license or "other",
            license_name=None if self.license else "unknown",
        )
        sections: dict[str, HeldOut | None] = {**self._stages()}
        sections |= {"Responses that ended, of all steps": self.held_out_complete}
        sections |= {"Responses that were cut, of all steps": self.held_out_truncated}
        values = {"sections": sections, "judged": self._judged() if self.held_out else ()}
        values |= {"parts": table_of_parts(self.trajectory), "held_out": self.held_out}
        text = files("cocal.fitting").joinpath("card.md").read_text(encoding="utf-8")
        card = ModelCard.from_template(
            data, template_str=text, config=self, spec=self.spec, base=self.base_model, **values
        )
        return f"{card}\n"
