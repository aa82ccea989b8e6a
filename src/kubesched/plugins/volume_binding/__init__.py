"""VolumeBinding: claims that are bound must be reachable, those that wait for the pod are bound where it goes.

`plugin` is the plugin; `plan` works out, for all nodes at once, what would be bound where; `supply` finds volumes for
claims; `places` tells which nodes can reach a volume; `assume_cache` holds what is decided but not yet written;
`binding` writes it and waits; `scoring` is off unless the arguments have a shape.
"""

from kubesched.plugins.volume_binding.plugin import VolumeBinding as VolumeBinding
