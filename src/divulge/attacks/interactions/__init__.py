"""Attacks that infer which items a user acted on."""
