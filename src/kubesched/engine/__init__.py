"""From cluster state and a pod to a decision. Pure: no I/O, no clock, no logging; randomness is injected."""
