"""Hidden states of a policy: they are pooled inside the forward pass (equation 6) and stored as labelled arrays."""
