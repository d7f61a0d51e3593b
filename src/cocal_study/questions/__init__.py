"""Question sets, which are synthetic, registered or read from a user's files, and are kept disjoint by text."""
