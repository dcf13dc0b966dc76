"""A server for many streams at once, over protocols that clients already speak. Needs the extra `server`."""
