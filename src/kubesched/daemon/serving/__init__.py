"""What the daemon serves: health, metrics, configuration, debugging; and to whom.

One HTTPS port, as kube-scheduler has it: the same paths, the same texts, the same questions to the API server about who
may see them. `endpoints` knows what there is, `guard` who may have it, `serving` how it gets there.
"""
