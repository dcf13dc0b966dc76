"""Memory for messages of WebSocket clients: who is read while all clients together are too far ahead."""

from __future__ import annotations

from asr.streaming.server.security.unread import ALWAYS, Unread

LIMIT = 10 * ALWAYS


class Reader:
    """A connection that reads `num_bytes` at once unless it is paused."""

    def __init__(self, unread: Unread) -> None:
        self.unread = unread
        self.num_messages = self.num_bytes = 0
        self.paused = False

    def read(self, num_bytes: int, num_messages: int = 0) -> None:
        assert not self.paused
        self.num_messages += num_messages
        self.num_bytes += num_bytes
        self.unread.changed(self, num_bytes)
        if not self.unread.may_read(self):
            self.paused = True
            self.unread.pause(self)

    def handle(self) -> None:
        """All its messages are handled."""
        num_bytes, self.num_bytes, self.num_messages = self.num_bytes, 0, 0
        self.unread.changed(self, -num_bytes)

    def go_on(self) -> None:
        assert self.paused
        self.paused = False


def test_a_client_ahead_of_a_full_server_waits_until_others_are_handled() -> None:
    unread = Unread(LIMIT)
    ahead, other, behind = Reader(unread), Reader(unread), Reader(unread)
    ahead.read(LIMIT, num_messages=20)
    assert not ahead.paused
    other.read(2 * ALWAYS, num_messages=2)
    behind.read(ALWAYS, num_messages=1)
    assert other.paused and not behind.paused and not ahead.paused
    ahead.read(1)
    assert ahead.paused
    behind.handle()
    assert other.paused and ahead.paused
    other.handle()  # there is still too much, but not of this one
    assert not other.paused and ahead.paused
    ahead.handle()
    assert not ahead.paused and unread.num_bytes == 0


def test_of_many_long_messages_one_is_always_read() -> None:
    unread = Unread(LIMIT)
    clients = [Reader(unread) for _ in range(12)]
    for client in clients:
        client.read(ALWAYS + 1)
    for client in clients:
        if not client.paused:
            client.read(1)
    assert [client.paused for client in clients] == [False] + 11 * [True]
    for number, client in enumerate(clients[:-3]):  # in the order of their beginnings
        client.read(ALWAYS, num_messages=1)
        assert not clients[number + 1].paused
    unread.discard(clients[0])  # its connection is lost
    for client in clients[1:]:
        client.handle()
    assert not any(client.paused for client in clients[1:]) and unread.num_bytes == 0
