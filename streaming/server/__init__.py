"""A server for many streams, with protocols that existing clients speak. Needs the extra `server`."""
