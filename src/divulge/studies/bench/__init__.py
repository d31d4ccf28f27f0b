"""An attack of somebody's own beside those of divulge, on small targets that are trained here."""
