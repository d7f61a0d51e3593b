"""`cocal fit`: fit a companion on the rollouts of your own training, and measure it on held-out questions."""

import argparse
import shlex
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    from cocal.commands.flags import COUNT, FINITE, INDEX, SEED, add_fields, add_model, add_numerics, add_output
    from cocal.commands.outputs import Kind

    add_model(parser, "the policy whose rollouts these are: its last checkpoint")
    parser.add_argument(
        "--rollouts",
        required=True,
        nargs="+",
        type=Path,
        metavar="PATH",
        help="folder or files: JSON lines (of verl, open-instruct, prime-rl, or your own), TRL's completions "
        "(.parquet), slime's dumps (.pt), rollout tables of a study; the format is guessed and said",
    )
    add_output(
        parser,
        "--output",
        kind=Kind(folder=True, made=_is_companion),
        required=True,
        metavar="FOLDER",
        help="folder of the companion",
    )
    add_fields(parser, "such as response=text, correct=acc, reward=my_reward")
    parser.add_argument(
        "--correct-above",
        type=FINITE,
        metavar="X",
        help="a reward above X is a correct response (default: rewards are 0 and 1, or -1 and 1)",
    )
    parser.add_argument(
        "--max-response-length",
        type=COUNT,
        metavar="TOKENS",
        help="responses of so many tokens count as cut and take no part, where the rollouts do not say which were cut",
    )
    parser.add_argument(
        "--template",
        type=Path,
        metavar="FILE",
        help="chat template (Jinja) in place of the tokenizer's own; with an empty file, or where neither is there, "
        "prompts are plain text",
    )
    parser.add_argument("--thinking", action="store_true", help="chats are rendered in thinking mode")
    parser.add_argument(
        "--target",
        default="binary",
        choices=["binary", "group"],
        help="what is learnt: correctness, or the accuracy of the group (default: binary, the paper's main variant)",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        type=SEED,
        metavar="SEED",
        help="one member for each; confidences are their mean (default: the paper's five)",
    )
    parser.add_argument(
        "--widths", nargs="+", type=COUNT, help="widths of the hidden layers (default: 2048 1024 512 256)"
    )
    parser.add_argument("--passes", type=COUNT, help="passes over the rollouts (default: 10)")
    parser.add_argument("--layer", type=INDEX, help="zero-based index of the block to read (default: the last one)")
    parser.add_argument(
        "--states", default="bfloat16", choices=["bfloat16", "float32"], help="number format of the hidden states"
    )
    add_numerics(parser)
    parser.add_argument("--batch-tokens", type=COUNT, default=16384, help="tokens in one forward pass (default: 16384)")


def _is_companion(folder: Path) -> bool:
    from cocal.own_policy.saved import is_companion

    return is_companion(folder)


def run(options: argparse.Namespace) -> None:
    """Fit, save, and say in words what was made."""
    from cocal.commands.flags import field_flags, field_mapping, given_flags, set_numerics

    set_numerics(options)
    from cocal.config.evaluation import CompanionSettings
    from cocal.config.load import validate
    from cocal.integrations.lines import NEEDED
    from cocal.models.template import read_template
    from cocal.own_policy.companion import Companion
    from cocal.own_policy.fitting import Reading
    from cocal.own_policy.formats import find
    from cocal.own_policy.models import Checkpoint
    from cocal.runtime.machine import fix_threads
    from cocal.runtime.startup import import_transformers
    from cocal.store import digest
    from cocal.store.run_folder import RunFolder, file_states

    import_transformers()
    fix_threads()
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
    checkpoint = Checkpoint.find(options.model, options.revision)
    depends_on = {"model": checkpoint.identity(), "rollouts": file_states(files), "reading": repr(reading)}
    depends_on |= {"layer": options.layer, "states": options.states, "batch_tokens": options.batch_tokens}
    run_folder = RunFolder(options.output.with_name(f".{options.output.name}.fit"), digest(depends_on))
    policy = checkpoint.load()
    companion = Companion.fit(
        policy.model,
        policy.tokenizer,
        options.rollouts,
        settings=settings,
        reading=reading,
        layer=options.layer,
        number_format=options.states,
        batch_tokens=options.batch_tokens,
        base_model=checkpoint.facts(policy),
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
    flags += given_flags(options, {"revision": None, "numerics": "native", "batch_tokens": 16384})
    flags += field_flags({meaning: name for meaning, name in reading.mapping.items() if meaning in needed})
    print(f"Next: {shlex.join(['cocal', 'score', *flags])} in.jsonl out.jsonl")
