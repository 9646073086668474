"""The parts of the embedded platform, and the process supervisor that runs them."""
