"""What a saved companion says of itself: its `config.json`, and its model card."""

from typing import TYPE_CHECKING, Literal

from cocal import __version__
from cocal.companion.spec import CompanionSpec
from cocal.config.base import Count, Model
from cocal.errors import ContractError
from cocal.metrics.shown import metric_text

if TYPE_CHECKING:
    import pandas as pd
    from transformers import PretrainedConfig

_SHOWN = {"accuracy": "accuracy (%)", "mean_confidence": "mean confidence", "ece": "ECE", "auroc": "AUROC"}
_SHOWN |= {"brier": "Brier score"}


class BaseModelFacts(Model):
    """The language model whose hidden states a companion reads."""

    name: str
    """Name on the hub, or path of its folder."""
    revision: str | None = None
    """Commit on the hub, if it comes from there."""
    model_type: str
    hidden: Count
    """Width of a hidden state."""
    blocks: Count
    vocabulary: Count

    @classmethod
    def of(cls, config: "PretrainedConfig", name: str | None = None) -> "BaseModelFacts":
        """The facts in the configuration of a transformers model."""
        return cls(
            name=name or config.name_or_path or "unnamed",
            revision=getattr(config, "_commit_hash", None),
            model_type=config.model_type,
            hidden=config.hidden_size,
            blocks=config.num_hidden_layers,
            vocabulary=config.vocab_size,
        )

    def check(self, other: "BaseModelFacts") -> None:
        """Refuse a model of another architecture.

        Raises:
            ContractError: if a property differs; the message names it.
        """
        words = {
            "model_type": "type",
            "hidden": "hidden width",
            "blocks": "number of blocks",
            "vocabulary": "vocabulary",
        }
        for name, word in words.items():
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise ContractError(
                    f"{other.name}: the model's {word} is {theirs}, but the companion reads the states of {self.name}, "
                    f"where it is {ours}; give that model, or fit a companion for this one (cocal fit)"
                )


class Metric(Model):
    """One metric with its interval; None where it is undefined."""

    metric: str
    value: float | None
    lower: float | None
    upper: float | None


class HeldOut(Model):
    """Quality on all responses to validation questions, truncated ones too. These questions chose the best pass."""

    responses: Count
    questions: Count
    seeds: tuple[int, ...]
    """The seeds whose mean confidence was measured."""
    target: str
    metrics: tuple[Metric, ...]

    @classmethod
    def of(cls, found: "pd.DataFrame", **facts: object) -> "HeldOut":
        """Metrics from `cocal.standalone.quality.measured`."""
        rows = found.astype(object).where(found.notna(), None).to_dict("records")
        return cls(metrics=tuple(Metric(**row) for row in rows), **facts)


