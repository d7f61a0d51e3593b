"""Figures of the paper: each module prepares tidy numbers first and draws them afterwards."""
