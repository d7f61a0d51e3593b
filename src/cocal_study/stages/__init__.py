"""The stages of a study, each a typed job in a file of its own, and the plan that makes all jobs of a study."""
