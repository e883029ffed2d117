"""Every message of Kafka 4.3, each declared once for all its versions, in modules by family.

Nothing is imported here: a broker that starts reads the families that its first requests need and no other.
"""
