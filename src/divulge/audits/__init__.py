"""One audit of one secret: settings, inputs, the challenge that they pose, and the result."""
