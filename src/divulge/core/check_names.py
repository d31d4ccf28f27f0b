"""Names of checks of an audit, and of their estimates, that the verdict looks for."""

BLIND, DIFFICULTY = "blind baseline", "difficulty baseline"
"""The checks that tell members from non-members without the model, and say how well."""

SHADOWS = "shadow models"
ALL, OTHERS = "surer of candidates than shadows", "surer of non-members than shadows"
"""The check of shadow models, and its estimates of online ones."""

CLASSES, DUPLICATES = "class mix", "duplicates"
RECORDS_EACH = "records each"
TOKENS_EACH, DATES = "tokens each", "dates"
PRECISION, VALUES = "precision", "true values"
"""The checks of what the sets hold, and of how they were written."""
