"""Decaf's table VI: users of FER-2013."""

from divulge.experiments.decaf_rows import users_table

USERS = (
    (14.29, 14.29, 14.29, 14.29, 14.29, 14.29, 14.29),
    (19.23, 5.77, 15.38, 3.85, 26.92, 13.46, 15.38),
    (5.17, 7.76, 13.79, 24.14, 12.07, 19.83, 17.24),
    (29.2, 0, 7.3, 21.9, 8.76, 10.95, 21.9),
    (0, 8.04, 33.93, 0, 26.79, 31.25, 0),
    (27.4, 0, 47.95, 0, 24.66, 0, 0),
    (0, 0, 0, 0, 0, 0, 100),
)
"""Per cent."""

TABLE = users_table(
    "VI",
    "seven users of FER-2013",
    (0.1738, 0.0886, 0.0632),
    "10,000 of the 35,887 faces, 240 a user, and fewer auxiliary ones of the rarest class",
    "copies of a face may be on both sides",
    minutes=1,
    data="fer2013",
    users=USERS,
    records=240,
)
