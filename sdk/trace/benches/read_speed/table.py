"""Makes a table of the lines that run.sh prints, and checks them."""

import json
import sys

best = {}
for line in sys.stdin:
    who, events, row = line.split(" ", 2)
    if not row.startswith("{"):
        print(f"{who} with {events} events: {row}", end="")
        continue
    row = json.loads(row)
    old = best.setdefault(int(events), {}).get(who)
    if old is None or row["seconds"] < old["seconds"]:
        best[int(events)][who] = row

failed = False
first = None
print(f"{'events':>9} {'MB':>7}   {'gpustall':>16}   {'Perfetto':>16}   ratio  us/event")
for events, rows in sorted(best.items()):
    ours, theirs = rows["gpustall"], rows.get("Perfetto")
    cell = lambda row: f"{row['seconds']:6.2f} s {row['peak_rss_bytes'] / 1e6:5.0f} MB"
    ratio = theirs and theirs["seconds"] / ours["seconds"]
    each = ours["seconds"] / events * 1e6
    first = first or each
    print(
        f"{events:>9} {rows['file']['peak_rss_bytes'] / 1e6:>7.1f}   {cell(ours)}   "
        f"{cell(theirs) if theirs else '-':>16}   {ratio or 0:5.1f}  {each:8.2f}"
    )
    if theirs:
        failed |= ours["seconds"] > theirs["seconds"]
        failed |= ours["peak_rss_bytes"] > theirs["peak_rss_bytes"]
    failed |= each > 1.5 * first
sys.exit(failed)
