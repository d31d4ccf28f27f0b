"""The blind control of attacks on federations: what they see is shuffled, and the truth is not.

An attack whose guess still fits the truth knows it from elsewhere, by a bug or on purpose.
"""
