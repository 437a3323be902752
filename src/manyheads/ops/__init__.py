"""Arithmetic on tensors: kernels that know nothing of models."""
