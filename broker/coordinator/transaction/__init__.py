"""The transaction coordinator: transactional ids, and the transactions that they have open."""