class About(Model):
    """The content of `config.json`."""

    model_type: Literal["cocal-companion"] = "cocal-companion"
    cocal_version: str = __version__
    spec: CompanionSpec
    """Architecture, training settings, the layer and poolings that are read, and the steps that were learnt from."""
    states: Literal["float32", "bfloat16"] = "bfloat16"
    """Number format to which hidden states are rounded before they are read."""
    base_model: BaseModelFacts
    thinking: bool = False
    """Whether chats are put into the template in thinking mode."""
    notes: tuple[str, ...] = ()
    """What the rollouts were, and what was assumed of them."""
    held_out: HeldOut | None = None

    def in_words(self) -> str:
        """Held-out quality in one sentence, or that there is none."""
        if self.held_out is None:
            return "The quality on held-out questions was not measured."
        one = self.held_out
        values = ", ".join(f"{_SHOWN[m.metric]} {_interval(m)}" for m in one.metrics if m.metric in _SHOWN)
        return f"On {one.responses:,} responses to {one.questions:,} held-out questions: {values}."

    def card(self) -> str:
        """The model card, in Markdown with the Hub's metadata."""
        spec, base = self.spec, self.base_model
        on_hub = not base.name.startswith((".", "/")) and base.name.count("/") == 1
        metadata = ["---", "library_name: cocal", "tags: [confidence-calibration, companion]"]
        metadata += [f"base_model: {base.name}"] if on_hub else []
        seeds, widths = len(spec.settings.seeds), " / ".join(map(str, spec.settings.widths))
        revision = f" at revision {base.revision}" if base.revision else ""
        lines = [
            *metadata,
            "---",
            "",
            f"# Companion of {base.name}",
            "",
            "A companion is a small MLP that reads hidden states of a language model and tells how likely the model's "
            "answer is correct (*Companion Confidence Calibration*). The language model itself is not changed.",
            "",
            "```python",
            "from cocal import Companion",
            "",
            'companion = Companion.from_pretrained("THIS FOLDER OR ITS NAME ON THE HUB")',
            "confidences = companion.score(model, tokenizer, prompts, responses)",
            "```",
            "",
            "## Base model",
            "",
            f"`{base.name}`{revision}: {base.model_type}, {base.blocks} blocks, states of width {base.hidden}, "
            f"{base.vocabulary:,} tokens. The companion reads block {spec.layer} (counted from 0), before any final "
            f"norm: {' and '.join(spec.poolings)} over the tokens of the response, end token included, rounded to "
            f"{self.states}.",
            "",
            "## Training",
            "",
            f"{spec.training_responses:,} responses of rollout steps 1 to {spec.steps}, of which "
            f"{100 * spec.training_error_share:.1f} % are wrong, in {spec.order} order; truncated responses take no "
            f"part. {spec.settings.passes} passes; the one with the lowest validation error was kept (on "
            f"{spec.validation_responses:,} responses to other questions). Hidden layers {widths}; {seeds} "
            f"seed{'s' if seeds > 1 else ''} ({', '.join(map(str, spec.settings.seeds))}) for each target "
            f"({', '.join(spec.settings.targets)}). A confidence is the mean over the seeds, unless one is named.",
            "",
            *(f"* {note}" for note in self.notes),
            *([""] if self.notes else []),
            "## Quality on held-out questions",
            "",
            *self._quality(),
            "",
            "## Limits",
            "",
            "* The confidence holds for this base model and the kind of questions that it was trained on. On other "
            "questions, other prompts and other checkpoints it may be worse calibrated: measure it there "
            "(`cocal evaluate`).",
            "* It says how likely the verifier of the training would call the answer correct, with the verifier's "
            "mistakes.",
            "* Give exact token ids where there are any: a text that is tokenised anew may differ from what was "
            "sampled, and so may its confidence.",
            "",
        ]
        return "\n".join(lines)

    def _quality(self) -> list[str]:
        if self.held_out is None:
            return [self.in_words()]
        one = self.held_out
        seeds = f"the mean of {len(one.seeds)} seeds" if len(one.seeds) > 1 else f"seed {one.seeds[0]}"
        return [
            f"{one.responses:,} responses to {one.questions:,} questions that no gradient step has seen, truncated "
            f"ones included; {seeds}, target {one.target}. The same questions chose the best pass, so that the numbers "
            "are slightly optimistic. Intervals (95 %) come from resampling the questions.",
            "",
            "| metric | value | 95 % interval |",
            "|---|---|---|",
            *(
                f"| {_SHOWN[m.metric]} | {_text(m.metric, m.value)} | {_text(m.metric, m.lower)} to "
                f"{_text(m.metric, m.upper)} |"
                for m in one.metrics
                if m.metric in _SHOWN
            ),
        ]


def _interval(one: Metric) -> str:
    if one.value is None:
        return "undefined"
    return f"{_text(one.metric, one.value)} ({_text(one.metric, one.lower)} to {_text(one.metric, one.upper)})"


def _text(name: str, value: float | None) -> str:
    return metric_text(name, float("nan") if value is None else value)
