"""Reports on attempts: log, metrics, events, pod status. Each reads the record of an attempt at fixed stages."""
