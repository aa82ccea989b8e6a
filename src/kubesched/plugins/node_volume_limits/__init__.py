"""NodeVolumeLimits: `plugin` has the plugin, `attached` tracks which volumes are attached where."""

from kubesched.plugins.node_volume_limits.plugin import NodeVolumeLimits as NodeVolumeLimits
