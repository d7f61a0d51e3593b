"""What generates responses, and the hidden states inside vLLM."""
