"""`cocal backbone`: pre-train a tiny policy."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--settings", required=True, help="JSON: label, architecture, corpus, steps, ...")
    parser.add_argument("--questions", required=True, type=Path, nargs="+", help="question sets to hold out")
    parser.add_argument("--prompts", default="tiny", help="prompt set")
    parser.add_argument("--world", default="{}", help="JSON: settings of the facts world")
    parser.add_argument("--seed", type=int, default=42, help="seed of the facts world")
    parser.add_argument("--output", required=True, type=Path, help="checkpoint folder")


def run(options: argparse.Namespace) -> None:
    """Hold the question sets out of the corpus, then pre-train."""
    from cocal.backbone.corpus import CorpusWriter
    from cocal.backbone.pretrain import pretrain
    from cocal.config import parse_settings
    from cocal.config.backbone import Pretraining
    from cocal.config.data import FactsWorld
    from cocal.prompts import Prompts
    from cocal.questions.facts import World
    from cocal.runtime import fix_threads
    from cocal.schemas import QUESTIONS
    from cocal.store import provenance, read_frame

    fix_threads()
    settings = parse_settings(Pretraining, options.settings)
    world = parse_settings(FactsWorld, options.world)
    held_out = [q for path in options.questions for q in read_frame(path, QUESTIONS, ["question"])["question"]]
    people = World(world.people, world.popularity_exponent, options.seed)
    writer = CorpusWriter(settings.corpus, Prompts(options.prompts), people, held_out, settings.seed)
    slice_ = {"backbone": settings, "world": world, "prompts": options.prompts, "seed": options.seed}
    pretrain(settings, writer, options.output, provenance("backbone", slice_))
