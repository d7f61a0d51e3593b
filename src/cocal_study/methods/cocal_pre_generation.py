"""CoCal (pre-generation): a companion that judges from the prompt alone (appendix F.4).

It learnt the group accuracy of the rollouts' questions and scores the state of the last prompt token. All responses to
a question therefore have the same confidence.
"""

from cocal_study.config.method import Method

METHOD = Method(
    name="cocal-pre-generation",
    label="CoCal (pre-generation)",
    position=110,
    prompt_format="answer",
    policy="grpo",
    estimate="cocal_study.methods.base.companion_scores:estimate",
    experience="prompts",
    target="question",
    colour="#459f82",
    marker="p",
)
