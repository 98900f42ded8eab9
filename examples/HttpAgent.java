// An agent in Java (17 or newer) behind haltline, over HTTP: java examples/HttpAgent.java http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;

public class HttpAgent {
    public static void main(String[] arguments) throws InterruptedException {
        if (arguments.length != 1) {
            System.err.println("expected the address of the intake, such as http://127.0.0.1:8765");
            System.exit(2);
        }
        var session = "java-" + ProcessHandle.current().pid() + "-" + System.currentTimeMillis();
        var guard = new Guard(arguments[0], System.getenv("HALTLINE_INTAKE_TOKEN"), session, "java-cleaner");
        var getAsset = new Tool("get_asset", "read", args -> {
            System.out.println("read " + args.get("asset_id"));
            return "3 rows";
        });
        var deleteAsset = new Tool("delete_asset", "destructive", args -> {
            System.out.println("deleted " + args.get("asset_id"));
            return args.get("asset_id") + " still exists";
        });
        try {
            for (var turn = 0; turn < 6; turn++) {
                guard.turn();
                // What the model asks for; here always the same, after it has looked once.
                var tool = turn == 0 ? getAsset : deleteAsset;
                guard.used(900, 40, "I call " + tool.name());
                var read = guard.call(tool, Map.of("asset_id", "fact_sales"));
                System.out.println("the model reads: " + read.replace("\n", " "));
            }
        } catch (Stopped stopped) {
            System.out.println(stopped.getMessage());
        }
    }
}

/** A function of the agent's, with what it does to the world: read, write, network, exec, mutate, destructive. */
record Tool(String name, String effect, Function run) {
    interface Function {
        String of(Map<String, Object> args) throws Exception;
    }
}

/** Ends the run: the session was killed or frozen, and only a person releases it. */
class Stopped extends RuntimeException {
    Stopped(Object code) {
        super("stopped: " + code);
    }
}

/** Asks haltline's intake before each call and each turn of the model. One guard is one session. */
class Guard {
    private final HttpClient client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5)).build();
    private final String intake;
    private final String token;
    private final String sessionId;
    private final String agentId;

    Guard(String intake, String token, String sessionId, String agentId) {
        this.intake = intake;
        this.token = token;
        this.sessionId = sessionId;
        this.agentId = agentId;
    }

    /** Asks whether the model may take its next turn. Throws Stopped when it may not. */
    void turn() throws InterruptedException {
        try {
            var verdict = ask(Map.of("kind", "model.turn"));
            if (!Boolean.TRUE.equals(verdict.get("allowed"))) {
                throw new Stopped(verdict.get("code"));
            }
        } catch (IOException away) {
            System.err.println("no verdict on a turn: " + away); // calls are refused then, but for those that read
        }
    }

    /** Reports what a turn of the model used. */
    void used(long inputTokens, long outputTokens, String output) throws InterruptedException {
        var usage = Map.of("input_tokens", inputTokens, "output_tokens", outputTokens);
        report("/v1/turn", Map.of("session_id", sessionId, "agent_id", agentId, "output", output, "usage", usage));
    }

    /**
     * Makes a call if haltline lets it pass. Returns what the model should read: the result with hints, the tool's
     * error, or why the call was refused. Throws Stopped when the run has to end.
     */
    String call(Tool tool, Map<String, ?> proposed) throws InterruptedException {
        var args = new HashMap<String, Object>(proposed);
        Map<?, ?> verdict;
        try {
            verdict = ask(Map.of("action", tool.name(), "args", args, "effect", tool.effect()));
        } catch (IOException away) {
            System.err.println("no verdict on " + tool.name() + ": " + away);
            if (!tool.effect().equals("read")) {
                return "no_verdict: nobody could be asked whether this may be done, and it could do harm.";
            }
            verdict = Map.of("allowed", true, "killed", false);
        }
        if (Boolean.TRUE.equals(verdict.get("killed"))) {
            throw new Stopped(verdict.get("code"));
        }
        var hints = verdict.get("hints");
        if (!Boolean.TRUE.equals(verdict.get("allowed"))) {
            return join(verdict.get("code") + ": " + verdict.get("message"), hints);
        }
        if (verdict.get("change_arguments") instanceof Map<?, ?> change) { // it is only allowed with these arguments
            ((Map<?, ?>) change.get("put")).forEach((name, value) -> args.put((String) name, value));
            ((List<?>) change.get("remove")).forEach(args::remove);
        }
        var result = new HashMap<String, Object>();
        String read;
        try {
            read = tool.run().of(args);
            result.put("output", read);
        } catch (Exception failed) {
            read = "error: " + failed.getMessage();
            result.put("error", String.valueOf(failed.getMessage()));
        }
        if (verdict.get("call_id") instanceof String callId) {
            result.putAll(Map.of("session_id", sessionId, "call_id", callId));
            report("/v1/result", result);
        }
        return join(read, hints);
    }

    private Map<?, ?> ask(Map<String, ?> about) throws IOException, InterruptedException {
        var body = new HashMap<String, Object>(about);
        body.putAll(Map.of("session_id", sessionId, "agent_id", agentId));
        var reply = Json.read(post("/v1/verdict", body));
        if (reply instanceof Map<?, ?> verdict
            && verdict.get("allowed") instanceof Boolean && verdict.get("killed") instanceof Boolean) {
            return verdict;
        }
        throw new IOException("expected a verdict with allowed and killed, got another reply");
    }

    private void report(String path, Object body) throws InterruptedException {
        try {
            post(path, body);
        } catch (IOException away) {
            System.err.println("not reported: " + away);
        }
    }

    private String post(String path, Object body) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(intake + path))
            .timeout(Duration.ofMinutes(20)) // longer than the intake waits for an operator's approval
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(Json.write(body)));
        if (token != null) {
            request.header("Authorization", "Bearer " + token);
        }
        var response = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() / 100 != 2) {
            throw new IOException(response.statusCode() + ": " + response.body());
        }
        return response.body();
    }

    private static String join(String text, Object hints) {
        return hints == null ? text : text + "\n\n" + hints;
    }
}

