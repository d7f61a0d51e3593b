"""Engines that sample from a policy, and the tables of what they sampled."""
