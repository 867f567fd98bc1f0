package dueline.interop;

import java.util.HashMap;
import java.util.Map;

/** Arguments of the form {@code --name value}. */
final class Options {
    private final Map<String, String> values = new HashMap<>();

    Options(String[] arguments, int start) {
        for (int i = start; i < arguments.length; i += 2) {
            if (!arguments[i].startsWith("--") || i + 1 == arguments.length) {
                throw new IllegalArgumentException("expected --name value, found " + arguments[i]);
            }
            values.put(arguments[i].substring(2), arguments[i + 1]);
        }
    }

    String text(String name) {
        String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("expected --" + name);
        }
        return value;
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return Integer.parseInt(values.getOrDefault(name, Integer.toString(otherwise)));
    }

    long longNumber(String name) {
        return Long.parseLong(text(name));
    }

    boolean has(String name) {
        return values.containsKey(name);
    }
}
