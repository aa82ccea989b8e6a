"""NodeVolumeLimits: see `plugin`; what is attached where is kept by `attached`."""

from kubesched.plugins.node_volume_limits.plugin import NodeVolumeLimits as NodeVolumeLimits
