"""Rows as a table of Markdown."""


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def line(row):
    if "skipped" in row:
        why = row["skipped"].replace("|", "\\|")
        bar = f"{row['bar']}: not measured" if "bar" in row else ""
        return f"| `{row['name']}` | skipped: {why} | | | | {bar} |"
    verdict = {True: "met", False: "**missed**", None: "not told here"}[row.get("met")]
    bar = f"{row['bar']}: {verdict}" if "bar" in row else ""
    value = f"{number(row['value'])} {row['unit']}"
    if "note" in row:
        value += f"; {row['note']}".replace("|", "\\|")
    return (f"| `{row['name']}` | {value} | {number(row['limit'])} | {row['ratio']:.3f} "
            f"| {row['value_spread']:.0%}, {row['limit_spread']:.0%} of {row['repeats']} | {bar} |")


def table(rows, judged):
    """`judged` heads the column of the bars."""
    head = [f"| row | value | limit | ratio | spread | {judged} |", "|" + 6 * " --- |"]
    return "\n".join([*head, *map(line, rows)]) + "\n"


def counts(rows, judged):
    """How many bars are met, missed, and neither; `judged` is the word for them."""
    met = [row.get("met") for row in rows if "bar" in row]
    return (f"{met.count(True)} of {len(met)} {judged} met, {met.count(False)} missed, "
            f"{met.count(None)} not told")
