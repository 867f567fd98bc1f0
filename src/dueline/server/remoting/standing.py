"""What a user may do and sign with, remembered until users or rights change.

Consumers and producers ask for the same again and again: the same user, from the same address, for
rights on the same names. The rights and secrets that were found hold for as long as the table of
users is the same one (`Access.state`). A secret that ends at some time is looked up each time.

For the thread of one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dueline.broker.access import Access, Caller
from dueline.broker.access.secrets import Begun, begun, has_signed
from dueline.server.remoting.requirements import Needs

__all__ = ["Standing"]


class Standing:
    """One caller who needs the same rights each time."""

    __slots__ = (
        *("_access", "_begun", "_caller", "_has_ending_keys", "_keys", "_may", "_needs", "_state"),
    )

    def __init__(self, access: Access, caller: Caller, needs: Needs) -> None:
        self._access = access
        self._caller: Final = caller
        self._needs: Final = needs
        self._state: object = None
        self._may = False
        self._keys: Sequence[bytes] = ()
        self._begun: Sequence[Begun] = ()
        self._has_ending_keys = False

    def keys(self) -> Sequence[bytes]:
        """What a request may be signed with now; nothing: it is not allowed, or nobody's."""
        state = self._access.state
        if state is not self._state:
            self._renew(state)
        if self._has_ending_keys:
            return self._access.keys_of(self._caller.user or "") if self._may else ()
        return self._keys

    def _renew(self, state: object) -> None:
        access, name = self._access, self._caller.user or ""
        actions, resources = self._needs
        self._may = access.may(self._caller, actions, *resources)
        self._has_ending_keys = access.has_ending_secret(name)
        self._keys = access.keys_of(name) if self._may else ()
        self._begun = [begun(key) for key in self._keys]
        self._state = state  # last: whoever changes users meanwhile makes another state

    def admits(self, content: bytes, signature: bytes) -> bool:
        """Has the caller signed this, and may do it? A question: nothing is written of it.

        Args:
            signature: as it came, in base64.
        """
        if self._access.state is self._state and not self._has_ending_keys:
            return has_signed(self._begun, content, signature)
        return has_signed([begun(key) for key in self.keys()], content, signature)
