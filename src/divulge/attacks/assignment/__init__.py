"""Which client of a federation trained on a record?"""
