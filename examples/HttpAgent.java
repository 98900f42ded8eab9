// An agent in Java (17 or newer) behind haltline, over HTTP: java examples/HttpAgent.java http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.

import static java.util.stream.Collectors.joining;

import java.io.IOException;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.*;
import java.util.regex.*;

public class HttpAgent {
    public static void main(String[] arguments) throws InterruptedException {
        var guard = new Guard(arguments[0], "java-" + UUID.randomUUID(), "java-cleaner");
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
                var tool = turn == 0 ? getAsset : deleteAsset; // what the model asks for
                var usage = Map.of("input_tokens", 900, "output_tokens", 40);
                guard.post("/v1/turn", Map.of("usage", usage, "output", "I call " + tool.name()));
                var read = guard.call(tool, Map.of("asset_id", "fact_sales"));
                System.out.println("the model reads: " + read.replace("\n", " "));
            }
        } catch (Stopped stopped) {
            System.out.println(stopped.getMessage());
        }
    }
}

/** A function of the agent's, with what it does to the world: read, write, network, exec, mutate, destructive. */
record Tool(String name, String effect, java.util.function.Function<Map<String, Object>, String> run) {}

/** Ends the run: the session was killed or frozen, and only a person releases it. */
class Stopped extends RuntimeException {
    Stopped(Object code) {
        super("stopped: " + code);
    }
}

/** Asks haltline's intake before each call and each turn of the model. One guard is one session. */
record Guard(String intake, String sessionId, String agentId) {
    private static final String TOKEN = System.getenv("HALTLINE_INTAKE_TOKEN");
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    /** Asks whether the model may take its next turn. Throws Stopped when it may not. */
    void turn() throws InterruptedException {
        var verdict = ask(Map.of("kind", "model.turn")); // none: calls are refused then, but for those that read
        if (verdict.get("allowed") == Boolean.FALSE) throw new Stopped(verdict.get("code"));
    }

    /** Makes a call if it may be made. Returns what the model should read. Throws Stopped when the run has to end. */
    String call(Tool tool, Map<String, ?> proposed) throws InterruptedException {
        var args = new HashMap<String, Object>(proposed);
        var verdict = ask(Map.of("action", tool.name(), "args", args, "effect", tool.effect()));
        var hints = verdict.get("hints") == null ? "" : "\n\n" + verdict.get("hints");
        if (verdict.get("killed") == Boolean.TRUE) throw new Stopped(verdict.get("code"));
        if (verdict.get("allowed") == Boolean.FALSE) return verdict.get("message") + hints;
        if (verdict.isEmpty() && !tool.effect().equals("read")) {
            return "nobody could be asked whether this may be done, and it could do harm.";
        }
        if (verdict.get("change_arguments") instanceof Map<?, ?> change) { // it is only allowed with these arguments
            ((Map<?, ?>) change.get("put")).forEach((name, value) -> args.put((String) name, value));
            ((List<?>) change.get("remove")).forEach(args::remove);
        }
        var result = new HashMap<String, Object>();
        try {
            result.put("output", tool.run().apply(args));
        } catch (RuntimeException failed) {
            result.put("error", "error: " + failed.getMessage());
        }
        var read = result.values().iterator().next() + hints;
        result.put("call_id", verdict.get("call_id"));
        if (!verdict.isEmpty()) post("/v1/result", result);
        return read;
    }

    /** Returns the verdict; empty: there is none. */
    private Map<?, ?> ask(Map<String, ?> about) throws InterruptedException {
        var reply = Json.read(post("/v1/verdict", about));
        return reply.get("allowed") instanceof Boolean && reply.get("killed") instanceof Boolean ? reply : Map.of();
    }

    String post(String path, Map<String, ?> about) throws InterruptedException {
        var body = new HashMap<String, Object>(about);
        body.putAll(Map.of("session_id", sessionId, "agent_id", agentId));
        var request = HttpRequest.newBuilder(URI.create(intake + path)).header("Content-Type", "application/json")
            .timeout(Duration.ofMinutes(20)) // longer than the intake waits for an operator's approval
            .POST(HttpRequest.BodyPublishers.ofString(Json.write(body)));
        if (TOKEN != null) request.header("Authorization", "Bearer " + TOKEN);
        try {
            var response = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() / 100 == 2) return response.body();
            System.err.println(path + ": expected status 200, got " + response.statusCode() + ": " + response.body());
        } catch (IOException away) {
            System.err.println(path + ": " + away);
        }
        return "";
    }
}

/** As much of JSON as is needed; any library does as well. */
record Json(Iterator<String> tokens) {
    static String write(Object value) {
        if (value instanceof Map<?, ?> map) return map.entrySet().stream()
            .map(one -> write(one.getKey()) + ":" + write(one.getValue())).collect(joining(",", "{", "}"));
        if (value instanceof List<?> list) return list.stream().map(Json::write).toList().toString();
        if (!(value instanceof String text)) return String.valueOf(value);
        var escaped = Pattern.compile("[\\x00-\\x1f\"\\\\]").matcher(text);
        return '"' + escaped.replaceAll(one -> "\\\\u%04x".formatted((int) one.group().charAt(0))) + '"';
    }

    /** Returns an object; empty: it is none. */
    static Map<?, ?> read(String text) {
        try {
            var token = Pattern.compile("\"(?:[^\"\\\\]++|\\\\.)*+\"|[\\[\\]{},:]|[^\\s\\[\\]{},:\"]++");
            var json = new Json(token.matcher(text).results().map(MatchResult::group).iterator());
            return (Map<?, ?>) json.value(json.tokens.next());
        } catch (RuntimeException wrong) {
            return Map.of();
        }
    }

    private Object value(String token) {
        if (token.startsWith("\"")) {
            var inner = Pattern.compile("\\\\u(\\p{XDigit}{4})|\\\\.").matcher(token.substring(1, token.length() - 1));
            return inner.replaceAll(one -> Matcher.quoteReplacement(one.group(1) == null
                ? one.group().translateEscapes() : Character.toString(Integer.parseInt(one.group(1), 16))));
        }
        if (token.equals("null")) return null;
        if (token.equals("true") || token.equals("false")) return Boolean.valueOf(token);
        if (!token.equals("{") && !token.equals("[")) return new java.math.BigDecimal(token);
        var list = new ArrayList<>();
        for (var next = tokens.next(); !"}]".contains(next); next = tokens.next()) {
            if (!",:".contains(next)) list.add(value(next));
        }
        if (token.equals("[")) return list;
        var map = new HashMap<>();
        for (var at = 0; at < list.size(); at += 2) map.put(list.get(at), list.get(at + 1));
        return map;
    }
}
