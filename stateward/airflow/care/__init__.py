"""The tasks of the DAG `state_<stream>`: look at a state, decide, ask, act, and report."""
