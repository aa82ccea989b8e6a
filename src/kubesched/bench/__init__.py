"""In-process benchmarks: decisions alone, and pods through the whole loop."""
