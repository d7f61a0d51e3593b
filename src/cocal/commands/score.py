"""`cocal score`: confidences of responses, from a companion of one's own policy."""

import argparse
import shlex

from cocal.commands.flags import field_flags, field_mapping, given_flags
from cocal.own_policy.companion import Companion
from cocal.own_policy.models import Checkpoint
from cocal.own_policy.scoring import UNFINISHED, Wanted, check, score_file
from cocal.runtime.machine import fix_threads, usual_batch_tokens
from cocal.store import digest
from cocal.store.run_folder import RunFolder, file_states


def run_score(options: argparse.Namespace) -> None:
    """Check the file, score it, or go on with it, and put the result in its place."""
    fix_threads(alone=True)
    given = {name: getattr(options, name) for name in ("target", "seed", "max_response_length", "every")}
    given |= {"field": options.name, "batch_tokens": options.batch_tokens or usual_batch_tokens()}
    wanted = Wanted(options.input, field_mapping(options.field), **given)
    companion = Companion.from_pretrained(options.companion).ignoring(options.ignore)
    if options.every:
        companion.about.check_prefixes()
    checked = check(wanted, companion.about)
    checkpoint = Checkpoint.find(options.model, options.revision, options.adapter)
    checkpoint.check_fit(companion.about)
    checkpoint.warn_of_other(companion.about)
    depends_on = {"responses": file_states([options.input]), "wanted": repr(wanted), "model": checkpoint.identity()}
    depends_on |= {"companion": companion.identity(), "precision": options.precision}
    run_folder = RunFolder(options.output.with_name(f".{options.output.name}.score"), digest(depends_on))
    policy = checkpoint.load(options.precision)
    origins, responses = score_file(companion, policy, wanted, checked, run_folder)
    run_folder.publish({UNFINISHED: options.output})
    print(f"\n{options.output}: {checked.rows:,} responses with `{options.name}`")
    print(f"  fields: {checked.fields}")
    for why, count in checked.unread.items():
        print(f"  no confidence for {count:,}: {why}")
    for origin, count in origins.items():
        print(f"  {count:,} prompts are {origin}")
    print("  Where `confidence_ids` is `tokenised`, the ids were made anew from texts, and may not be those sampled.")
    if limit := options.max_response_length or companion.about.max_response_length:
        print(f"  responses of {limit:,} tokens or more count as cut, where they do not say so (--max-response-length)")
    learnt = companion.about.rollouts
    if learnt and (difference := learnt.difference(responses)):
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
