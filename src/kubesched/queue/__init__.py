"""Where pods wait: for their turn, for their backoff to pass, or for something to happen in the cluster.

`scheduling_queue` has the queue itself, `build` makes one for a configuration. Nothing here waits, logs or keeps time:
the clock, the log, the metrics and the wake-up call are the caller's.
"""
