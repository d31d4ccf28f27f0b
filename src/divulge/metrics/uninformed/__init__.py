"""Randomisation tests: do attacks on a federation find more than guesses that know nothing?"""
