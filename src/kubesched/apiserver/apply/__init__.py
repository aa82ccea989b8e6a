"""Server-side apply: who owns which field, conflicts between owners, and merging what each of them wants."""
