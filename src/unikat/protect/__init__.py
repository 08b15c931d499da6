"""What is done to a file before it is released: which values are suppressed, at what cost."""
