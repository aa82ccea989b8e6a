"""A long run of real parts under random kills, freezes and cuts, and the proof afterwards that nothing went wrong."""
