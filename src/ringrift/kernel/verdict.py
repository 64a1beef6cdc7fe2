"""Verdict: what every gate returns and the store records, for ``ringrift why``."""

from ringrift.kernel.value import Value, changed


class Verdict(Value, kw_only=False):
    """Whether a gate lets it go on: by which rule, on which value, against which limit, since and until when."""

    gate: str
    allowed: bool
    rule: str
    value: float
    limit: float
    since: float = 0.0
    until: float | None = None

    def with_since_of(self, before: "Verdict | None") -> "Verdict":
        """This verdict, dated back to *before* where only the value has moved: the wait began then, not now."""
        if before is None or (before.gate, before.allowed, before.rule) != (self.gate, self.allowed, self.rule):
            return self
        return changed(self, since=before.since)

    def __str__(self) -> str:
        return f"{self.gate}: {'open' if self.allowed else 'waits'} — {self.rule}: {self.value:g} of {self.limit:g}"
