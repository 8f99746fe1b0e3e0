#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The totals of a JUnit report as pytest writes it: passed, failed, skipped."""

import sys
import xml.etree.ElementTree as ElementTree


def totals(path):
    suites = list(ElementTree.parse(path).getroot().iter("testsuite"))

    def total(key):
        return sum(int(suite.get(key, 0)) for suite in suites)

    failed = total("failures") + total("errors")
    skipped = total("skipped")
    return total("tests") - failed - skipped, failed, skipped


if __name__ == "__main__":
    print(*totals(sys.argv[1]))
