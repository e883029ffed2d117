"""The transaction coordinator: the producers of transactional ids, and the ends of their transactions (KIP-98)."""
