"""Workloads for comparing profilers (docs/PYTHON.md): `workloads.py NAME [SCALE]` runs one of them
and writes its processor time, without imports, to the file named by WORKLOAD_TIME, or to standard
error. What it made stays alive until the end."""

import os
import sys
import time


def json(scale):
    import json

    rows = [{"id": n, "name": f"user{n}", "tags": [n, n + 1.5, None], "on": True} for n in range(500)]
    text = json.dumps(rows)
    yield
    kept = {}
    for n in range(400 * scale):
        kept[n % 40] = json.loads(text)
    yield kept


class Point:
    def __init__(self, x, y):
        self.x = x
        self.y = y


def objects(scale):
    def make(count):
        return [Point(n * 1000, str(n)) for n in range(count)]

    yield
    kept = {}
    for n in range(150 * scale):
        kept[n % 4] = make(8_000)
    yield kept


def recursion(scale):
    def at_depth(depth, text):
        if depth:
            return at_depth(depth - 1, text)
        return [text + str(n) for n in range(500)]

    yield
    kept = {}
    for n in range(6000 * scale):
        kept[n % 20] = at_depth(50, "block ")
    yield kept


def pandas(scale):
    import numpy
    import pandas

    yield
    kept = []
    for n in range(20 * scale):
        frame = pandas.DataFrame({
            "key": numpy.arange(20_000) % 97,
            "value": numpy.arange(20_000) * 1.5,
            "text": [f"row {k % 1000}" for k in range(20_000)],
        })
        sums = frame.groupby("key")["value"].agg(["sum", "mean", "max"])
        joined = frame.merge(sums, left_on="key", right_index=True)
        joined["upper"] = joined["text"].str.upper()
        kept.append(joined.sort_values(["key", "value"]).head(500))
    yield kept


def flask(scale):
    import threading
    import urllib.request

    from flask import Flask, jsonify, request
    from werkzeug.serving import WSGIRequestHandler, make_server

    WSGIRequestHandler.log_request = lambda *arguments: None
    app = Flask("workload")
    kept = {}

    @app.route("/rows/<int:number>")
    def rows(number):
        kept[number % 50] = [{"number": number, "text": f"row {n}"} for n in range(50)]
        return jsonify(rows=kept[number % 50], query=request.args.to_dict())

    # A thread for each request.
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/rows/"
    urllib.request.urlopen(address + "0").read()
    yield
    for number in range(400 * scale):
        with urllib.request.urlopen(f"{address}{number}?page={number}") as answer:
            answer.read()
    yield kept
    server.shutdown()


def main():
    name, scale = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1
    steps = globals()[name](scale)
    next(steps)
    start = time.process_time()
    kept = next(steps)
    spent = f"{time.process_time() - start:.4f}\n"
    if "WORKLOAD_TIME" in os.environ:
        with open(os.environ["WORKLOAD_TIME"], "w") as file:
            file.write(spent)
    else:
        sys.stderr.write(spent)
    for _ in steps:
        pass
    return kept


if __name__ == "__main__":
    kept = main()
