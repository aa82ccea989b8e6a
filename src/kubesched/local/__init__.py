"""The local cluster of `kubesched up`: the API server, controllers and kubelets, and the daemon beside them."""
