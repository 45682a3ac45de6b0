#!/usr/bin/env python3
"""Reads the lossless block of a finished gpustall trace: python3 read_trace.py FILE"""
import gzip, json, sys

def load(path):
    with open(path, "rb") as f:
        gz = f.read(2) == b"\x1f\x8b"
    with (gzip.open if gz else open)(path, "rt", encoding="utf-8") as f:
        return json.load(f)["gpustall"]

def sums(column):  # differences, modulo 2^64
    total = 0
    for delta in column:
        total = (total + delta) % 2**64
        yield total

def rows(block):
    """(kind, row) for each row; the texts of names, categories and arguments filled in."""
    text = []
    for chunk in block["chunks"]:
        kind = chunk.pop("kind")
        if kind == "strings":
            text += chunk["text"]
            continue
        cells, shapes = iter(chunk.pop("args", [])), chunk.pop("shapes", [])
        value = lambda v: text[v[0]] if isinstance(v, list) else float(v) if isinstance(v, str) else v
        for key in {"start", "at", "id"} & chunk.keys():
            chunk[key] = list(sums(chunk[key]))
        for row in (dict(zip(chunk, cells_)) for cells_ in zip(*chunk.values())):
            for key in {"name", "cat", "source"} & row.keys():
                row[key] = text[row[key]]
            if "shape" in row:
                row["args"] = [(text[k], value(next(cells))) for k in shapes[row.pop("shape")]]
            if "lag" in row:
                row["arrives"] = (row["at"] + row.pop("lag")) % 2**64
            yield kind, row

if __name__ == "__main__":
    block = load(sys.argv[1])
    assert block["schema"] <= 1, "written by a newer gpustall"
    print(json.dumps({"meta": block["meta"], "report": block.get("report")}))
    for kind, row in rows(block):
        print(json.dumps({"kind": kind, **row}))
