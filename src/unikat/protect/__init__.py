"""What is done to a file before it is released, and what it costs."""
