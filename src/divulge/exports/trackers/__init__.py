"""Finished runs in the places where people keep track of models: MLflow, W&B, Hugging Face."""
