"""Class paths of 0.1, by which a `notifiers.yaml` names the notifiers."""
