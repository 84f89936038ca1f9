"""What ragmon says of itself: one JSON object a line, whoever speaks."""

import logging

import msgspec
import pytest
import structlog

from ragmon.logs import configure


@pytest.fixture
def said(capsys):
    """Configures logging; returns what reads the lines. Afterwards all is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in ("apscheduler", "urllib3", "uvicorn")}

    def lines(style="json", level="info"):
        configure(style, level)
        return written

    def written():
        return capsys.readouterr().err.splitlines()

    yield lines
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, was in levels.items():
        logging.getLogger(name).setLevel(was)
    structlog.reset_defaults()


def divide():
    return 1 // 0


def test_every_line_is_an_object_with_time_level_and_event(said):
    lines = said()
    log = structlog.get_logger("part").bind(path="a")
    log.info("happened", count=3, text='quotes " and\nlines', odd={1, 2}.__class__)
    logging.getLogger("library").warning("they say %s", "so")
    logging.getLogger("uvicorn.error").error("a server's error")
    try:
        divide()
    except ZeroDivisionError:
        log.exception("failed")
        logging.getLogger("library").exception("failed there")
    told = [msgspec.json.decode(line) for line in lines()]
    assert [each["event"] for each in told] == [
        "happened",
        "they say so",
        "a server's error",
        "failed",
        "failed there",
    ]
    for each in told:
        assert {"timestamp", "level", "logger", "event"} <= each.keys()
        assert each["timestamp"].endswith("Z")
    assert told[0]["path"] == "a"
    assert told[0]["count"] == 3
    assert told[0]["text"] == 'quotes " and\nlines'
    assert "ZeroDivisionError" in told[3]["exception"]
    assert "ZeroDivisionError" in told[4]["exception"]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["d", "i", "w", "e"]),
        ("info", ["i", "w", "e"]),
        ("warning", ["w", "e"]),
        ("error", ["e"]),
    ],
)
def test_less_than_the_level_is_not_written(said, level, expected):
    lines = said("json", level)
    log = structlog.get_logger("part")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    assert [msgspec.json.decode(line)["event"] for line in lines()] == expected


def test_libraries_speak_from_warnings_on(said):
    lines = said("json", "debug")
    for name in ("apscheduler.executors", "urllib3.connectionpool", "uvicorn.error"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("worth it")
    assert [msgspec.json.decode(line)["event"] for line in lines()] == ["worth it"] * 3


def test_people_get_no_json(said):
    lines = said("console")
    structlog.get_logger("part").info("happened", count=3)
    [line] = lines()
    assert "happened" in line
    assert not line.startswith("{")


def test_auto_is_json_when_nobody_watches(said):
    lines = said("auto")
    structlog.get_logger("part").info("happened")
    assert msgspec.json.decode(lines()[0])["event"] == "happened"


def test_a_traceback_on_a_terminal_shows_no_variables(said):
    token = "Bearer " + "s3cr3t" * 3  # a local variable of the frame that fails
    lines = said(style="console")
    try:
        divide()
    except ZeroDivisionError:
        structlog.get_logger("part").exception("failed")
    text = "\n".join(lines())
    assert "ZeroDivisionError" in text
    assert token not in text
