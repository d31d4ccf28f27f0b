"""Which items did a user act on?"""
