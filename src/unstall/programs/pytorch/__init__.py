"""PyTorch itself: DDP, FSDP and its launcher."""
