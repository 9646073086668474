"""What the clients of storage and of Kafka are given, and what they do differently made alike."""
