"""`cocal trace FILE`: show what a result was made from, back to the questions, and check that nothing has changed."""

import argparse

from cocal.store.lineage import trace


def run(options: argparse.Namespace) -> None:
    """Print each ancestor once, below what was made from it, with its digest and what it says of itself.

    Raises:
        ContractError: if an ancestor is not the one that the result was made from.
    """
    for distance, product in trace(options.result):
        if options.depth is None or distance <= options.depth:
            facts = product.facts
            said = [facts[name] for name in ("stage", "backbone", "algorithm", "step", "dataset") if name in facts]
            print(f"{'  ' * distance}{product.path}  {product.identity}  {' '.join(said)}".rstrip())
