"""What processes exchange about the data of persons."""
