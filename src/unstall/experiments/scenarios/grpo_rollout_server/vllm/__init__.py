"""The inference engine, in the shape of vLLM 0.11."""
