"""A training by slime: questions out, its process, then its dumps and checkpoints as the files of a study."""

import json
import logging
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

import cocal
from cocal.config.evaluation import VerifierSettings
from cocal.config.policy import Algorithm, PolicySettings
from cocal.errors import ContractError
from cocal.integrations.importing import FORMATS
from cocal.integrations.slime.hooks import HookSettings
from cocal.integrations.slime.launch import SlimePaths, environment, launch_command, read_config, slime_command
from cocal.policy.objectives import PROMPT_FORMATS
from cocal.policy.schedule import question_schedule
from cocal.policy.seconds import StepSeconds
from cocal.prompts import Prompts
from cocal.store import write_text
from cocal.store.run_folder import RunFolder
from cocal.study.costs import write_cost


def train_with_slime(
    settings: PolicySettings,
    algorithm: Algorithm,
    *,
    places: SlimePaths,
    questions: pd.DataFrame,
    prompts: Prompts,
    verifier: VerifierSettings,
    per_node: str,
) -> None:
    """Run slime to the end; a killed run goes on from its last save. A finished one is not started again.

    Args:
        settings: protocol and machine.
        algorithm: which objective.
        places: files of the run.
        questions: training set (cocal.store.contracts.QUESTIONS).
        prompts: prompt set.
        verifier: bounds of the verifier.
        per_node: script that joins several nodes.

    Raises:
        ContractError: if slime fails.
    """
    _write_questions(settings, algorithm, questions, prompts, places.prompts)
    hooks = HookSettings(policy=settings.rollout_settings(algorithm), algorithm=algorithm, verifier=verifier)
    write_text(places.hooks, hooks.model_dump_json())
    if _finished(settings, places):
        return
    command = slime_command(settings, algorithm, places, read_config(places.base))
    command = launch_command(settings, command, per_node)
    write_text(places.run / "command.sh", shlex.join(command) + "\n")
    package = Path(cocal.__file__).parents[1]
    logging.info("slime in %s: %s", settings.slime.home, shlex.join(command))
    seconds, attempt, began = StepSeconds(places.run / "seconds.json"), time.time_ns(), time.monotonic()
    done = subprocess.run(command, check=False, env={**os.environ, **environment(settings, places, package)})
    seconds.record(attempt, time.monotonic() - began)
    if done.returncode:
        raise ContractError(
            f"{places.run}: slime ended with status {done.returncode}; its messages stand above. The same command goes "
            "on from its last save"
        )
    if not _finished(settings, places):
        raise ContractError(f"{places.run}: slime ended without the dumps of all steps or the checkpoint of the last")


def publish(
    settings: PolicySettings,
    *,
    places: SlimePaths,
    run: RunFolder,
    import_stage: Callable[[Path, Path], None],
    import_dumps: Callable[[Path, Path], None],
    outputs: Mapping[int, Path],
    rollouts: Path,
    cost: Path | None,
) -> None:
    """Give checkpoints and rollouts of a finished run their places, and remove the run.

    Args:
        settings: protocol.
        places: files of the run.
        run: its folder.
        import_stage: checks a checkpoint and places it (cocal.checkpoints.importing).
        import_dumps: makes tables of a folder of dumps (cocal.integrations.importing).
        outputs: stage -> checkpoint folder.
        rollouts: folder of the tables.
        cost: file for the time of all attempts; none if it is not wanted.
    """
    for step in outputs:
        import_stage(places.export(step), run.path / f"step-{step}")
    import_dumps(places.dumps, run.path / "rollouts")
    if cost is not None:
        write_cost(cost, StepSeconds(run.path / "seconds.json").cost(items=settings.steps))
    run.publish({"rollouts": rollouts} | {f"step-{step}": folder for step, folder in outputs.items()})


def _write_questions(
    settings: PolicySettings, algorithm: Algorithm, questions: pd.DataFrame, prompts: Prompts, path: Path
) -> None:
    """One line a question asked, in the order of the schedule; slime reads them without shuffling."""
    schedule = question_schedule(len(questions), settings.steps, settings.questions_per_step, settings.seed)
    lines = []
    for row in questions.iloc[schedule.ravel()].itertuples():
        message = prompts.message(PROMPT_FORMATS[algorithm], row.question)
        metadata = {"question_id": row.question_id, "golds": [row.answer, *row.aliases]}
        entry = {"prompt": [{"role": "user", "content": message}], "label": row.answer, "metadata": metadata}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def _finished(settings: PolicySettings, places: SlimePaths) -> bool:
    """Whether all dumps and the last checkpoint are there."""
    if not places.dumps.is_dir() or not (places.export(settings.steps) / "config.json").exists():
        return False
    dumps = FORMATS["slime"].files(places.dumps)
    return all(step in dumps for step in range(1, settings.steps + 1))
