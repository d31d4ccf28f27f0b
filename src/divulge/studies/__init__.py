"""Studies of several models: in turn, compared, searched; what they cost, and how many it takes."""
