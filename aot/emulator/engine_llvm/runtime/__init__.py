"""What handlers call: memory with its checks, wait queues, stores, barriers and the order of waves."""
