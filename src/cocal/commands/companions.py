"""`cocal companions`: fit companions of all targets and seeds on prefixes of the rollouts."""

import argparse
import logging
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", help="JSON: companion; the paper's by default")
    parser.add_argument("--rollouts", required=True, type=Path, help="folder of rollout tables")
    parser.add_argument("--questions", required=True, type=Path, help="training set, for the split by text")
    parser.add_argument("--features", required=True, type=Path, help="feature store of the rollouts")
    parser.add_argument(
        "--steps", required=True, type=int, nargs="+", metavar="N", help="one fit a prefix: rollout steps 1 to N"
    )
    parser.add_argument("--order", choices=["chronological", "shuffled"], default="chronological")
    parser.add_argument("--shuffle-seed", type=int, help="needed by --order shuffled")
    parser.add_argument("--layer", type=int, help="zero-based block index; the deepest one stored by default")
    parser.add_argument("--poolings", default="last,mean", help="concatenated in this order")
    parser.add_argument(
        "--output", required=True, type=Path, help="folder of steps-N, each with weights, history and spec"
    )


def run(options: argparse.Namespace) -> None:
    """Read, check, fit, write."""
    from cocal.config import ConfigError, parse_settings
    from cocal.config.protocol import Companion

    settings = parse_settings(Companion, options.settings)
    prefixes = sorted(set(options.steps))
    if prefixes[0] < 1:
        raise ConfigError(f"--steps must be 1 or more, not {prefixes[0]}")

    from cocal.companion.companions import save_companions
    from cocal.companion.fit import fit_companions
    from cocal.companion.rollouts import check_features, read_rollouts
    from cocal.features.store import open_features
    from cocal.runtime import fix_threads
    from cocal.store import atomic_path, provenance

    fix_threads()
    rollouts = read_rollouts(options.rollouts, options.questions, prefixes[-1])
    features = open_features(options.features)
    check_features(rollouts, features)
    fits = fit_companions(
        settings,
        features,
        rollouts,
        prefixes,
        order=options.order,
        shuffle_seed=options.shuffle_seed,
        layer=options.layer,
        poolings=options.poolings.split(","),
    )
    attributes = provenance("companions", settings, features=features.attributes.get("digest"))
    for companions, history in fits:
        output = options.output / f"steps-{companions.spec.steps}"
        with atomic_path(output) as folder:
            folder.mkdir()
            spec = save_companions(folder / "companions.safetensors", companions, attributes)
            (folder / "spec.json").write_text(spec, encoding="utf-8")
            history.to_csv(folder / "history.csv", index=False, lineterminator="\n")
        best = ", ".join(
            f"{target} {seed}: {number}"
            for (target, seed), number in zip(companions.members, companions.spec.best_pass, strict=True)
        )
        logging.info("%s: best of %d passes: %s", output, settings.passes, best)
