"""The control plane: specs, supervision and the embedded platform. Imports no pyspark."""
