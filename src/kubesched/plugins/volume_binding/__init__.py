"""VolumeBinding: bound claims must be reachable; claims that wait for their pod are bound where it goes.

`plugin` is the plugin; `plan` computes, for all nodes at once, what would be bound where; `supply` finds volumes for
claims; `places` finds the nodes that can reach a volume; `assume_cache` holds decisions that are not yet written;
`binding` writes them and waits; `scoring` is off unless the arguments have a shape.
"""

from kubesched.plugins.volume_binding.plugin import VolumeBinding as VolumeBinding
