"""The `kubesched` command: one module per subcommand."""
