"""A clock that stands still until a test moves it."""


class ManualClock:
    """Both clocks in one number that the test sets."""

    def __init__(self, seconds: float = 1_000.0) -> None:
        self.seconds = seconds

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def tick(self) -> float:
        return self.seconds
