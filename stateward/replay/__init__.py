"""Send files of recorded events to Kafka, as they are."""
