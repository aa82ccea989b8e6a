"""InterPodAffinity: pods that want to be near others, or away from them."""

from kubesched.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
