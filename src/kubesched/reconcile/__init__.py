"""What controllers and kubelets share: the work loop, cached views, direct API access, events and conditions."""
