"""Defences that change the updates that clients send."""
