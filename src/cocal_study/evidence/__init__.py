"""The evidence for and against the paper's claims, first of all the paper's own numbers."""
