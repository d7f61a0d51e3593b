"""`cocal score`: add a companion's confidence to every response of a file."""

import argparse
import shlex
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    from cocal.commands.flags import COUNT, NEW_FIELD, add_fields, add_model, add_numerics, add_output, add_overwrite

    parser.add_argument("--companion", required=True, metavar="COMPANION", help="its folder, or its name on the Hub")
    add_model(parser, "the language model that gave the responses")
    parser.add_argument("input", type=Path, metavar="in.jsonl", help="JSON lines with prompt and response: text or ids")
    add_output(parser, "output", metavar="out.jsonl", help="the same lines with a field `confidence`")
    add_overwrite(parser)
    add_fields(parser, "such as response=output or prompt=question; by default as in `cocal fit`")
    parser.add_argument("--name", type=NEW_FIELD, default="confidence", metavar="FIELD", help="name of the new field")
    parser.add_argument(
        "--target", choices=["binary", "group"], help="which members (default: binary if there are any)"
    )
    parser.add_argument("--seed", type=int, help="the member of one seed alone (default: the mean over all seeds)")
    parser.add_argument(
        "--max-response-length",
        type=COUNT,
        metavar="TOKENS",
        help="responses of so many tokens count as cut, where they do not say so (default: as in `cocal fit`)",
    )
    add_numerics(parser)
    parser.add_argument("--batch-tokens", type=COUNT, default=16384, help="tokens in one forward pass (default: 16384)")


def run(options: argparse.Namespace) -> None:
    """Check the file, score it, or go on with it, and put the result in its place."""
    from cocal.commands.flags import field_flags, field_mapping, given_flags, set_numerics

    set_numerics(options)
    from cocal.own_policy.companion import Companion
    from cocal.own_policy.models import Checkpoint
    from cocal.own_policy.scoring import UNFINISHED, Wanted, check, score_file
    from cocal.runtime.machine import fix_threads
    from cocal.store import digest
    from cocal.store.run_folder import RunFolder, file_states

    fix_threads()
    wanted = Wanted(
        options.input,
        field_mapping(options.field),
        options.name,
        options.target,
        options.seed,
        options.batch_tokens,
        options.max_response_length,
    )
    companion = Companion.from_pretrained(options.companion)
    checked = check(wanted, companion.about)
    checkpoint = Checkpoint.find(options.model, options.revision)
    checkpoint.warn_of_other(companion.about)
    depends_on = {"responses": file_states([options.input]), "wanted": repr(wanted), "model": checkpoint.identity()}
    depends_on |= {"companion": companion.identity()}
    run_folder = RunFolder(options.output.with_name(f".{options.output.name}.score"), digest(depends_on))
    found = score_file(companion, checkpoint.load(), wanted, checked, run_folder)
    run_folder.publish({UNFINISHED: options.output})
    print(f"\n{options.output}: {checked.rows:,} responses with `{options.name}`")
    print(f"  fields: {checked.fields}")
    for origin, count in found.origins.items():
        print(f"  {count:,} prompts are {origin}")
    print("  Where `confidence_ids` is `tokenised`, the ids were made anew from texts, and may not be those sampled.")
    if limit := options.max_response_length or companion.about.max_response_length:
        print(f"  responses of {limit:,} tokens or more count as cut, where they do not say so (--max-response-length)")
    learnt = companion.about.rollouts
    if learnt and (difference := learnt.difference(found.responses)):
        print(f"  {difference}")
    flags = [*given_flags(options, {"name": "confidence"}), *field_flags(checked.mapping)]
    if checked.rewarded and companion.about.correct_above is not None:
        flags += ["--correct-above", str(companion.about.correct_above)]
    report, chosen = (
        shlex.join(["cocal", *words, "--output", output, *flags])
        for words, output in (
            (["evaluate", str(options.output)], "report"),
            (["decide", "vote", str(options.output)], "chosen.jsonl"),
        )
    )
    print(f"Next: {chosen}\nand where the responses have labels: {report}")
