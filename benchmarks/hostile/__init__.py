"""Honest clients beside hostile ones: what the one notices of the other."""
