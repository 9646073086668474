"""A project: its folders, the YAML of its streams as validated models, its settings."""
