"""The pages: health, metrics, configuration, flags, status and profiles."""
