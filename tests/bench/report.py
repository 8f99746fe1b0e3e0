# SPDX-License-Identifier: Apache-2.0
"""Figures, and the table that shows them."""

import dataclasses
import statistics


@dataclasses.dataclass
class Figure:
    """One quantity, measured several times; `most` or `least` is what its median should keep to."""

    name: str
    unit: str
    values: list
    most: float = None
    least: float = None

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def kept(self):
        """True, False, or None where nothing is asked."""
        if self.most is None and self.least is None:
            return None
        return (self.most is None or self.median <= self.most) and (
            self.least is None or self.median >= self.least
        )

    def bound(self):
        if self.most is not None:
            return f"<= {self.most:g}"
        return f">= {self.least:g}" if self.least is not None else ""

    def as_json(self, bench):
        return {
            "bench": bench,
            "name": self.name,
            "unit": self.unit,
            "median": self.median,
            "values": self.values,
            "most": self.most,
            "least": self.least,
            "kept": self.kept,
        }


HEAD = ("", "median", "from", "to", "n", "unit", "asked", "")


def number(value):
    if abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"


def row(figure):
    verdict = {True: "kept", False: "MISSED", None: ""}[figure.kept]
    return (
        figure.name,
        number(figure.median),
        number(min(figure.values)),
        number(max(figure.values)),
        str(len(figure.values)),
        figure.unit,
        figure.bound(),
        verdict,
    )


def table(title, figures):
    """As text, a figure a line."""
    rows = [HEAD] + [row(f) for f in figures]
    widths = [max(len(r[i]) for r in rows) for i in range(len(HEAD))]
    lines = [title]
    for r in rows:
        cells = [r[0].ljust(widths[0])]
        cells += [c.rjust(w) for c, w in zip(r[1:5], widths[1:5])]
        cells += [c.ljust(w) for c, w in zip(r[5:], widths[5:])]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)
