"""A clock that stands still until a test moves it."""


class ManualClock:
    """Both clocks in one number that the test sets."""

    def __init__(self, seconds: float = 1_000.0) -> None:
        self.seconds = seconds
        self.step = 0.0  # how far the wall clock was moved

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds + self.step

    def tick(self) -> float:
        return self.seconds
