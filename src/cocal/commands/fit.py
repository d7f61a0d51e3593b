"""`cocal fit`: a companion of one's own policy, from its rollouts."""

import argparse
import shlex
import shutil
from pathlib import Path

from pydantic import ValidationError

from cocal.commands.flags import field_flags, given_flags
from cocal.commands.job import claim
from cocal.companion.settings import CompanionSettings
from cocal.confidence.companion import Companion
from cocal.confidence.saved import check_place
from cocal.errors import ConfigError, ContractError
from cocal.models.text import read_template
from cocal.rollouts.files import find
from cocal.rollouts.format import Reading
from cocal.rollouts.lines import NEEDED
from cocal.runtime.machine import fix_threads, usual_batch_tokens
from cocal.store.damage import RUN_MARK
from cocal.store.run_folder import RunFolder, link_file

STATES = "states"
"""Folder of the kept states within the companion's folder: a copy of the fit's working folder, with its mark."""


def run_fit(options: argparse.Namespace) -> None:
    """Fit, save, and say in words what was made."""
    fix_threads(alone=True)
    batch_tokens = options.batch_tokens or usual_batch_tokens()
    given = {name: getattr(options, name) for name in ("widths", "passes", "seeds")}
    chosen = {name: value for name, value in given.items() if value is not None}
    if options.widths:
        chosen["dropout"] = CompanionSettings().dropout[: len(options.widths)]
    try:
        settings = CompanionSettings(targets=(options.target,), **chosen)
    except ValidationError as error:
        raise ConfigError(f"flags of the companion: {error.errors()[0]['msg']}") from None
    recipe = options.recipe or ("best" if options.target == "binary" else "paper")
    template = None if options.template is None else read_template(options.template)
    values = {name: getattr(options, name) for name in ("correct_above", "max_response_length", "thinking")}
    values |= {"template": template, "template_fields": dict(options.template_field)}
    reading = Reading(fields=dict(options.field), ignored=tuple(options.ignore), **values)
    rollouts = find(options.rollouts)
    check_place(options.output)
    parts = {"reading": repr(reading), "layer": options.layer, "states": options.states, "batch_tokens": batch_tokens}
    checkpoint, run_folder = claim(options, [path for path, _ in rollouts.files], **parts)
    _take(options.output / STATES, run_folder)
    policy = checkpoint.load(options.precision)
    wishes = {name: getattr(options, name) for name in ("truncated", "prefixes", "layer", "license")}
    wishes |= {"recipe": recipe, "settings": settings, "reading": reading, "number_format": options.states}
    if options.beside is not None:
        wishes["token_probability"] = options.beside == "token-probability"
    work = {"batch_tokens": batch_tokens, "base_model": checkpoint.info, "run": run_folder.path}
    companion = Companion.fit(policy.model, policy.tokenizer, rollouts, **wishes, **work)
    companion.save_pretrained(options.output)
    if options.keep_states:
        _keep(run_folder, options.output / STATES)
    run_folder.publish({})
    spec = companion.config.spec
    print(f"\n{options.output}: a companion of {options.model}")
    for note in companion.config.notes:
        print(f"  {note}")
    chosen_by = f" {spec.validation_responses:,} responses to other questions chose its best pass."
    if recipe == "best":
        recipes = "\n".join(companion.config.recipes())
        chosen_by = f" These recipes were compared in cross-validation, and the first was kept:\n\n{recipes}"
    print(
        f"  It learnt from {spec.training_responses:,} responses, {100 * spec.training_error_share:.1f} % of them "
        f"wrong.{chosen_by}\n"
    )
    print(companion.summary(), end="\n\n")
    companion.config.warn_of_constant()
    if companion.alone is not None:
        print(
            "It also reads the probabilities of the tokens. The best companion of states alone lies beside it, for "
            "engines that give none.\n"
        )
    needed = {*NEEDED["prompt"], *NEEDED["response"]}
    flags = ["--companion", str(options.output), "--model", options.model]
    flags += given_flags(options, {"revision": None, "adapter": None, "numerics": "native", "batch_tokens": None})
    flags += field_flags({meaning: name for meaning, name in reading.fields.items() if meaning in needed})
    print(f"Next: {shlex.join(['cocal', 'score', *flags])} in.jsonl out.jsonl")


def _take(kept: Path, run: RunFolder) -> None:
    """Reuse the states that an earlier fit has kept, if they come from the same inputs."""
    mark = kept / RUN_MARK
    if not run.resumed and mark.exists() and mark.read_bytes() == (run.path / RUN_MARK).read_bytes():
        shutil.copytree(kept, run.path, copy_function=link_file, ignore=lambda *_: [RUN_MARK], dirs_exist_ok=True)


def _keep(run: RunFolder, kept: Path) -> None:
    """Keep the states of this fit in place of those of an earlier one."""
    if kept.exists() and not (kept / RUN_MARK).exists():
        raise ContractError(f"{kept}: is not a folder of kept states, which would replace it; move it (--keep-states)")
    partial = kept.with_name(f".{kept.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(run.path, partial, copy_function=link_file)
    shutil.rmtree(kept, ignore_errors=True)
    partial.rename(kept)
