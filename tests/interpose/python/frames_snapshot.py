"""The stacks of a snapshot, for tests of Python frames."""


class Stacks:
    """Stacks of a snapshot as lists of frames, innermost first: dicts with kind, function, file, line."""

    def __init__(self, snapshot):
        self.snapshot = snapshot
        strings, frames, words = snapshot["strings"], snapshot["frames"], snapshot["words"]["frame_kind"]
        self.frames = [{"kind": words[frames["kind"][i]], "function": strings[frames["function"][i]],
                        "file": strings[frames["file"][i]], "line": frames["line"][i], "reason": strings[frames["reason"][i]]}
                       for i in range(len(frames["kind"]))]

    def of(self, stack):
        return [self.frames[i] for i in self.snapshot["stacks"]["frames"][stack]]

    def python_of(self, stack):
        return [(f["file"], f["line"], f["function"]) for f in self.of(stack) if f["kind"] == "python"]

    def by_size(self):
        """{bytes: stack index} of every allocation."""
        events, words = self.snapshot["events"], self.snapshot["words"]["event_type"]
        return {events["bytes"][i]: events["stack"][i] for i in range(len(events["type"])) if words[events["type"][i]] == "allocate"}

    def why_no_python(self, stack):
        return self.snapshot["strings"][self.snapshot["stacks"]["no_python"][stack]]

    def flag(self, name, stack):
        return stack in self.snapshot["stacks"][name]
