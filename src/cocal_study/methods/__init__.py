"""Methods of confidence estimation, those in one module that are computed alike, and their predictions (appendix B)."""
