"""A busy labelling run that is killed from outside: every answer is reported once it is stored."""

from goalward.study import Study


def truth(row):
    return "high" if row % 100 >= 50 else "low"


def work(place, by, report):
    study = Study.open(place)
    while True:
        for row in study.ask(3, by=by):
            study.tell(row, truth(row), by=by)
            report.send_bytes(str(row).encode())
        if len(study.state.labels) % 4 == 0:
            study.undo(by=by)
            report.send_bytes(b"undo")
