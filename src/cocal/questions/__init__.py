"""Question sets: synthetic and registered ones, built, identified, and kept disjoint by text."""
