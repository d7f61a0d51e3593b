"""Language models: checkpoints found, checked, downloaded and loaded, and their texts and tokens."""
