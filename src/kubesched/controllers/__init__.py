"""What moves a cluster towards what its objects ask for: one small reconciler per kind, all in one task."""
