"""HTTPS on loopback: who is let in, how long connections live, and what one request of HTTP becomes."""
