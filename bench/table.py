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


def heading(judged):
    return [f"| row | value | limit | ratio | spread | {judged} |", "|" + 6 * " --- |"]


def table(rows, judged):
    """`judged` heads the column of the bars."""
    return "\n".join([*heading(judged), *map(line, rows)]) + "\n"


def merged(text, rows, order, judged):
    """The table `text` with `rows` in place of its rows of their names, in the order of `order`."""
    lines = {each.split("`")[1]: each for each in text.splitlines() if each.startswith("| `")}
    lines |= {row["name"]: line(row) for row in rows}
    found = [lines[name] for name in order if name in lines]
    return "\n".join([*heading(judged), *found]) + "\n"


def told(text):
    """The verdicts of a table's rows, as `met` has them."""
    words = {": met |": True, ": **missed** |": False}
    return [next((met for end, met in words.items() if each.endswith(end)), None)
            for each in text.splitlines() if each.startswith("| `") and not each.endswith("|  |")]


def counts(rows, judged):
    """How many bars are met, missed, and neither; `judged` is the word for them."""
    return count_told([row.get("met") for row in rows if "bar" in row], judged)


def count_told(met, judged):
    return (f"{met.count(True)} of {len(met)} {judged} met, {met.count(False)} missed, "
            f"{met.count(None)} not told")
