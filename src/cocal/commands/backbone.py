"""`cocal backbone`: make a base policy, by pre-training or from a checkpoint that exists."""

import argparse
from pathlib import Path

from cocal.config import parse_settings
from cocal.config.backbone import BackboneChoice, CheckpointSettings
from cocal.config.data import FactsWorldSettings
from cocal.errors import ConfigError
from cocal.models.corpus import CorpusWriter
from cocal.models.hub import download
from cocal.models.importing import import_checkpoint
from cocal.models.pretraining import pretrain
from cocal.questions.facts import World
from cocal.questions.prompts import Prompts
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent


def run(options: argparse.Namespace) -> None:
    """Make the base policy of a backbone."""
    fix_threads()
    settings = parse_settings(BackboneChoice, options.settings).root
    if isinstance(settings, CheckpointSettings):
        _import_checkpoint(settings, options)
    else:
        _pretrain(settings, options)


def _import_checkpoint(settings, options: argparse.Namespace) -> None:
    """Download the checkpoint if it is on the hub, and check it."""
    source = download(settings.path, settings.revision) if settings.on_hub else Path(settings.path)
    depends_on = settings.model_copy(update={"imported": {}})
    attributes = descent(options.output, "backbone", depends_on, [], backbone=options.name, algorithm="base", step=0)
    import_checkpoint(
        source,
        options.output,
        depth=settings.depth,
        width=settings.width,
        architecture=settings.architecture,
        attributes=attributes,
    )


def _pretrain(settings, options: argparse.Namespace) -> None:
    """Hold the question sets out of the corpus, then pre-train."""
    if options.prompts is None:
        raise ConfigError("--prompts: a backbone that is pre-trained needs the prompt set of its study")
    world = parse_settings(FactsWorldSettings, options.world)
    held_out = [q for path in options.questions for q in read_frame(path, QUESTIONS, ["question"])["question"]]
    people = World(world.people, world.popularity_exponent, options.seed)
    prompts = Prompts(options.prompts)
    writer = CorpusWriter(settings.corpus, prompts, people, held_out, settings.seed)
    depends_on = {"backbone": settings, "world": world, "prompts": prompts.identity(), "seed": options.seed}
    sources = [Source(path) for path in options.questions]
    facts = {"backbone": options.name, "algorithm": "base", "step": 0}
    pretrain(settings, writer, options.output, descent(options.output, "backbone", depends_on, sources, **facts))
