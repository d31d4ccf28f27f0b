"""List the values of r and λ in DAP's paper."""

PAPER_R = tuple(k / 40 for k in range(41))
"""Values of r, how much the discriminator counts, of which the paper takes the best."""

WEIGHTS = (1.0, 2.0, 5.0, 10.0)
"""Values of λ, how much privacy counts in AOP(λ), in figure 2."""
