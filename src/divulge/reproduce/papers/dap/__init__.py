"""Training against a frozen membership discriminator (dap)."""
