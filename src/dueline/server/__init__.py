"""The broker process: its threads and ports, and a door for each protocol."""
