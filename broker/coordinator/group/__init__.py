"""The group coordinator: classic groups, consumer groups (KIP-848), and the offsets that groups commit."""
