"""The cost of live audio: it follows a machine that slows down, and a few turns do not decide."""

from __future__ import annotations

import pytest

from asr.streaming.server.cost import MAX_TURN_S, USUAL_COST, Cost


class Machine:
    """Streams that send chunks of 0.64 s in real time, and the cost that is measured."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cost = Cost(lambda: self.now)

    def run(self, seconds: float, num_streams: int, busy_s: float) -> None:
        """busy_s: thread seconds of a second of audio."""
        for _ in range(round(seconds / 0.64)):
            self.now += 0.64
            for _ in range(num_streams):
                self.cost.add(0.64 * busy_s, 0.64)


def test_a_usual_cost_is_assumed_until_it_is_measured() -> None:
    cost = Cost()
    assert cost.value == pytest.approx(USUAL_COST)
    cost.set(0.01)
    assert cost.value == pytest.approx(0.01)


@pytest.mark.parametrize("num_streams", [10, 100])
@pytest.mark.parametrize("after_s", [0.0, 600.0])
def test_a_machine_that_slows_down_is_noticed_within_5_s(num_streams: int, after_s: float) -> None:
    """Also if no stream spoke for a while, and as soon if it becomes fast again."""
    machine = Machine()
    machine.run(60.0, num_streams, 0.02)
    assert machine.cost.value == pytest.approx(0.02, rel=0.01)
    machine.now += after_s
    machine.run(5.0, num_streams, 0.08)
    assert 0.07 < machine.cost.value <= 0.08
    machine.run(5.0, num_streams, 0.02)
    assert machine.cost.value < 0.03


def test_one_stream_is_averaged_over_several_seconds() -> None:
    """A final takes as long as several seconds of audio."""
    machine = Machine()
    machine.run(60.0, 1, 0.02)
    machine.now += 0.64
    machine.cost.add(0.15, 0.64)
    assert machine.cost.value < 2.5 * 0.02


def test_a_pause_does_not_change_the_cost() -> None:
    machine = Machine()
    machine.run(60.0, 10, 0.02)
    machine.now += 3600.0
    assert machine.cost.value == pytest.approx(0.02, rel=0.01)
    machine.cost.add(0.5, 0.64)
    assert machine.cost.value < 0.02 + 0.5 / 4


def test_a_suspended_machine_is_not_slow() -> None:
    machine = Machine()
    machine.run(60.0, 10, 0.02)
    machine.now += 3600.0
    machine.cost.add(3600.0, 0.64)
    assert machine.cost.value < MAX_TURN_S / 4
