"""What users write in one text: keys with their rules, and rules of what is impossible."""
