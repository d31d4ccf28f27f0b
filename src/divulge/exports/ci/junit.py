"""JUnit XML: a test case for each thing that the gate asks for, and one for each attack.

A run that keeps no attacks, as a search for a federation, has one for its verdict.

References:
    The schema that Jenkins reads: jenkinsci/xunit-plugin, ``junit-10.xsd``.
"""

from collections import Counter
from xml.etree import ElementTree as ET

from divulge.core import Status
from divulge.exports.ci.cases import AttackCase, GateCase, RunCases

_ENDINGS = {"failed": "failure", "undecided": "error"}
_LOST = {Status.FAILED: "error", Status.NOT_APPLICABLE: "skipped"}


def render(run: RunCases) -> bytes:
    """Render the run as one JUnit XML file."""
    root = ET.Element("testsuites", name="divulge")
    groups = dict.fromkeys(case.about for case in run.attacks)
    suites = [_gate_suite(run)] if run.gate else []
    suites += [_attack_suite(run, about) for about in groups]
    suites += [] if run.attacks else [_verdict_suite(run)]
    root.extend(suites)
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in suites)))
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _gate_suite(run: RunCases) -> ET.Element:
    return _suite(run, f"{run.name}: gate", [_gate_test(run, case) for case in run.gate])


def _attack_suite(run: RunCases, about: str) -> ET.Element:
    name = f"{run.name}: {about}" if about else f"{run.name}: attacks"
    attacks = [case for case in run.attacks if case.about == about]
    suite = _suite(run, name, [_attack_test(run, case) for case in attacks])
    suite.set("time", f"{sum(case.seconds for case in attacks):.3f}")
    return suite


def _verdict_suite(run: RunCases) -> ET.Element:
    """Of a run that keeps no attacks: a test for each verdict, which fails by a gate alone."""
    tests = []
    for case in run.verdicts:
        test = ET.Element("testcase", classname=f"divulge.{run.name}.verdict", name="verdict")
        _add_text(test, "system-out", "\n".join([case.headline, *case.sentences]))
        tests.append(test)
    return _suite(run, f"{run.name}: verdict", tests)


def _suite(run: RunCases, name: str, tests: list[ET.Element]) -> ET.Element:
    ends = Counter(child.tag for test in tests for child in test)
    suite = ET.Element(
        "testsuite",
        name=name,
        tests=str(len(tests)),
        failures=str(ends["failure"]),
        errors=str(ends["error"]),
        skipped=str(ends["skipped"]),
    )
    if run.created:
        suite.set("timestamp", run.created)
    values = {"divulge": run.divulge, "report": run.report}
    for verdict in run.verdicts:
        prefix = f"{verdict.about}: " if verdict.about else ""
        values |= {f"{prefix}verdict": verdict.level, f"{prefix}headline": verdict.headline}
    properties = ET.SubElement(suite, "properties")
    for key, value in values.items():
        ET.SubElement(properties, "property", name=key, value=value)
    suite.extend(tests)
    return suite


def _gate_test(run: RunCases, case: GateCase) -> ET.Element:
    test = ET.Element("testcase", classname=f"divulge.{run.name}.gate", name=case.condition)
    if case.result == "passed":
        _add_text(test, "system-out", "\n".join(case.sentences))
        return test
    deciding = [verdict.deciding for verdict in run.verdicts if verdict.deciding]
    ending = _add_text(
        test,
        _ENDINGS[case.result],
        "\n".join([*case.sentences, *deciding, f"Report: {run.report}"]),
    )
    ending.set("type", f"gate {case.result}")
    ending.set("message", " ".join(case.sentences))
    return test


def _attack_test(run: RunCases, case: AttackCase) -> ET.Element:
    group = case.about or "attacks"
    test = ET.Element(
        "testcase",
        classname=f"divulge.{run.name}.{group}",
        name=case.label,
        time=f"{case.seconds:.3f}",
    )
    if case.status in _LOST:
        ending = _add_text(test, _LOST[case.status], case.reason)
        ending.set("type", case.status.value)
        ending.set("message", case.reason)
        return test
    untested = [f"Controls not tested: {case.untested}"] if case.untested else []
    _add_text(test, "system-out", "\n".join([*case.figures, *untested]))
    return test


def _add_text(parent: ET.Element, tag: str, text: str) -> ET.Element:
    child = ET.SubElement(parent, tag)
    child.text = text
    return child
