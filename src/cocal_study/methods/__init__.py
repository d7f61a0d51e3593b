"""Methods of confidence estimation, one module each; `base` has what they are made of, and the table of
their predictions (appendix B)."""
