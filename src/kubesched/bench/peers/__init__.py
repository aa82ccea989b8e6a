"""Measuring beside the real kube-scheduler and a null binder, on a real kube-apiserver and etcd."""
