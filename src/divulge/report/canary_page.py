"""The page of an audit by canaries."""

from typing import Any

from divulge.report.page import template_environment


def render(told: Any) -> str:
    """Render the page; every text is escaped.

    Args:
        told: the audit, with the attributes of `audits.canaries.result.CanaryAudit`.
    """
    return template_environment().get_template("canaries.html.j2").render(told=told)
