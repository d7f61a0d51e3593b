"""A served language model that says how sure it is: the companion inside vLLM, and the server around both."""
