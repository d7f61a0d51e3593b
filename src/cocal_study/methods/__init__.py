"""Methods of confidence estimation, one module each, and the table of their predictions (appendix B)."""
