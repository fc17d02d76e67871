"""Hugging Face transformers."""
