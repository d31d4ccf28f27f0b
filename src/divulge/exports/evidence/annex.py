"""The annex of a pack of evidence: what was asked, found and not asked, in plain words."""

from divulge.core import Status
from divulge.exports.ci.cases import RunCases
from divulge.report.page import template_environment


def render(run: RunCases) -> str:
    """Render the page, one self-contained HTML file; every text is escaped.

    Args:
        run: all that is told of the run.
    """
    done = [one for one in run.attacks if one.status is Status.DONE]
    others = [one for one in run.attacks if one.status is not Status.DONE]
    template = template_environment("divulge.exports").get_template("annex.html.j2")
    return template.render(run=run, done=done, others=others)
