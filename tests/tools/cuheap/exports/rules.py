"""The rules of speedscope's files and of Chrome's traces, for files of anybody; each raises ValueError with the reason."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
SPEEDSCOPE_UNITS = {"bytes", "none", "nanoseconds", "microseconds", "milliseconds", "seconds"}


def _ask(condition, reason):
    if not condition:
        raise ValueError(reason)


def speedscope(file):
    """What the schema asks, and the importer beyond it: indices in range, as many weights as samples that fill the range of
    values, frames that are closed in the opposite order of their opening."""
    _ask(file.get("$schema") == SPEEDSCOPE_SCHEMA, "another schema")
    _ask(set(file) <= {"$schema", "profiles", "shared", "activeProfileIndex", "exporter", "name", "version"},
         f"members that the schema has not: {set(file)}")
    frames = file["shared"]["frames"]
    for frame in frames:
        _ask(isinstance(frame["name"], str) and frame["name"], "a frame without a name")
        _ask(isinstance(frame.get("file", ""), str), "a frame's file is no text")
        _ask(frame.get("line", 1) >= 1, "a frame's line is below 1")
        _ask(set(frame) <= {"name", "file", "line", "col"}, f"a frame with {set(frame)}")
    _ask(file["profiles"], "no profiles")
    _ask(0 <= file.get("activeProfileIndex", 0) < len(file["profiles"]), "the active profile is not there")
    for profile in file["profiles"]:
        _ask(profile["unit"] in SPEEDSCOPE_UNITS, f"unit {profile['unit']}")
        _ask(isinstance(profile["name"], str), "a profile without a name")
        (_sampled if profile["type"] == "sampled" else _evented)(profile, len(frames))


def _sampled(profile, frames):
    _ask(set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, f"{set(profile)}")
    _ask(len(profile["samples"]) == len(profile["weights"]), "not as many weights as samples")
    _ask(sum(profile["weights"]) == profile["endValue"] - profile["startValue"], "weights that do not fill the range")
    for sample in profile["samples"]:
        _ask(sample and all(0 <= index < frames for index in sample), f"sample {sample}")


def _evented(profile, frames):
    _ask(profile["type"] == "evented", f"profile of type {profile['type']}")
    _ask(set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}, f"{set(profile)}")
    stack, at = [], profile["startValue"]
    for event in profile["events"]:
        _ask(at <= event["at"] <= profile["endValue"], "events out of order or range")
        _ask(0 <= event["frame"] < frames, f"frame {event['frame']}")
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            _ask(event["type"] == "C" and stack and stack.pop() == event["frame"], "a frame is closed that is not open on top")
    _ask(not stack, "frames stay open")


PHASES = set("BEXIiCbneSTpFstfPNODMVvRcaA()=")


def trace_events(file):
    """The events of a trace in either form, the JSON array or the object around it. Durations lie within each other, ends
    have beginnings, slices of other threads (b and e) too."""
    events = file["traceEvents"] if isinstance(file, dict) else file
    _ask(isinstance(events, list), "no list of events")
    threads, slices = {}, {}
    for event in events:
        _ask(isinstance(event, dict) and event.get("ph") in PHASES, f"an event of phase {event.get('ph')!r}")
        _ask(isinstance(event["pid"], int) and isinstance(event["tid"], int), "pid or tid is no number")
        if event["ph"] != "M":
            _ask(event["ts"] >= 0, "a time below 0")
        if event["ph"] in "BEX":
            threads.setdefault((event["pid"], event["tid"]), []).append(event)
        elif event["ph"] in "be":
            slices.setdefault((event["pid"], event["cat"], event["id"]), []).append(event)
    for thread in threads.values():
        _nested(thread)
    for pair in slices.values():
        _ask([event["ph"] for event in pair] == ["b", "e"], "a slice does not begin and end once")
        _ask(pair[0]["ts"] <= pair[1]["ts"] and pair[0]["name"] == pair[1]["name"], "a slice ends before or as another")
    return events


def _nested(events):
    """Beginnings and ends of one thread. At one time an end may stand before the beginning it belongs to (no time passed)."""
    stack, early = [], []
    for event in sorted((event for event in events if event["ph"] in "BE"), key=lambda event: event["ts"]):
        name, ts = event.get("name"), event["ts"]
        _ask(all(at == ts for _, at in early), "an end without a beginning")
        if event["ph"] == "B":
            if (name, ts) in early:
                early.remove((name, ts))
            else:
                stack.append(name)
        elif stack and stack[-1] == name:
            stack.pop()
        else:
            early.append((name, ts))
    _ask(not early, "an end without a beginning")
    _ask(not stack, "a beginning without an end")
    durations = [(event["ts"], -event.get("dur", event.get("tdur", -1))) for event in events if event["ph"] == "X"]
    _ask(all(length <= 0 for _, length in durations), "an event without its duration")
    ends = []
    for start, length in sorted(durations):
        while ends and ends[-1] <= start:
            ends.pop()
        _ask(not ends or start - length <= ends[-1], "durations that overlap without lying within each other")
        ends.append(start - length)
