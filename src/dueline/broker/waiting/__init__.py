"""What waits, as a table: filters over it, counts, pages, the road ahead, and jobs that change it.

filters      what a person or a program asks for; where.py reads it as text
conditions   the same as a tree, and who of many rows meets it
columns      what can be asked of rows, made when it is asked for
matching     counting and listing, in due order and in bounded steps
road         how many fall due when
story        one message: its states and times
changing     one portion of rows: cancel, deliver now, move, shift
rules        pause, release rate and expiry of topics; forecast: crowds that exceed them
jobs         long actions with progress, and their files
"""

from dueline.broker.waiting.filters import PendingFilter

__all__ = ["PendingFilter"]
