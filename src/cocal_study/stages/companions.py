"""Companions fitted on stored rollouts, at once or step by step."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from cocal.companion.settings import CompanionSettings
from cocal.companion.spec import Order, Prefix
from cocal.errors import ConfigError
from cocal.runtime.machine import fix_threads
from cocal.runtime.progress import Progress
from cocal.settings.base import Count
from cocal.store import atomic_path, write_frame
from cocal_study.planning import results
from cocal_study.planning.costs import Cost, device_name, write_cost
from cocal_study.planning.results import ORDERS
from cocal_study.provenance.lineage import Source, descent, inherited, placed
from cocal_study.stages.base import In, Out, OutFolder, Seed, Stage, TrainingSet
from cocal_study.stages.jobs import Job, Rule, Rules


def _prefix(word: object) -> object:
    return Prefix.parse(word) if isinstance(word, str) else word


class _FromRollouts(Stage):
    settings: CompanionSettings = CompanionSettings()
    rollouts: In
    questions: TrainingSet
    features: In


class Companions(_FromRollouts):
    """Fits companions for every prefix and every choice of states."""

    steps: tuple[Annotated[Prefix, BeforeValidator(_prefix)], ...]
    """N[/M]: each word makes one fit, which trains on rollout steps 1 to N and chooses its best pass by validation on
    steps 1 to M (default: N)"""
    order: Order = "chronological"
    shuffle_seed: Seed | None = None
    """seed of the order; needed by --order shuffled"""
    states: tuple[str, ...] = ()
    """LAYER/POOLINGS: each word makes one fit and names a zero-based block index and its pooled states in order, such
    as 0/last+mean (default: last+mean of the deepest block stored)"""
    prompts: bool = False
    """the features belong to prompts, with one row per group of rollouts"""
    memory: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """GiB of memory for features, on the GPU if there is one; features that do not fit are read again in every pass,
    with the same result (default: 5, or half of the GPU's free memory)"""
    cost: Out | None = None
    """file for the time of the last fit (longest prefix, last states)"""
    output: OutFolder
    """folder for steps-N and steps-N-validation-M, each with weights, history and spec; with --states, for
    LAYER/POOLINGS/steps-N"""

    def writes(self):
        return [self.output]

    def sources(self):
        experience = "rollouts" if self.prompts else self._learnt
        return [Source(self.rollouts, experience=experience), Source(self.features), Source(self.questions)]

    @property
    def _learnt(self) -> str:
        return next(kind for kind, order in ORDERS.items() if order == self.order)

    def run(self) -> None:
        from cocal.companion.companions import write_companions
        from cocal.companion.fit import fit_companions
        from cocal.features.forward import PROMPT, RESPONSE_POOLINGS
        from cocal.features.store import open_features
        from cocal_study.generation.labels import check_features, question_texts, read_prompts, read_rollouts

        prefixes = sorted(set(self.steps))
        fix_threads()
        read = read_prompts if self.prompts else read_rollouts
        rollouts = read(self.rollouts, self.questions, max(map(max, prefixes)))
        questions, features = question_texts(self.questions), open_features(self.features)
        check_features(rollouts, features)
        facts = inherited(self.rollouts, "backbone", "algorithm") | {
            "experience": "prompts" if self.prompts else self._learnt
        }
        attributes = self.attributes(self.output, self.settings, **facts)
        default = None, [PROMPT] if self.prompts else list(RESPONSE_POOLINGS), self.output
        states = [(*_states(words), self.output / words) for words in self.states] or [default]
        progress = Progress("", self.settings.passes * sum(prefix.steps for prefix in prefixes) * len(states))
        for layer, poolings, output in states:
            fits = fit_companions(
                self.settings,
                features,
                rollouts,
                questions,
                prefixes,
                order=self.order,
                shuffle_seed=self.shuffle_seed,
                layer=layer,
                poolings=poolings,
                memory=None if self.memory is None else int(self.memory * 2**30),
                progress=progress,
            )
            started = time.monotonic()
            for companions, history in fits:
                spent = time.monotonic() - started
                prefix = companions.spec.prefix
                steps = {"source_step": str(prefix.steps), "validation_step": str(prefix.validation_steps)}
                folder = output / prefix.folder
                write_companions(folder, companions, history, attributes | steps | placed(folder))
                best = zip(companions.spec.members, companions.spec.best_pass, strict=True)
                said = ", ".join(f"{target} {seed}: {number}" for (target, seed), number in best)
                logging.info("%s: best of %d passes: %s", folder, self.settings.passes, said)
                started = time.monotonic()
        if self.cost:
            cost = Cost(seconds=spent, items=len(companions.members), device=device_name())
            write_cost(self.cost, cost, attributes | placed(self.cost))


def _states(words: str) -> tuple[int, list[str]]:
    """Split LAYER/POOLINGS into the layer and its poolings."""
    layer, slash, poolings = words.partition("/")
    if not slash or not layer.isdecimal() or not poolings:
        raise ConfigError(f"--states: {words!r} is not LAYER/POOLINGS, such as 2/last+mean")
    return int(layer), poolings.split("+")


class Online(_FromRollouts):
    """Learns from each step, and scores companions on the step that follows, replayed ones too."""

    steps: Count
    windows: tuple[Count, ...] = (1,)
    """numbers of the last rollout steps that are learnt from with every new one; each makes companions of its own
    (default: 1)"""
    stages: tuple[Count, ...] = ()
    """steps after which companions are kept"""
    replayed: tuple[Path, ...] = ()
    """companions that `cocal companions` has fitted on the first steps, to be scored on the step that follows"""
    bins: Count = 10
    output_companions: OutFolder
    """folder for window-W/steps-N"""
    output: Out
    """table of the scores of every step (Parquet)"""

    def sources(self):
        learnt = [Source(path, experience="rollouts") for path in (self.rollouts, self.features, *self.replayed)]
        return [*learnt, Source(self.questions)]

    def run(self) -> None:
        import pandas as pd

        from cocal.companion.companions import load_companions, write_companions
        from cocal.companion.stepwise import OnlineCompanions
        from cocal.features.forward import RESPONSE_POOLINGS
        from cocal.features.store import open_features
        from cocal_study.generation.labels import check_features, question_texts, read_rollouts
        from cocal_study.policy.online import learn_online, replayed
        from cocal_study.store.contracts import PREQUENTIAL

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
                    companions = learner.companions(features.layers[-1])
                    of_step = {"source_step": str(step), "validation_step": str(step)}
                    of_step |= placed(self.output_companions / place)
                    write_companions(folder / place, companions, learner.scores, attributes | of_step)
        tables = [learner.scores.assign(window=learner.window, kept_bytes=learner.kept_bytes) for learner in learners]
        fits = (load_companions(folder) for folder in self.replayed)
        tables += [scores.assign(window=0) for scores in replayed(fits, features, rollouts, bins)]
        table = pd.concat(tables, ignore_index=True)
        write_frame(self.output, table, PREQUENTIAL, self.attributes(self.output, wanted, **facts))


class CompanionRules(Rules):
    """One job fits the companions of all prefixes, seeds and targets of a variant (`cocal_study.planning.variants`),
    whose features it reads once."""

    def rules(self) -> Iterator[Rule]:
        companions = {
            "output": results.variant_folder("{backbone}", "{variant}"),
            "cost": results.cost_file("{backbone}", "companions-{variant}"),
        }
        online = {
            "output_companions": results.companion_folder("{backbone}", "online"),
            "output": results.online_file("{backbone}"),
        }
        yield Rule(name="companions", make=self._companions, places=companions, gpus=1)
        yield Rule(name="online", make=self._online, places=online, gpus=1)

    def _companions(self, backbone: str, variant: str, **made: str) -> Job:
        from cocal_study.planning.variants import variant_of  # loads the baselines' modules

        return self._job(Companions, **variant_of(self.study, backbone, variant), questions=self._training_set, **made)

    def _online(self, backbone: str, **made: str) -> Job:
        """Companions that learn from each rollout step when it is produced; the states are those that were kept for
        replay. They are scored on every step before they learn from it, beside the replayed companions."""
        from cocal_study.planning import variants

        study = self.study
        return self._job(
            Online,
            settings=study.companion,
            rollouts=results.rollouts_folder(backbone, "grpo"),
            features=results.states_file(backbone, "grpo"),
            questions=self._training_set,
            windows=variants.windows(study),
            stages=study.policy.stages,
            replayed=variants.replayed_folders(study),
            steps=self._final,
            bins=study.metrics.bins,
            **made,
        )
