package dueline.interop;

import java.util.Map;

/** Prints what happens as JSON, one object a line, so that a test in another language can check it. */
final class Events {
    private Events() {
    }

    /** One line: the event's name, the time in milliseconds, then names and values in turn. */
    static synchronized void print(String event, Object... namesAndValues) {
        StringBuilder line = new StringBuilder("{\"event\":").append(quote(event));
        line.append(",\"at\":").append(System.currentTimeMillis());
        for (int i = 0; i < namesAndValues.length; i += 2) {
            line.append(',').append(quote((String) namesAndValues[i])).append(':');
            append(line, namesAndValues[i + 1]);
        }
        System.out.println(line.append('}'));
        System.out.flush();
    }

    private static void append(StringBuilder line, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            line.append(value);
        } else if (value instanceof Map) {
            String comma = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                line.append(comma).append(quote(String.valueOf(entry.getKey()))).append(':');
                append(line, entry.getValue());
                comma = ",";
            }
            line.append(comma.equals("{") ? "{}" : "}");
        } else {
            line.append(quote(value.toString()));
        }
    }

    private static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
