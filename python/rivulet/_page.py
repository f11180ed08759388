"""A notebook's view of a run and of a history: HTML and SVG without scripts, everything escaped."""

import html
from typing import Any, List, Mapping, Sequence, Tuple

_WIDTH, _HEIGHT = 320, 120
_LEFT, _BOTTOM, _MARGIN = 46, 18, 8
_POINTS = 500  # more would lie on one pixel

Curve = Tuple[List[int], List[float]]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return html.escape(f"{value:.4g}" if isinstance(value, float) else str(value))


def _table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _chart(name: str, curve: Curve) -> str:
    """A curve over rounds, with its range at the axes."""
    rounds, values = curve
    if not rounds:
        return ""
    step = -(-len(rounds) // _POINTS)
    points = list(zip(rounds, values))
    shown = points[::step] if points[-1] in points[::step] else [*points[::step], points[-1]]
    low, high = min(values), max(values)
    across = (_WIDTH - _LEFT - _MARGIN) / max(1, rounds[-1] - rounds[0])
    up = (_HEIGHT - _BOTTOM - 3 * _MARGIN) / ((high - low) or 1.0)
    floor = _HEIGHT - _BOTTOM - _MARGIN
    path = " ".join(
        f"{_LEFT + (round_ - rounds[0]) * across:.1f},{floor - (value - low) * up:.1f}" for round_, value in shown
    )
    style = 'font-size="10" fill="currentColor"'
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(name)} over rounds">'
        f'<text x="{_LEFT}" y="10" {style} font-weight="bold">{html.escape(name)}</text>'
        f'<text x="{_LEFT - 4}" y="{floor - (high - low) * up + 4:.0f}" {style} text-anchor="end">{high:.4g}</text>'
        f'<text x="{_LEFT - 4}" y="{floor + 4}" {style} text-anchor="end">{low:.4g}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 4}" {style}>{rounds[0]}</text>'
        f'<text x="{_WIDTH - _MARGIN}" y="{_HEIGHT - 4}" {style} text-anchor="end">round {rounds[-1]}</text>'
        f'<polyline points="{path}" fill="none" stroke="#1f77b4" stroke-width="2"/></svg>'
    )


def run_page(
    title: str,
    facts: Mapping[str, Any],
    curves: Mapping[str, Curve],
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> str:
    """A run: facts, a chart for each metric that it has, and its last rounds."""
    told = " &nbsp; ".join(
        f"{html.escape(name.replace('_', ' '))} <b>{_cell(value)}</b>" for name, value in facts.items()
    )
    charts = "".join(_chart(name, curve) for name, curve in curves.items())
    last = f"<details><summary>last rounds</summary>{_table(names, rows)}</details>" if rows else ""
    return f"<div><h4>{html.escape(title)}</h4><p>{told}</p>{charts}{last}</div>"


def history_page(db: str, names: Sequence[str], rows: Sequence[Sequence[Any]], older: int) -> str:
    """A history: its newest runs, and how many older ones there are."""
    runs = _table(names, rows) if rows else "<p>no runs yet</p>"
    more = f"<p>and {older} older: <code>history.runs()</code></p>" if older else ""
    return f"<div><h4>{html.escape(db)}</h4>{runs}{more}</div>"
