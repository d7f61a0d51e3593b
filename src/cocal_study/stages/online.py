"""Companions that learn from stored rollouts step by step, as if they learnt while the policy trained."""

from pathlib import Path
from typing import ClassVar

from cocal.errors import ConfigError
from cocal.settings.base import Count
from cocal.store.lineage import Source, descent, inherited, placed
from cocal_study.stages.base import Out, OutFolder
from cocal_study.stages.shared import FromRollouts


class Online(FromRollouts):
    """Learns from each step, and scores companions on the step that follows, replayed ones too."""

    command: ClassVar[str] = "online"

    steps: Count
    """number of rollout steps"""
    windows: tuple[Count, ...] = (1,)
    """numbers of the last rollout steps that are learnt from with every new one; each makes companions of its own
    (default: 1)"""
    stages: tuple[Count, ...] = ()
    """steps after which companions are kept"""
    replayed: tuple[Path, ...] = ()
    """companions that `cocal companions` has fitted on the first steps, to be scored on the step that follows"""
    bins: Count = 10
    """bins of the calibration error (default: 10)"""
    output_companions: OutFolder
    """folder for window-W/steps-N"""
    output: Out
    """table of the scores of every step (Parquet)"""

    def sources(self):
        learnt = [Source(path, experience="rollouts") for path in (self.rollouts, self.features, *self.replayed)]
        return [*learnt, Source(self.questions)]

    def run(self) -> None:
        """Learn step by step, score the replayed companions, and write both."""
        import pandas as pd

        from cocal.companion.companions import load_companions, write_companions
        from cocal.companion.stepwise import OnlineCompanions, learn_online, replayed
        from cocal.companion.supervision import check_features, question_texts, read_rollouts
        from cocal.features.forward import RESPONSE_POOLINGS
        from cocal.features.store import open_features
        from cocal.runtime.machine import fix_threads
        from cocal.runtime.progress import Progress
        from cocal.store import atomic_path, write_frame
        from cocal.store.contracts import PREQUENTIAL

        settings, windows, bins = self.settings, self.windows, self.bins
        if len({*windows}) != len(windows):
            raise ConfigError(f"--windows {' '.join(map(str, windows))}: give different numbers of steps")
        fix_threads()
        rollouts = read_rollouts(self.rollouts, self.questions, self.steps)
        features = open_features(self.features)
        check_features(rollouts, features)
        learnt = [source for source in self.sources() if source.path not in self.replayed]
        facts = inherited(self.rollouts, "backbone", "algorithm")
        wanted = {"companion": settings, "windows": windows, "bins": bins}
        inputs = len(RESPONSE_POOLINGS) * features.hidden
        learners = [
            OnlineCompanions(settings, inputs, number_format=features.dtype, window=window, bins=bins)
            for window in windows
        ]
        texts = question_texts(self.questions)
        attributes = descent(self.output_companions, self.command, wanted, learnt, **facts, experience="online")
        with atomic_path(self.output_companions) as folder:
            folder.mkdir()
            for step in learn_online(learners, features, rollouts, texts, Progress("step", self.steps)):
                for learner in learners if step in self.stages else ():
                    place = Path(f"window-{learner.window}", f"steps-{step}")
                    found = learner.companions(features.layers[-1])
                    of_step = {"source_step": str(step), "validation_step": str(step)}
                    of_step |= placed(self.output_companions / place)
                    write_companions(folder / place, found, learner.scores, attributes | of_step)
        tables = [one.scores.assign(window=one.window, kept_bytes=one.kept_bytes) for one in learners]
        fits = (load_companions(folder) for folder in self.replayed)
        tables += [found.assign(window=0) for found in replayed(fits, features, rollouts, bins)]
        table = pd.concat(tables, ignore_index=True)
        write_frame(self.output, table, PREQUENTIAL, self.attributes(self.output, wanted, **facts))
