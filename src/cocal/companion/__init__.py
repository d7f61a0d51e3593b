"""The companion: an MLP on the policy's hidden states that learns how likely a response is correct (section 4)."""
