"""The web process: pages, an HTTP API, health and metrics; it asks a broker over Flight.

A process of its own, so that a heavy page never delays a message. It keeps nothing: what it shows
it has asked for, and what is done is done by the broker, with the rights of the user who asks.
"""
