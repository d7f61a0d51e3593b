"""Training of a policy by GRPO, RLCR or DCPO, and PostCal's resampling from the result (section 3, appendix B.2)."""
