"""How fast it is, measured in process: decisions alone, and pods through the whole loop."""
