"""Sizes of models, from the shapes that a study states."""

from cocal_study.config.backbone import BackboneSettings, DecoderSettings, PretrainingSettings

VOCABULARY = 151_936
"""Assumed number of tokens in the vocabulary of a checkpoint whose shape is not stated."""
HALF, SINGLE = 2, 4
"""Bytes of a number in half and in single precision."""


def shape_of(backbone: BackboneSettings) -> DecoderSettings:
    """Shape of a backbone's blocks; of a checkpoint without `architecture`, that which estimates assume."""
    if isinstance(backbone, PretrainingSettings) and backbone.start:
        return shape_of(backbone.start)
    if isinstance(backbone, PretrainingSettings):
        return DecoderSettings(**backbone.architecture.model_dump(include=set(DecoderSettings.model_fields)))
    if backbone.architecture is not None:
        return backbone.architecture
    return DecoderSettings(heads=max(1, backbone.width // 128), intermediate_size=3 * backbone.width)


def parameters_of(backbone: BackboneSettings) -> float:
    """Number of parameters without those of the norms. A checkpoint whose shape is not stated is assumed to have untied
    embeddings of `VOCABULARY` rows and 12 x width^2 parameters per block."""
    if isinstance(backbone, PretrainingSettings) and backbone.start:
        return parameters_of(backbone.start)
    if (shape := backbone.architecture) is not None:
        attention = 2 * (shape.heads + shape.key_value_heads) * shape.head_dim
        block = backbone.width * (attention + 3 * shape.intermediate_size)
        return backbone.depth * block + (1 if shape.tied else 2) * shape.vocabulary * backbone.width
    return 12 * backbone.depth * backbone.width**2 + 2 * VOCABULARY * backbone.width


def cache_bytes(backbone: BackboneSettings, tokens: float) -> float:
    """Bytes of the keys and values of so many tokens, in bfloat16."""
    shape = shape_of(backbone)
    return tokens * 2 * backbone.depth * shape.key_value_heads * shape.head_dim * HALF
