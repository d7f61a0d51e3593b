"""Calibration and discrimination metrics, their bootstrap intervals, and the cube that holds them."""
