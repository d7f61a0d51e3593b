"""Verdicts for tables of sampled responses, and the language model that judges factual answers."""
