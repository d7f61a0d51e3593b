"""The base of every configuration model."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Model(BaseModel):
    """Immutable settings that refuse unknown keys; attribute docstrings become descriptions in the JSON schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.]*(-[a-z0-9.]+)*$")]
"""A name that becomes part of a path: lower case, digits, dots, single hyphens."""

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
OpenShare = Annotated[float, Field(gt=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]

Algorithm = Literal["grpo", "rlcr", "dcpo"]
AdvantageScale = Literal["group", "none"]
