"""A bar chart as SVG, by hand: readable on light and dark pages, no packages."""

import math
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT = 760, 204, 110  # the plot lies between LEFT and WIDTH - RIGHT
TOP, ROW, BAR = 78, 34, 20
# Colours of a light page and of a dark one; the chart has its own ground, so that it is readable
# too where a page's and the browser's choice differ.
STYLE = """
    text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
    .ground { fill: #ffffff; stroke: #d1d9e0; }
    .title { font-size: 16px; font-weight: 600; }
    .text { font-size: 13px; }
    .small { font-size: 11.5px; }
    .title, .text { fill: #1f2328; }
    .small { fill: #59636e; }
    .grid { stroke: #d1d9e0; }
    .limit { fill: #afb8c1; }
    .own { fill: #0969da; }
    .peer { fill: #768390; }
    .strong { font-weight: 600; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117; stroke: #3d444d; }
      .title, .text { fill: #f0f6fc; }
      .small { fill: #9198a1; }
      .grid { stroke: #3d444d; }
      .limit { fill: #4d5662; }
      .own { fill: #4493f8; }
      .peer { fill: #848d97; }
    }
"""


def axis_step(largest):
    """A round step (1, 2 or 5 times a power of ten) of which 3 to 8 reach `largest`."""
    power = 10.0 ** math.floor(math.log10(largest / 3))
    return next(factor * power for factor in (1, 2, 5, 10) if largest / (factor * power) <= 8)


def text(x, y, words, kind="text", anchor="start"):
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def bar_chart(title, subtitle, axis, bars, footer):
    """Horizontal bars, one under the other.

    `bars` has (label, value or None, words beside the bar, kind) each; kind is limit, own or peer.
    A bar without a value is its words only. `footer` is a list of lines.
    """
    largest = max([value for _, value, _, _ in bars if value is not None] or [1])
    step = axis_step(largest)
    end = math.ceil(largest / step) * step
    scale = (WIDTH - LEFT - RIGHT) / end
    bottom = TOP + ROW * len(bars)
    height = bottom + 58 + 16 * len(footer)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
             f'height="{height}" role="img">', f"<title>{escape(title)}</title>",
             f"<style>{STYLE}</style>",
             f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6" class="ground"/>',
             text(20, 30, title, "title"), text(20, 52, subtitle, "small")]
    for i in range(round(end / step) + 1):
        x = LEFT + i * step * scale
        lines.append(f'<line x1="{x:g}" y1="{TOP - 8}" x2="{x:g}" y2="{bottom}" class="grid"/>')
        lines.append(text(x, bottom + 18, f"{i * step:,g}", "small", "middle"))
    lines.append(text(LEFT + end * scale / 2, bottom + 38, axis, "small", "middle"))
    for i, (label, value, words, kind) in enumerate(bars):
        y = TOP + ROW * i
        strong = "text strong" if kind == "own" else "text"
        lines.append(text(LEFT - 10, y + 15, label, strong, "end"))
        length = 0 if value is None else value * scale
        if value is not None:
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" '
                         f'class="{kind}"/>')
        lines.append(text(LEFT + length + 6, y + 15, words, strong))
    lines += [text(20, bottom + 60 + 16 * i, line, "small") for i, line in enumerate(footer)]
    return "\n".join([*lines, "</svg>", ""])
