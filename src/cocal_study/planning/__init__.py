"""The plan of a study, the estimate of its costs, and the costs that its jobs measured."""
