"""Decaf's table VII: users of SkinCancer."""

from divulge.experiments.decaf_rows import users_table

USERS = (
    (14.29, 14.29, 14.29, 14.29, 14.29, 14.29, 14.29),
    (15.2, 20.52, 11.85, 16, 12.16, 14.44, 9.88),
    (10.26, 8.97, 16.67, 12.82, 14.1, 16.03, 21.15),
    (20, 0, 38.46, 10.77, 7.69, 7.69, 15.38),
    (9.09, 16.36, 0, 27.27, 0, 14.55, 32.73),
    (0, 18.84, 20.29, 0, 43.48, 0, 17.39),
    (0, 100, 0, 0, 0, 0, 0),
)
"""Per cent."""

TABLE = users_table(
    "VII",
    "seven users of SkinCancer",
    (0.1538, 0.0716, 0.0471),
    "images at 28 x 28 pixels, 100 a user, and some 30 auxiliary ones of the rarest classes",
    "images of one lesion may be on both sides",
    minutes=1,
    data="ham10000",
    users=USERS,
    records=100,
)
