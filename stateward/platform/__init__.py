"""The embedded platform: Java, JARs, Kafka and Airflow as supervised processes."""
