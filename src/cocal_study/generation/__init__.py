"""Engines that sample responses from a policy, the tables of these responses, and the labels of rollouts."""
