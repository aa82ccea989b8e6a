"""What reports on attempts: log, metrics, events, pods' status. Each reads the record of an attempt at fixed stages."""
