"""Companions with their initial weights, for benchmarks that need none that has learnt."""

from cocal.companion.companions import Companions, build_model
from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import CompanionSpec


def untrained(settings: CompanionSettings, inputs: int, layer: int = 0) -> Companions:
    """Companions that read `inputs` states, half of them the last token's, of a block.

    Args:
        settings: Their architecture, targets and seeds.
        inputs: Width of what they read.
        layer: Zero-based index of the block.
    """
    model = build_model(settings, inputs)
    model.initialise()
    spec = CompanionSpec(
        settings=settings,
        inputs=inputs,
        layer=layer,
        poolings=("last", "mean"),
        steps=1,
        validation_steps=1,
        order="chronological",
        shuffle_seed=None,
        training_responses=1,
        validation_responses=1,
        training_error_share=0.5,
        best_pass=(1,) * model.members,
    )
    return Companions(spec, model.eval())
