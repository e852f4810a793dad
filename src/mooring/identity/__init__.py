"""The identity service: who may ask for what, as far as Keystone v3's clients look."""
