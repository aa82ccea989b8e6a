"""The library behind `import kubesched`: clusters in memory, decisions, what-if questions."""
