"""The scheduling queue: pods wait for their turn, for the end of their backoff, or for a cluster event.

`scheduling_queue` has the queue itself, `build` makes one for a configuration. Nothing here blocks. The
caller injects the clock, the log, the metrics and the wake-up callback.
"""
