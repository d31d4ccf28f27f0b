"""ShadowStack: a classifier stacked on leave-one-out features of shadow models."""
