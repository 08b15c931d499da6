"""The random numbers of the CPU kernels, compiled for the GPU: same keys, same counters."""

from __future__ import annotations

from unikat.kernels import random
from unikat.kernels.cuda.launch import for_gpu

philox = for_gpu(random.philox)
seek = for_gpu(random.seek)
next_bits = for_gpu(random.next_bits, philox=philox)
uniform = for_gpu(random.uniform, next_bits=next_bits)
log_factorial_ratio = for_gpu(random.log_factorial_ratio)
binomial = for_gpu(random.binomial, uniform=uniform, log_factorial_ratio=log_factorial_ratio)
