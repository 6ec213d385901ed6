"""OAuth 2 for people: a provider's endpoints, PKCE, and tokens for codes.

The base installation imports it: httpx and msgspec alone, no verification of tokens.
"""
