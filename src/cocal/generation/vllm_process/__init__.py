"""vLLM in its own process and environment: `worker` runs there, `client` starts it, `framing` encodes the messages."""
