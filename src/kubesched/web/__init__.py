"""The web page: a cluster, its queue and its decisions in a browser."""
