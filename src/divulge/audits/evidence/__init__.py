"""The address of packs of evidence in the scripts of those that were written first."""
