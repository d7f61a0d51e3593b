"""The confidence methods: one entry each. Adding a method means one entry here and one module beside it.

Every method yields confidences in [0, 1]; higher means more likely correct. What a module provides is
`cocal.estimators.predictions.Family`.
"""

from dataclasses import dataclass
from typing import Literal

Need = Literal["responses", "verbal responses", "log-probabilities", "pool", "p-true", "features", "prompt features"]


@dataclass(frozen=True)
class Method:
    """One confidence method.

    Attributes:
        name: key in configurations, files and cubes.
        label: name in tables and figures, plain text.
        group: methods of one group stand between the same two rules of the main table; None: not in it.
        needs: what it reads besides the question and the verifier's labels.
        prompt_format: prompt format of the responses it is evaluated on; methods with "answer" share them.
        policy: policy that produces those responses.
        training: how it was trained, in a few words; empty for a training-free method.
        target: supervision target of a companion.
        source: where it is defined.
        experience: what its companion learnt from: the rollouts of GRPO, responses resampled from its final policy,
            or the prompts of the rollouts.
        module: of cocal.estimators, that computes it; methods of one module are computed together.
    """

    name: str
    label: str
    group: int | None
    needs: tuple[Need, ...]
    prompt_format: Literal["answer", "verbal", "rlcr", "dcpo"]
    policy: Literal["base", "grpo", "rlcr", "dcpo"]
    training: str
    source: str
    module: str
    target: Literal["group", "binary", "question"] | None = None
    experience: Literal["rollouts", "resampled", "prompts"] | None = None


_METHODS = (
    Method("base-verbal", "Base + Verbal", 0, ("verbal responses",), "verbal", "base", "", "section 5", "verbal"),
    Method("verbal", "Verbal", 1, ("verbal responses",), "verbal", "grpo", "", "section 5", "verbal"),
    Method(
        "self-consistency",
        "SelfConsis",
        1,
        ("responses", "pool"),
        "answer",
        "grpo",
        "",
        "appendix B.1",
        "self_consistency",
    ),
    Method(
        "token-probability",
        "TokenProb",
        1,
        ("responses", "log-probabilities"),
        "answer",
        "grpo",
        "",
        "appendix B.1",
        "token_probability",
    ),
    Method("p-true", "P(True)", 1, ("responses", "p-true"), "answer", "grpo", "", "appendix B.1", "p_true"),
    Method("rlcr", "RLCR", 2, ("verbal responses",), "rlcr", "rlcr", "coupled RL", "appendix B.2", "verbal"),
    Method("dcpo", "DCPO", 2, ("verbal responses",), "dcpo", "dcpo", "coupled RL", "appendix B.2", "verbal"),
    Method(
        "postcal-group",
        "PostCal (group)",
        2,
        ("responses", "features"),
        "answer",
        "grpo",
        "companion on resampled responses",
        "appendix B.2",
        "companion",
        target="group",
        experience="resampled",
    ),
    Method(
        "postcal-binary",
        "PostCal (binary)",
        2,
        ("responses", "features"),
        "answer",
        "grpo",
        "companion on resampled responses",
        "appendix B.2",
        "companion",
        target="binary",
        experience="resampled",
    ),
    Method(
        "cocal-group",
        "CoCal (group)",
        3,
        ("responses", "features"),
        "answer",
        "grpo",
        "companion on rollouts",
        "section 4",
        "companion",
        target="group",
        experience="rollouts",
    ),
    Method(
        "cocal-binary",
        "CoCal (binary)",
        3,
        ("responses", "features"),
        "answer",
        "grpo",
        "companion on rollouts",
        "section 4",
        "companion",
        target="binary",
        experience="rollouts",
    ),
    Method(
        "cocal-pre-generation",
        "CoCal (pre-generation)",
        None,
        ("responses", "prompt features"),
        "answer",
        "grpo",
        "companion on prompts of rollouts",
        "appendix F.4",
        "companion",
        target="question",
        experience="prompts",
    ),
    Method(
        "cocal-on-rlcr",
        "CoCal on RLCR",
        None,
        ("verbal responses", "features"),
        "rlcr",
        "rlcr",
        "companion on rollouts of GRPO",
        "appendix D",
        "companion",
        target="binary",
        experience="rollouts",
    ),
    Method(
        "cocal-on-dcpo",
        "CoCal on DCPO",
        None,
        ("verbal responses", "features"),
        "dcpo",
        "dcpo",
        "companion on rollouts of GRPO",
        "appendix D",
        "companion",
        target="binary",
        experience="rollouts",
    ),
)

METHODS: dict[str, Method] = {method.name: method for method in _METHODS}
"""All methods, those of the main table (table 1) first and in its order."""
