"""Public cluster traces as scenarios: read row by row, sorted on disk, replayed as they are read."""
