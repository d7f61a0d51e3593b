"""Engines that sample responses from a policy, and the tables of these responses."""
