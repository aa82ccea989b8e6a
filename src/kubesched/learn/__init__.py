"""The seven steps from a scheduler that throws dice to one that has everything that matters, each in a single file."""
