"""Seven steps from a scheduler that throws dice to one with every essential part. Each step is a single file."""
