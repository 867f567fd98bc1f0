package dueline.interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Who the program is: {@code INTEROP_ACCESS_KEY} and {@code INTEROP_SECRET_KEY}, if they are set. */
final class Identity {
    private Identity() {
    }

    /** RocketMQ's own hook, which signs every request; null: requests are not signed. */
    static RPCHook hook() {
        String name = System.getenv("INTEROP_ACCESS_KEY");
        return name == null ? null
            : new AclClientRPCHook(new SessionCredentials(name, System.getenv("INTEROP_SECRET_KEY")));
    }
}
