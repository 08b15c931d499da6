"""Attacks on synthetic files; docs/design/attacks.md says what each assumes of the intruder."""
