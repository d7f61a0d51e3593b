"""Hidden states of a policy: pooled inside the forward pass (equation 6), and kept on disk as labelled arrays."""
