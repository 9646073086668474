"""A project: laid out by `stateward init`, and its streams by `stateward new stream`."""
