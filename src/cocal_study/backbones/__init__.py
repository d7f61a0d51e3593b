"""Backbones: checked and imported, taken from a package, or pre-trained here."""
