"""`cocal fit`: a companion of one's own policy, from its rollouts."""

import argparse
import shlex

from cocal.commands.words import field_flags, field_mapping, given_flags
from cocal.companion.settings import CompanionSettings
from cocal.integrations.lines import NEEDED
from cocal.models.text import read_template
from cocal.own_policy.companion import Companion
from cocal.own_policy.fitting import Reading
from cocal.own_policy.models import Checkpoint
from cocal.own_policy.rollouts import find
from cocal.runtime.machine import fix_threads, usual_batch_tokens
from cocal.settings.parse import validate
from cocal.store import digest
from cocal.store.run_folder import RunFolder, file_states


def run_fit(options: argparse.Namespace) -> None:
    """Fit, save, and say in words what was made."""
    fix_threads(alone=True)
    batch_tokens = options.batch_tokens or usual_batch_tokens()
    given = {"widths": options.widths, "passes": options.passes, "seeds": options.seeds}
    chosen = {name: value for name, value in given.items() if value is not None}
    if options.widths:
        chosen["dropout"] = CompanionSettings().dropout[: len(options.widths)]
    settings = validate(CompanionSettings, {"targets": [options.target], **chosen}, "flags of the companion")
    reading = Reading(
        field_mapping(options.field),
        options.correct_above,
        options.max_response_length,
        options.thinking,
        None if options.template is None else read_template(options.template),
    )
    files = [path for path, _ in find(options.rollouts).files]
    checkpoint = Checkpoint.find(options.model, options.revision, options.adapter)
    depends_on = {"model": checkpoint.identity(), "rollouts": file_states(files), "reading": repr(reading)}
    depends_on |= {"layer": options.layer, "states": options.states, "batch_tokens": batch_tokens}
    depends_on["precision"] = options.precision
    run_folder = RunFolder(options.output.with_name(f".{options.output.name}.fit"), digest(depends_on))
    policy = checkpoint.load(options.precision)
    companion = Companion.fit(
        policy.model,
        policy.tokenizer,
        options.rollouts,
        settings=settings,
        reading=reading,
        layer=options.layer,
        number_format=options.states,
        batch_tokens=batch_tokens,
        base_model=checkpoint.facts(policy),
        license=options.license,
        run=run_folder.path,
    )
    companion.save_pretrained(options.output)
    run_folder.publish({})
    spec = companion.about.spec
    print(f"\n{options.output}: a companion of {options.model}")
    for note in companion.about.notes:
        print(f"  {note}")
    print(
        f"  It learnt from {spec.training_responses:,} responses, {100 * spec.training_error_share:.1f} % of them "
        f"wrong; {spec.validation_responses:,} responses to other questions chose its best pass."
    )
    print(f"  {companion.about.in_words()}")
    needed = {*NEEDED["prompt"], *NEEDED["response"]}
    flags = ["--companion", str(options.output), "--model", options.model]
    flags += given_flags(options, {"revision": None, "adapter": None, "numerics": "native", "batch_tokens": None})
    flags += field_flags({meaning: name for meaning, name in reading.mapping.items() if meaning in needed})
    print(f"Next: {shlex.join(['cocal', 'score', *flags])} in.jsonl out.jsonl")
