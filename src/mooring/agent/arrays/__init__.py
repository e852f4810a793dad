"""Storage arrays by their vendors' own libraries, each in a helper process of its own.

Nothing in here but `requests` is imported by the agent itself.
"""
