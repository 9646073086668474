"""What two processes exchange: names, documents, requests, exit codes.

It imports nothing of ours, so that the control plane and the drivers can both import it. Documents are read
tolerantly: a driver of the last release runs beside a control plane of this one, and the other way round.
"""
