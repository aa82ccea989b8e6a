"""The scheduler's configuration: kube-scheduler's file format, its defaults and its rules, and nothing that runs."""
