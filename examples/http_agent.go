// An agent in Go behind haltline, over HTTP: go run examples/http_agent.go http://127.0.0.1:8765
// It deletes the same thing again and again; haltline stops it.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"
)

// Guard asks haltline's intake before each call and each turn of the model. One guard is one session.
type Guard struct {
	Intake, Token, SessionID, AgentID string
	Client                            http.Client
}

// Verdict is what may be done, and what the model should read besides.
type Verdict struct {
	Allowed, Killed     bool
	Code, Message, Hint string
	CallID              string
	Change              struct {
		Put    map[string]any
		Remove []string
	}
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
	verdict, err := g.ask(map[string]any{"kind": "model.turn"})
	if err != nil {
		log.Printf("no verdict on a turn: %v", err) // calls are refused then, but for those that read
		return nil
	}
	if !verdict.Allowed {
		return Stopped{verdict.Code}
	}
	return nil
}

// Used reports what a turn of the model used.
func (g *Guard) Used(inputTokens, outputTokens int, output string) {
	turn := map[string]any{
		"session_id": g.SessionID, "agent_id": g.AgentID, "output": output,
		"usage": map[string]any{"input_tokens": inputTokens, "output_tokens": outputTokens},
	}
	if err := g.post("/v1/turn", turn, nil); err != nil {
		log.Printf("a turn was not reported: %v", err)
	}
}

// Call makes a call if haltline lets it pass, and returns what the model should read: the result with hints, the
// tool's error, or why the call was refused. It returns Stopped when the run has to end.
func (g *Guard) Call(tool Tool, args map[string]any) (string, error) {
	if args == nil {
		args = map[string]any{}
	}
	verdict, err := g.ask(map[string]any{"action": tool.Name, "args": args, "effect": tool.Effect})
	if err != nil {
		log.Printf("no verdict on %s: %v", tool.Name, err)
		if tool.Effect != "read" {
			return "no_verdict: nobody could be asked whether this may be done, and it could do harm.", nil
		}
		verdict = Verdict{Allowed: true}
	}
	if verdict.Killed {
		return "", Stopped{verdict.Code}
	}
	if !verdict.Allowed {
		return join(verdict.Code+": "+verdict.Message, verdict.Hint), nil
	}
	for name, value := range verdict.Change.Put { // it is only allowed with these arguments
		args[name] = value
	}
	for _, name := range verdict.Change.Remove {
		delete(args, name)
	}
	output, failed := tool.Run(args)
	result := map[string]any{"session_id": g.SessionID, "call_id": verdict.CallID, "output": output}
	if failed != nil {
		output = "error: " + failed.Error()
		result["error"] = failed.Error()
	}
	if verdict.CallID != "" {
		if err := g.post("/v1/result", result, nil); err != nil {
			log.Printf("a result was not reported: %v", err)
		}
	}
	return join(output, verdict.Hint), nil
}

func (g *Guard) ask(about map[string]any) (Verdict, error) {
	about["session_id"], about["agent_id"] = g.SessionID, g.AgentID
	reply := struct {
		Allowed, Killed      *bool
		Code, Message, Hints string
		CallID               string `json:"call_id"`
		Change               struct {
			Put    map[string]any
			Remove []string
		} `json:"change_arguments"`
	}{}
	if err := g.post("/v1/verdict", about, &reply); err != nil {
		return Verdict{}, err
	}
	if reply.Allowed == nil || reply.Killed == nil {
		return Verdict{}, errors.New("expected a verdict with allowed and killed, got none")
	}
	return Verdict{*reply.Allowed, *reply.Killed, reply.Code, reply.Message, reply.Hints, reply.CallID, reply.Change}, nil
}

func (g *Guard) post(path string, body, reply any) error {
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
	response, err := g.Client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", response.Status, said)
	}
	if reply == nil {
		return nil
	}
	return json.Unmarshal(said, reply)
}

func join(text, hint string) string {
	return strings.TrimSpace(text + "\n\n" + hint)
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("expected the address of the intake, such as http://127.0.0.1:8765")
	}
	guard := &Guard{
		Intake: os.Args[1], Token: os.Getenv("HALTLINE_INTAKE_TOKEN"), AgentID: "go-cleaner",
		SessionID: fmt.Sprintf("go-%d-%d", os.Getpid(), time.Now().UnixNano()),
		Client:    http.Client{Timeout: 20 * time.Minute}, // longer than the intake waits for an operator's approval
	}
	getAsset := Tool{"get_asset", "read", func(args map[string]any) (string, error) {
		fmt.Printf("read %v\n", args["asset_id"])
		return "3 rows", nil
	}}
	deleteAsset := Tool{"delete_asset", "destructive", func(args map[string]any) (string, error) {
		fmt.Printf("deleted %v\n", args["asset_id"])
		return fmt.Sprintf("%v still exists", args["asset_id"]), nil
	}}
	for turn := 0; turn < 6; turn++ {
		if err := guard.Turn(); err != nil {
			fmt.Println(err)
			return
		}
		tool := deleteAsset // what the model asks for; here always the same, after it has looked once
		if turn == 0 {
			tool = getAsset
		}
		guard.Used(900, 40, "I call "+tool.Name)
		read, err := guard.Call(tool, map[string]any{"asset_id": "fact_sales"})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the model reads:", strings.ReplaceAll(read, "\n", " "))
	}
}
