"""Custom resources: definitions put their kinds into the table of kinds, with schema and columns of their own."""
