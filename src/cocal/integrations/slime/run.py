"""A training by slime, whose dumps and checkpoints become the files of a study."""

import json
import logging
import os
import shlex
import subprocess
import time
from pathlib import Path

import pandas as pd

import cocal
from cocal.answers.equivalence import Verifier
from cocal.config.backbone import BackboneSettings
from cocal.config.evaluation import VerifierSettings
from cocal.config.policy import Algorithm, PolicySettings
from cocal.errors import ContractError
from cocal.integrations.importing import FORMATS, Dumps, import_rollouts
from cocal.integrations.slime.hooks import HookSettings
from cocal.integrations.slime.launch import SlimePaths, environment, launch_command, read_config, slime_command
from cocal.integrations.tables import StepTables
from cocal.models.importing import import_checkpoint
from cocal.models.loading import read_vocabulary
from cocal.policy.objectives import PROMPT_FORMATS
from cocal.policy.recorder import Outputs, RolloutRecorder, StepSeconds
from cocal.policy.schedule import question_schedule
from cocal.questions.prompts import Prompts
from cocal.runtime import lock
from cocal.store import write_text
from cocal.store.run_folder import RunFolder


def train_with_slime(
    settings: PolicySettings,
    algorithm: Algorithm,
    *,
    backbone: BackboneSettings,
    paths: SlimePaths,
    questions: pd.DataFrame,
    prompts: Prompts,
    verifier: VerifierSettings,
    per_node: str,
    run: RunFolder,
    outputs: Outputs,
) -> None:
    """Train to the end, import slime's dumps and checkpoints, and publish. A killed run resumes.

    Args:
        settings: Protocol and machine.
        algorithm: Algorithm of the training.
        backbone: Settings of the backbone, for the depth and width that the checkpoints must have.
        paths: Paths of the run's files.
        questions: Training set (cocal.store.contracts.QUESTIONS).
        prompts: Prompt set of the study.
        verifier: Bounds of the verifier.
        per_node: Script that joins several nodes.
        run: Working folder, the same as that of `paths`.
        outputs: Places of stages, rollouts and the time of all attempts, and their provenance.

    Raises:
        ContractError: if slime fails, or if its results break the protocol.
    """
    _write_questions(settings, algorithm, questions, prompts, paths.prompts)
    policy = settings.rollout_settings(algorithm)
    write_text(paths.hooks, HookSettings(policy=policy, algorithm=algorithm, verifier=verifier).model_dump_json())
    if not _finished(settings, paths):
        _run_slime(settings, algorithm, paths, per_node)
    for step in outputs.stages:
        import_checkpoint(
            paths.export(step),
            run.path / f"step-{step}",
            depth=backbone.depth,
            width=backbone.width,
            attributes=outputs.of(outputs.stages[step], step=str(step)),
            base=paths.base,
        )
    with Verifier(verifier) as judge:
        tables = StepTables(policy, algorithm, questions=questions, vocabulary=read_vocabulary(paths.base), judge=judge)
        import_rollouts(
            Dumps.of("slime", paths.dumps, settings.steps, "acc"),
            tables,
            RunFolder(run.path / "import", run.settings_digest),
            Outputs({}, run.path / "rollouts", attributes=outputs.attributes),
        )
    RolloutRecorder(run, settings.steps, outputs.attributes).publish(outputs, items=settings.steps)


def _run_slime(settings: PolicySettings, algorithm: Algorithm, paths: SlimePaths, per_node: str) -> None:
    """Run slime to the end, from its last save if there is one."""
    command = slime_command(settings, algorithm, paths, read_config(paths.base))
    command = launch_command(settings, command, per_node)
    write_text(paths.run / "command.sh", shlex.join(command) + "\n")
    package = Path(cocal.__file__).parents[1]
    logging.info("slime in %s: %s", settings.slime.home, shlex.join(command))
    seconds, attempt, began = StepSeconds(paths.run / "seconds.json"), time.time_ns(), time.monotonic()
    # slime writes into the run folder too: where it outlives this process, it keeps the folder's lock
    writer = lock.held(paths.run)
    done = subprocess.run(
        command, check=False, env={**os.environ, **environment(settings, paths, package)}, pass_fds=writer
    )
    seconds.record(attempt, time.monotonic() - began)
    if done.returncode:
        raise ContractError(
            f"{paths.run}: slime ended with status {done.returncode}; see its messages above. The same command resumes "
            "from its last save"
        )
    if not _finished(settings, paths):
        raise ContractError(f"{paths.run}: slime ended without the dumps of all steps or the checkpoint of the last")


def _write_questions(
    settings: PolicySettings, algorithm: Algorithm, questions: pd.DataFrame, prompts: Prompts, path: Path
) -> None:
    """Write one line per question in the order of the schedule; slime reads them without shuffling."""
    schedule = question_schedule(len(questions), settings.steps, settings.questions_per_step, settings.seed)
    lines = []
    for row in questions.iloc[schedule.ravel()].itertuples():
        message = prompts.message(PROMPT_FORMATS[algorithm], row.question)
        metadata = {"question_id": row.question_id, "golds": [row.answer, *row.aliases]}
        entry = {"prompt": [{"role": "user", "content": message}], "label": row.answer, "metadata": metadata}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))


def _finished(settings: PolicySettings, paths: SlimePaths) -> bool:
    """True if all dumps and the last checkpoint are there."""
    if not paths.dumps.is_dir() or not (paths.export(settings.steps) / "config.json").exists():
        return False
    return {*range(1, settings.steps + 1)} <= {*FORMATS["slime"].files(paths.dumps)}
