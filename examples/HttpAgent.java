// An agent in Java (17 or newer) behind haltline, over HTTP: java examples/HttpAgent.java http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.

import static java.util.stream.Collectors.joining;
import java.io.*;
import java.net.URI;
import java.net.http.*;
import java.time.Duration;
import java.util.*;
import java.util.regex.*;

public class HttpAgent {
    public static void main(String[] arguments) throws InterruptedException {
        var guard = new Guard();
        guard.service = arguments[0];
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
                guard.ask("turn", Map.of("usage", Map.of("input_tokens", 900, "output_tokens", 40), "output", "..."));
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

/** Ends the run: the session was killed or is held, and only a person releases it. */
class Stopped extends RuntimeException {
    Stopped(Object code) { super("stopped: " + code); }
}

/** Asks haltline's service before each call and each turn of the model. One guard is one session. */
class Guard {
    private static final String KEY = System.getenv("HALTLINE_INTAKE_TOKEN");
    private static final Map<String, String> NONE = Map.of("answer", "");
    private static final HttpClient CLIENT = HttpClient.newHttpClient();
    private final Map<String, String> begins = Map.of("session_id", "java-" + UUID.randomUUID(), "agent_id", "java-cleaner");
    private Object token;
    String service;

    /** Asks whether the model may take its next turn. Throws Stopped when it may not. */
    void turn() throws InterruptedException {
        var answer = ask("turn", Map.of("asks", true)); // none: calls are refused then, but for those that read
        if (List.of("stop", "hold").contains(answer.get("answer"))) throw new Stopped(answer.get("code"));
    }

    /** Makes a call if it may be made. Returns what the model should read. Throws Stopped when the run has to end. */
    String call(Tool tool, Map<String, ?> proposed) throws InterruptedException {
        var args = new HashMap<String, Object>(proposed);
        var id = UUID.randomUUID().toString();
        var call = Map.of("call_id", id, "action", tool.name(), "args", args, "effect", tool.effect(), "wait_s", 60);
        var answer = ask("propose", call);
        for (; List.of("wait", "pending").contains(answer.get("answer")); answer = ask("propose", call))
            Thread.sleep(answer.get("wait_ms") instanceof Number pause ? pause.longValue() : 0); // or a person is asked
        if (answer.get("answer").equals("stop")) throw new Stopped(answer.get("code"));
        var hints = answer.get("hints") == null ? "" : "\n\n" + answer.get("hints");
        var refused = "nobody could be asked whether this may be done, and it could do harm.";
        if (answer.equals(NONE) && !tool.effect().equals("read")) return refused;
        if (!List.of("", "allow", "change", "reinforce").contains(answer.get("answer"))) { // refuse, roll_back, hold
            return answer.get("message") + hints;
        }
        if (answer.get("put") instanceof Map<?, ?> put) put.forEach((name, value) -> args.put((String) name, value));
        if (answer.get("remove") instanceof List<?> remove) remove.forEach(args::remove);
        var end = new HashMap<String, Object>();
        try {
            end.put("output", tool.run().apply(args));
        } catch (RuntimeException failed) {
            end.put("error", "error: " + failed.getMessage());
        }
        var read = end.values().iterator().next() + hints;
        end.put("call_id", id);
        if (!answer.equals(NONE)) ask("end", end);
        return read;
    }

    /** Begins the session if need be, and sends a verb about it. Returns the answer; empty: there is none. */
    Map<?, ?> ask(String verb, Map<String, ?> about) throws InterruptedException {
        var body = new HashMap<String, Object>(about);
        if (token == null && !verb.equals("begin")) token = ask("begin", begins).get("token");
        if (!verb.equals("begin")) body.put("token", token);
        var request = HttpRequest.newBuilder(URI.create(service + "/v2/" + verb)).header("Content-Type", "application/json")
            .timeout(Duration.ofMinutes(2)).POST(HttpRequest.BodyPublishers.ofString(Json.write(body)));
        if (KEY != null) request.header("Authorization", "Bearer " + KEY);
        try {
            var response = CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
            var answer = Json.read(response.body());
            if (response.statusCode() == 200 && answer.get("answer") != null) return answer;
            if (response.statusCode() == 401) token = null; // the service was started anew
            System.err.println(verb + ": expected status 200, got " + response.statusCode() + ": " + response.body());
        } catch (IOException away) {
            System.err.println(verb + ": " + away);
        }
        return NONE;
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
