"""Who may write a checkpoint."""
