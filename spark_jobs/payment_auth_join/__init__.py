"""Each payment with its authentication, by Spark's own operators: docs/streams/payment_auth_join.md."""
