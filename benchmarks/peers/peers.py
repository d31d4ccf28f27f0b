"""Which tools stand beside divulge."""

from benchmarks.peers.environment import Peer

ART = Peer("art", "art")
JAX_PRIVACY = Peer("jax-privacy", "jax_privacy.auditing")
LEAKPRO = Peer("leakpro", "benchmarks.peers.drivers.leakpro_audit", "leakpro-*.whl")
OPAKE = Peer("opake", "opake.auditing")
PRIVACY_METER = Peer("privacy-meter", "attacks", "ml_privacy_meter*.whl")
PRIVACYGUARD = Peer(
    "privacyguard", "privacy_guard.attacks.lira_attack", "privacyguard_platform-*.whl"
)
