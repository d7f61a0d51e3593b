"""Sizes of models, from the shapes that a study states."""

from cocal_study.config.backbone import BackboneSettings, DecoderSettings, PretrainingSettings

HALF, SINGLE = 2, 4
"""Bytes of a number in half and in single precision."""


def shape_of(backbone: BackboneSettings) -> DecoderSettings:
    """Shape of a backbone's blocks. Of a checkpoint that does not state it, about 12 x width^2 parameters per block and
    Qwen3's vocabulary are assumed."""
    if isinstance(backbone, PretrainingSettings):
        if backbone.start:
            return shape_of(backbone.start)
        return DecoderSettings(**backbone.architecture.model_dump(include=set(DecoderSettings.model_fields)))
    heads = max(1, backbone.width // 128)
    return backbone.architecture or DecoderSettings(heads=heads, intermediate_size=3 * backbone.width)


def parameters_of(backbone: BackboneSettings) -> float:
    """Number of parameters without those of the norms."""
    shape = shape_of(backbone)
    attention = 2 * (shape.heads + shape.key_value_heads) * shape.head_dim
    block = backbone.width * (attention + 3 * shape.intermediate_size)
    return backbone.depth * block + (1 if shape.tied else 2) * shape.vocabulary * backbone.width


def cache_bytes(backbone: BackboneSettings, tokens: float) -> float:
    """Bytes of the keys and values of so many tokens, in bfloat16."""
    shape = shape_of(backbone)
    return tokens * 2 * backbone.depth * shape.key_value_heads * shape.head_dim * HALF
