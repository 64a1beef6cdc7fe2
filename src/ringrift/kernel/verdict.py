"""Verdict: what every gate returns and the store keeps, so that ``ringrift why`` can answer."""

from ringrift.kernel.value import Value


class Verdict(Value):
    """May it go on?  By which rule, on which value, against which limit, since when, and until when if it ends."""

    gate: str
    allowed: bool
    rule: str
    value: float
    limit: float
    since: float = 0.0
    until: float | None = None

    def told_since(self, before: "Verdict | None") -> "Verdict":
        """This verdict, dated back to *before* where only the value has moved: the wait began then, not now."""
        if before is None or (before.gate, before.allowed, before.rule) != (self.gate, self.allowed, self.rule):
            return self
        return Verdict(
            gate=self.gate, allowed=self.allowed, rule=self.rule, value=self.value, limit=self.limit,
            since=before.since, until=self.until,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.gate}: {'open' if self.allowed else 'waits'} — {self.rule}: {self.value:g} of {self.limit:g}"
