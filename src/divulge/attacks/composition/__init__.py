"""What share of each class does a client hold?"""
