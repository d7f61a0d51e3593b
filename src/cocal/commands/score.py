"""`cocal score`: confidences of responses, from a companion of one's own policy."""

import argparse
import logging
import shlex

from cocal.commands.flags import field_flags, given_flags
from cocal.commands.job import claim
from cocal.confidence import LEARNT, UNKNOWN
from cocal.confidence.companion import Companion
from cocal.confidence.scoring import UNFINISHED, Wanted, check, score_file
from cocal.runtime.machine import fix_threads, usual_batch_tokens


def run_score(options: argparse.Namespace) -> None:
    """Check the file, score it or resume an earlier run, and put the result in its place."""
    fix_threads(alone=True)
    given = {name: getattr(options, name) for name in ("name", "target", "seed", "every")}
    given["batch_tokens"] = options.batch_tokens or usual_batch_tokens()
    companion = Companion.from_pretrained(options.companion)
    # `by` is the saved companion's identity, so it is taken before the way of reading changes
    wanted = Wanted(options.input, dict(options.field), **given, by=companion.identity()[:12])
    companion = companion.reading(ignored=options.ignore, max_response_length=options.max_response_length)
    companion.config.spec.chosen(options.target, options.seed)
    if options.every:
        companion.config.check_prefixes()
    checked = check(wanted, companion.config)
    parts = {"wanted": repr(wanted), "companion": companion.identity()}
    checkpoint, run_folder = claim(options, [options.input], companion.config, **parts)
    policy = checkpoint.load(options.precision)
    scored = score_file(companion, policy, wanted, checked, run_folder)
    run_folder.publish({UNFINISHED: options.output})
    print(f"\n{options.output}: {checked.rows:,} responses with `{options.name}`")
    print(f"  fields: {checked.fields}")
    for why, count in checked.unread.items():
        print(f"  no confidence for {count:,}: {why}")
    doubts = [f"{count:,} prompts are {LEARNT}"] if (count := scored.origins.pop(LEARNT, 0)) else []
    doubts += [UNKNOWN] * (not companion.config.asked)
    for origin, count in scored.origins.items():
        print(f"  {count:,} prompts are {origin}")
    if scored.tokenised:
        print(f"  {scored.tokenised:,} have ids that were made anew from texts, and may not be those that were sampled")
    if limit := companion.config.max_response_length:
        more = f"; {scored.longer:,} are longer: if these were sampled with a larger limit, give that"
        said = f"responses of {limit:,} tokens or more count as cut, where they do not say so (--max-response-length)"
        print(f"  {said}{more if scored.longer else ''}")
    metrics = companion.config.held_out.metrics if companion.config.held_out else ()
    stage = ", last stage" if companion.config.held_out_all_steps else ""
    card = (f", {metric.value:.3f} on the card{stage}" for metric in metrics if metric.metric == "mean_confidence")
    print(f"  mean confidence {scored.mean:.3f}{''.join(card)}")
    learnt = companion.config.rollouts
    doubts += [difference] if learnt and (difference := learnt.difference(scored.responses)) else []
    for doubt in doubts:
        logging.warning(doubt)
    companion.config.warn_of_constant()
    flags = [*given_flags(options, {"name": "confidence"}), *field_flags(checked.mapping)]
    if checked.rewarded and companion.config.correct_above is not None:
        flags += ["--correct-above", str(companion.config.correct_above)]
    report, chosen = (
        shlex.join(["cocal", *words, "--output", output, *flags])
        for words, output in (
            (["evaluate", str(options.output), "--companion", str(options.companion)], "report"),
            (["decide", "vote", str(options.output)], "chosen.jsonl"),
        )
    )
    print(f"Next: {chosen}\nand where the responses have labels: {report}")
