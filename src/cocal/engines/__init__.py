"""Responses as every engine knows them, and the hidden states inside vLLM."""
