"""`cocal backbone`: make a base policy, by pre-training or from a checkpoint that exists."""

import argparse

from cocal.errors import ConfigError
from cocal.runtime.machine import fix_threads
from cocal.store import read_frame
from cocal.store.contracts import QUESTIONS
from cocal.store.lineage import Source, descent
from cocal_study.backbones.importing import existing, import_checkpoint
from cocal_study.backbones.pretraining import CorpusWriter, pretrain
from cocal_study.config import parse_settings
from cocal_study.config.backbone import BackboneChoice, PretrainingSettings
from cocal_study.config.data import FactsWorldSettings
from cocal_study.questions.prompts import Prompts
from cocal_study.questions.synthetic import World


def run_backbone(options: argparse.Namespace) -> None:
    """Make the base policy of a backbone."""
    fix_threads()
    settings = parse_settings(BackboneChoice, options.settings).root
    facts = {"backbone": options.name, "algorithm": "base", "step": 0}
    if not isinstance(settings, PretrainingSettings):
        attributes = descent(options.output, "backbone", settings.model_copy(update={"imported": {}}), [], **facts)
        with existing(settings) as source:
            import_checkpoint(
                source,
                options.output,
                depth=settings.depth,
                width=settings.width,
                architecture=settings.architecture,
                attributes=attributes,
            )
        return
    if options.prompts is None:
        raise ConfigError("--prompts: a backbone that is pre-trained needs the prompt set of its study")
    world = parse_settings(FactsWorldSettings, options.world)
    held_out = [q for path in options.questions for q in read_frame(path, QUESTIONS, ["question"])["question"]]
    people = World(world.people, world.popularity_exponent, options.seed)
    prompts = Prompts(options.prompts)
    writer = CorpusWriter(settings.corpus, prompts, people, held_out, settings.seed)
    depends_on = {"backbone": settings, "world": world, "prompts": prompts.identity(), "seed": options.seed}
    sources = [Source(path) for path in options.questions]
    attributes = descent(options.output, "backbone", depends_on, sources, **facts)
    if settings.start is None:
        pretrain(settings, writer, options.output, attributes)
    else:
        with existing(settings.start) as source:
            pretrain(settings, writer, options.output, attributes, source)
