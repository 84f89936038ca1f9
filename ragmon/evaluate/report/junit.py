"""JUnit XML for CI: one test case a rule."""

from collections.abc import Iterable, Set
from xml.etree import ElementTree as ET

from ragmon.evaluate.compare.gate import Check, Decision, Verdict


def xml(decision: Decision) -> bytes:
    """A suite of the rules of a gate.

    A fall that is not proven passes with its reason in the output, as JUnit has no such status.
    """
    name = f"ragmon gate: {decision.current} against {decision.baseline}"
    return _suite(name, decision.checks, {"pass", "inconclusive"})


def limits(name: str, checks: Iterable[Check]) -> bytes:
    """A suite of the limits of one evaluation; a limit without any score fails."""
    return _suite(f"ragmon evaluate: {name}", list(checks), {"pass"})


def _suite(name: str, checks: list[Check], passing: Set[Verdict]) -> bytes:
    failures = sum(check.verdict not in passing for check in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": _clean(name), **counts})
    for check in checks:
        title = f"{check.metric} [{check.stratum}]" if check.stratum else check.metric
        case = ET.SubElement(
            suite, "testcase", {"classname": "ragmon.evaluate", "name": _clean(title)}
        )
        if check.verdict not in passing:
            ET.SubElement(case, "failure", {"message": _clean(check.reason)})
        else:
            ET.SubElement(case, "system-out").text = _clean(f"{check.verdict}: {check.reason}")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _clean(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(char for char in text if char >= " " or char in "\t\n")
