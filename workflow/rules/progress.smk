# The expected seconds of each job, from which the terminal shows the share of the work and the time left (logger plugin
# cocal; see profiles/default).
from cocal.resources.durations import seconds_by_rule

logger.info(
    f"Study: {STUDY.study}",
    extra={"seconds_by_rule": seconds_by_rule(STUDY), "backbones": list(STUDY.backbones)},
)
