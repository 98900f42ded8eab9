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

// Guard asks haltline's service before each call and each turn of the model. One guard is one session.
type Guard struct{ Service, Key, SessionID, AgentID, token string }

var client = http.Client{Timeout: 2 * time.Minute} // longer than wait_s below

// Answer is what the agent does with a call or a turn, and what the model should read besides. Without Answer there is none.
type Answer struct {
	Answer, Code, Message, Hints, Token string
	CallID                              string `json:"call_id"`
	WaitMS                              int    `json:"wait_ms"`
	Put                                 map[string]any
	Remove                              []string
}

// Stopped ends the run: the session was killed or is held, and only a person releases it.
type Stopped struct{ Code string }

func (s Stopped) Error() string { return "stopped: " + s.Code }

// Tool is a function of the agent's, with what it does to the world: read, write, network, exec, mutate, destructive.
type Tool struct {
	Name, Effect string
	Run          func(args map[string]any) (string, error)
}

// Turn asks whether the model may take its next turn. It returns Stopped when it may not.
func (g *Guard) Turn() error {
	if answer, _ := g.Ask("turn", map[string]any{"asks": true}); answer.Answer == "stop" || answer.Answer == "hold" {
		return Stopped{answer.Code}
	}
	return nil // without an answer, calls are refused, but for those that read
}

// Call makes a call if haltline lets it pass, and returns what the model should read: the result with hints, the
// tool's error, or why the call was refused. It returns Stopped when the run has to end.
func (g *Guard) Call(tool Tool, args map[string]any) (string, error) {
	id := fmt.Sprint("call-", time.Now().UnixNano()) // one call, however often it is proposed
	call := map[string]any{"call_id": id, "action": tool.Name, "args": args, "effect": tool.Effect, "wait_s": 60}
	answer, err := g.Ask("propose", call)
	for err == nil && (answer.Answer == "wait" || answer.Answer == "pending") { // slowed, or a person is asked
		time.Sleep(time.Duration(answer.WaitMS) * time.Millisecond)
		answer, err = g.Ask("propose", call)
	}
	switch answer.Answer {
	case "allow", "change", "reinforce":
	case "stop":
		return "", Stopped{answer.Code}
	case "":
		if tool.Effect != "read" {
			return "nobody could be asked whether this may be done, and it could do harm.", nil
		}
	default: // refuse, roll_back, hold
		return join(answer.Message, answer.Hints), nil
	}
	for name, value := range answer.Put { // it is only allowed with these arguments
		args[name] = value
	}
	for _, name := range answer.Remove {
		delete(args, name)
	}
	output, failed := tool.Run(args)
	end := map[string]any{"call_id": id, "output": output}
	if failed != nil {
		output = "error: " + failed.Error()
		end["error"] = output
	}
	if answer.Answer != "" {
		g.Ask("end", end)
	}
	return join(output, answer.Hints), nil
}

// Ask begins the session if need be, and sends a verb about it.
func (g *Guard) Ask(verb string, body map[string]any) (answer Answer, err error) {
	if g.token == "" && verb != "begin" {
		begun, _ := g.Ask("begin", map[string]any{"session_id": g.SessionID, "agent_id": g.AgentID})
		g.token = begun.Token
	}
	if verb != "begin" {
		body["token"] = g.token
	}
	encoded, _ := json.Marshal(body)
	request, err := http.NewRequest(http.MethodPost, g.Service+"/v2/"+verb, bytes.NewReader(encoded))
	if err != nil {
		return answer, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+g.Key)
	response, err := client.Do(request)
	if err == nil {
		defer response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			g.token = "" // the service was started anew: the next request begins again
		}
		if err = fmt.Errorf("expected status 200, got %s", response.Status); response.StatusCode == http.StatusOK {
			err = json.NewDecoder(response.Body).Decode(&answer)
		}
	}
	if err != nil {
		log.Printf("%s: %v", verb, err)
		return Answer{}, err
	}
	return answer, nil
}

func join(text, hints string) string {
	return strings.TrimSpace(text + "\n\n" + hints)
}

func main() {
	guard := &Guard{Service: os.Args[1], Key: os.Getenv("HALTLINE_INTAKE_TOKEN"), AgentID: "go-cleaner"}
	guard.SessionID = fmt.Sprint("go-", time.Now().UnixNano())
	getAsset := Tool{"get_asset", "read", func(args map[string]any) (string, error) {
		fmt.Printf("read %v\n", args["asset_id"])
		return "3 rows", nil
	}}
	deleteAsset := Tool{"delete_asset", "destructive", func(args map[string]any) (string, error) {
		fmt.Printf("deleted %v\n", args["asset_id"])
		return fmt.Sprintf("%v still exists", args["asset_id"]), nil
	}}
	usage := map[string]int{"input_tokens": 900, "output_tokens": 40}
	for _, tool := range []Tool{getAsset, deleteAsset, deleteAsset, deleteAsset, deleteAsset, deleteAsset} {
		read, err := "", guard.Turn()
		if err == nil { // what the model asks for
			guard.Ask("turn", map[string]any{"usage": usage, "output": "I call " + tool.Name})
			read, err = guard.Call(tool, map[string]any{"asset_id": "fact_sales"})
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("the model reads:", strings.ReplaceAll(read, "\n", " "))
	}
}