/** As much of JSON as is needed: null, Boolean, Number, String, List and Map. Any library does as well. */
final class Json {
    private static final int MAX_DEPTH = 64;
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static String write(Object value) {
        if (value == null || value instanceof Boolean || value instanceof Number) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(one -> write(Objects.toString(one.getKey())) + ":" + write(one.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof List<?> list) {
            return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
        }
        var written = new StringBuilder("\"");
        for (var unit : value.toString().toCharArray()) {
            if (unit < ' ' || unit == '"' || unit == '\\' || unit > '~') {
                written.append(String.format("\\u%04x", (int) unit));
            } else {
                written.append(unit);
            }
        }
        return written.append('"').toString();
    }

    static Object read(String text) throws IOException {
        try {
            var json = new Json(text);
            var value = json.value(0);
            json.blanks();
            if (json.at == text.length()) {
                return value;
            }
            throw json.wrong();
        } catch (IndexOutOfBoundsException | NumberFormatException wrong) {
            throw new IOException("expected JSON, got " + text.length() + " characters of something else", wrong);
        }
    }

    private Object value(int depth) throws IOException {
        blanks();
        if (depth > MAX_DEPTH) {
            throw wrong();
        }
        switch (text.charAt(at)) {
            case '{': {
                var map = new LinkedHashMap<String, Object>();
                for (at++; !ends('}', map.isEmpty()); ) {
                    blanks();
                    var name = string();
                    blanks();
                    expect(":");
                    map.put(name, value(depth + 1));
                }
                return map;
            }
            case '[': {
                var list = new ArrayList<Object>();
                for (at++; !ends(']', list.isEmpty()); ) {
                    list.add(value(depth + 1));
                }
                return list;
            }
            case '"':
                return string();
            case 't':
                expect("true");
                return true;
            case 'f':
                expect("false");
                return false;
            case 'n':
                expect("null");
                return null;
            default: {
                var from = at;
                while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
                    at++;
                }
                var number = text.substring(from, at);
                return number.matches("-?\\d{1,18}") ? (Object) Long.valueOf(number) : Double.valueOf(number);
            }
        }
    }

    /** Whether a list or an object ends here; if not, steps over the comma before its next member. */
    private boolean ends(char end, boolean first) throws IOException {
        blanks();
        if (text.charAt(at) == end) {
            at++;
            return true;
        }
        if (!first) {
            expect(",");
        }
        return false;
    }

    private String string() throws IOException {
        expect("\"");
        var read = new StringBuilder();
        for (var unit = text.charAt(at++); unit != '"'; unit = text.charAt(at++)) {
            if (unit == '\\') {
                unit = text.charAt(at++);
                if (unit == 'u') {
                    unit = (char) Integer.parseInt(text.substring(at, at += 4), 16);
                } else {
                    var escaped = "bfnrt".indexOf(unit);
                    unit = escaped < 0 ? unit : "\b\f\n\r\t".charAt(escaped);
                }
            }
            read.append(unit);
        }
        return read.toString();
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private void expect(String token) throws IOException {
        if (!text.startsWith(token, at)) {
            throw wrong();
        }
        at += token.length();
    }

    private IOException wrong() {
        return new IOException("expected JSON, got something else at character " + at);
    }
}
