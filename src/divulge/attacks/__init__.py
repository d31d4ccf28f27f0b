"""One file per attack: frozen settings plus one call from a view to a guess."""
