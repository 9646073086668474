"""Whether a checkpoint's state fits the code: descriptors, findings, the verdict."""
