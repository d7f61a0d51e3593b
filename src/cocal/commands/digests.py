"""`cocal digests`: list digests of a finished study's main outputs, or compare them with those of another machine."""

import argparse
import logging

from cocal.config import parse_settings
from cocal.store.atomic import write_text
from cocal.store.owner import owner_of
from cocal.study.digests import StudyDigests, digests_of, maker_of, verdict


def run(options: argparse.Namespace) -> None:
    """Print the digests, write them, or print a verdict, which is no error if the bytes differ.

    Raises:
        ContractError: if outputs are missing or damaged, or if FILE is no such file or belongs to another study.
    """
    if options.compare is not None and not options.compare.exists():
        print(f"{options.compare}: there are no such digests, so these results were compared with nothing.")
        return
    digests = digests_of(options.results)
    maker = maker_of(options.results)
    here = StudyDigests(study=owner_of(options.results) or "unknown", made_by=maker, digests=digests)
    if options.compare is not None:
        there = parse_settings(StudyDigests, str(options.compare))
        print(verdict(here, there, str(options.compare)))
    elif options.write is not None:
        write_text(options.write, here.model_dump_json(indent=1) + "\n")
        logging.info("%d digests written to %s", sum(map(len, digests.values())), options.write)
    else:
        for outputs in digests.values():
            for name, value in outputs.items():
                print(f"{value}  {name}")
