"""Which tools stand beside divulge."""

from benchmarks.peers.environment import Peer

ART = Peer("art", "art")
PRIVACYGUARD = Peer("privacyguard", "privacy_guard.attacks.lira_attack")
PRIVACY_METER = Peer("privacy-meter", "privacy_meter.audit")
LEAKPRO = Peer("leakpro", "leakpro")
JAX_PRIVACY = Peer("jax-privacy", "jax_privacy.auditing")
