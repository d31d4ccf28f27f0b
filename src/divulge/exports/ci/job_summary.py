"""The summary of a job in GitHub Actions: what the gate says, then the report in Markdown."""

from divulge.exports.ci.cases import RunCases, result_of_gate
from divulge.report.markdown import make_inert


def render(run: RunCases) -> str:
    """Render the summary in GitHub's Markdown; every text of the user's is made inert."""
    parts = [f"## divulge: {make_inert(run.name)}"]
    if run.gate:
        rows = [
            [make_inert(case.condition), f"**{case.result}**", make_inert(" ".join(case.sentences))]
            for case in run.gate
        ]
        table = [["Asked for", "Result", "Why"], ["---"] * 3, *rows]
        result = result_of_gate(run.gate)
        decisive = next(case for case in run.gate if case.result == result)
        parts.append(f"**Gate {result}: {make_inert(decisive.sentences[0])}**")
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in table))
    parts += [run.markdown.strip(), f"Report: {make_inert(run.report)}"]
    return "\n\n".join(parts) + "\n"
