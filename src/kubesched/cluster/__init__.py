"""The scheduler's picture of the cluster: nodes as columns, pods on them, counts by topology domain.

Everything here is plain synchronous state. Events change it between scheduling cycles; during a cycle it stands
still, so that plugins may read it without copies.
"""
