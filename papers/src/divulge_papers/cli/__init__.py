"""The commands of divulge that this distribution brings."""
