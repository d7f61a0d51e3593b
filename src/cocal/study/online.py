"""Online companions of a study: what they learn from, and where their scores lie (figures/online)."""

from cocal.config.study import Study
from cocal.study.plan import companion_prefixes
from cocal.study.results import companion_folder


def windows(study: Study) -> tuple[int, ...]:
    """Numbers of rollout steps that online companions learn from together: one alone, and those of the buffer."""
    return tuple(sorted({1, study.reports.online_window or study.companion.passes}))


def replayed_folders(study: Study) -> list[str]:
    """Folders of CoCal's companions on the first steps of training, validated on the same steps."""
    prefixes = companion_prefixes(study, study.main_backbone, "rollouts")
    own = [one for one in prefixes if one.steps == one.validation_steps < study.policy.steps]
    return [f"{companion_folder(study.main_backbone, 'rollouts')}/{one.folder}" for one in own]


def online_folders(study: Study) -> list[str]:
    """Folders of the online companions that are kept: those of every window after every stage of the policy."""
    folder = companion_folder(study.main_backbone, "online")
    return [f"{folder}/window-{window}/steps-{step}" for window in windows(study) for step in study.policy.stages]
