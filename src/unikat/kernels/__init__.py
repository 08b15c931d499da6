"""Compiled kernels: arrays in, arrays out. No frames, no validation, no defaults."""
