"""What must stay the same about an audit whose information comes in another form, and what turns.

Each relation holds for any way to audit, and for any attack. `divulge check` tries them on an
attack of the user's, and ``tests/relations`` on every way to audit.
"""
