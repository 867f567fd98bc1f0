"""What operators' tools ask of a broker; the families are in the modules beside this one."""

from __future__ import annotations

from collections.abc import Mapping

from dueline.server.remoting.admin_broker import BrokerAdmin
from dueline.server.remoting.admin_groups import GroupAdmin
from dueline.server.remoting.admin_topics import TopicAdmin
from dueline.server.remoting.admin_users import UserAdmin
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub

__all__ = ["Admin"]


class Admin:
    """Handlers of the tools' requests."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._families = (
            TopicAdmin(context, hub),
            GroupAdmin(context, hub),
            BrokerAdmin(context, hub),
            UserAdmin(context, hub),
        )

    def table(self) -> Mapping[int, Handler]:
        return {code: handler for each in self._families for code, handler in each.table().items()}
