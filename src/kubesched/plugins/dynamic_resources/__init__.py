"""DynamicResources: devices for pods that claim them (resource.k8s.io).

`pools` and `inventory` follow what drivers publish, `ledger` follows what claims have. `requests` compiles what a claim
asks for, `search` finds devices for it, and `plan` caches what was found for nodes in equal states. `plugin` is the
plugin itself. Its extension points are in `hints` (PreEnqueue), `prepare` (PreFilter), `filtering`, `deallocation`
(PostFilter), `scoring`, `reservation` and `binding` (PreBind), which writes the decisions to the API server.
"""

from kubesched.plugins.dynamic_resources.plugin import DynamicResources as DynamicResources
