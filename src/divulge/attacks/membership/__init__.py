"""Was this record in the training set?"""
