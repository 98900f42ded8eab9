// An agent in Go behind haltline, over HTTP: go run examples/http_agent.go http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// Guard asks haltline's intake before each call and each turn of the model. One guard is one session.
type Guard struct{ Intake, Token, SessionID, AgentID string }

var client = http.Client{Timeout: 20 * time.Minute} // longer than the intake waits for an operator's approval

// Verdict is what may be done, and what the model should read besides. Without Allowed there is none.
type Verdict struct {
	Allowed, Killed      *bool
	Code, Message, Hints string
	CallID               string `json:"call_id"`
	Change               struct {
		Put    map[string]any
		Remove []string
	} `json:"change_arguments"`
}

// Stopped ends the run: the session was killed or frozen, and only a person releases it.
type Stopped struct{ Code string }

func (s Stopped) Error() string { return "stopped: " + s.Code }

// Tool is a function of the agent's, with what it does to the world: read, write, network, exec, mutate, destructive.
type Tool struct {
	Name, Effect string
	Run          func(args map[string]any) (string, error)
}

// Turn asks whether the model may take its next turn. It returns Stopped when it may not.
func (g *Guard) Turn() error {
	if verdict, err := g.ask(map[string]any{"kind": "model.turn"}); err == nil && !*verdict.Allowed {
		return Stopped{verdict.Code}
	}
	return nil // without a verdict, calls are refused, but for those that read
}

// Call makes a call if haltline lets it pass, and returns what the model should read: the result with hints, the
// tool's error, or why the call was refused. It returns Stopped when the run has to end.
func (g *Guard) Call(tool Tool, args map[string]any) (string, error) {
	verdict, err := g.ask(map[string]any{"action": tool.Name, "args": args, "effect": tool.Effect})
	switch {
	case err != nil && tool.Effect != "read":
		return "nobody could be asked whether this may be done, and it could do harm.", nil
	case err == nil && *verdict.Killed:
		return "", Stopped{verdict.Code}
	case err == nil && !*verdict.Allowed:
		return join(verdict.Message, verdict.Hints), nil
	}
	for name, value := range verdict.Change.Put { // it is only allowed with these arguments
		args[name] = value
	}
	for _, name := range verdict.Change.Remove {
		delete(args, name)
	}
	output, failed := tool.Run(args)
	result := map[string]any{"call_id": verdict.CallID, "output": output}
	if failed != nil {
		output = "error: " + failed.Error()
		result["error"] = output
	}
	if verdict.CallID != "" {
		g.Post("/v1/result", result, new(any))
	}
	return join(output, verdict.Hints), nil
}

func (g *Guard) ask(about map[string]any) (Verdict, error) {
	var verdict Verdict
	if err := g.Post("/v1/verdict", about, &verdict); err != nil {
		return Verdict{}, err
	}
	if verdict.Allowed == nil || verdict.Killed == nil {
		return Verdict{}, fmt.Errorf("expected a verdict with allowed and killed, got none")
	}
	return verdict, nil
}

// Post sends a request about the session, and reads its answer into reply.
func (g *Guard) Post(path string, body map[string]any, reply any) (err error) {
	defer func() {
		if err != nil {
			log.Printf("%s: %v", path, err)
		}
	}()
	body["session_id"], body["agent_id"] = g.SessionID, g.AgentID
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPost, g.Intake+path, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if g.Token != "" {
		request.Header.Set("Authorization", "Bearer "+g.Token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("expected status 200, got %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(reply)
}

func join(text, hints string) string {
	return strings.TrimSpace(text + "\n\n" + hints)
}

func main() {
	guard := &Guard{os.Args[1], os.Getenv("HALTLINE_INTAKE_TOKEN"), fmt.Sprint("go-", time.Now().UnixNano()), "go-cleaner"}
	getAsset := Tool{"get_asset", "read", func(args map[string]any) (string, error) {
		fmt.Printf("read %v\n", args["asset_id"])
		return "3 rows", nil
	}}
	deleteAsset := Tool{"delete_asset", "destructive", func(args map[string]any) (string, error) {
		fmt.Printf("deleted %v\n", args["asset_id"])
		return fmt.Sprintf("%v still exists", args["asset_id"]), nil
	}}
	usage := map[string]any{"input_tokens": 900, "output_tokens": 40}
	for _, tool := range []Tool{getAsset, deleteAsset, deleteAsset, deleteAsset, deleteAsset, deleteAsset} {
		read, err := "", guard.Turn()
		if err == nil { // what the model asks for
			guard.Post("/v1/turn", map[string]any{"usage": usage, "output": "I call " + tool.Name}, new(any))
			read, err = guard.Call(tool, map[string]any{"asset_id": "fact_sales"})
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the model reads:", strings.ReplaceAll(read, "\n", " "))
	}
}
