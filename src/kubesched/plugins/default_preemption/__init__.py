"""DefaultPreemption: making room for a pod by evicting pods of lower priority."""

from kubesched.plugins.default_preemption.plugin import DefaultPreemption

__all__ = ["DefaultPreemption"]
