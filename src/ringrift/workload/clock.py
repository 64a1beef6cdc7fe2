"""The clock that the core offers to workloads; simulated time reaches them through the same interface."""

from ringrift.kernel.clock import Clock as Clock
from ringrift.kernel.clock import SystemClock as SystemClock
