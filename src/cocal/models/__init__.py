"""Language models: checkpoints found, checked, downloaded, loaded and resumed from, and tiny policies made here."""
