const query = new URLSearchParams(location.search);
const WHY = {
  key: "No key of this console. Look for blanks at its ends, or ask who runs it.",
  role: "This key may not look: it is an agent's. A viewer, an operator or an admin may sign in.",
  provider: "The identity provider did not answer as it should. Try again, or sign in with a key.",
  person: "The identity provider says who you are; you have no role in this console. Ask who runs it.",
  over: "The session is over. Sign in again.",
  link: "This link was used already, or is older than ten minutes. Sign in with a key, or start the console again.",
};
document.getElementById("next").value = query.get("next") ?? "";
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname + location.search); // the history does not keep it
  const field = Object.assign(document.createElement("input"), { type: "hidden", name: "token", value: token });
  const form = document.getElementById("next").form;
  form.append(field);
  form.submit();
}
const provider = document.getElementById("provider");
if (provider) provider.href += `?next=${encodeURIComponent(query.get("next") ?? "")}`;
const why = WHY[query.get("problem")];
if (why) {
  const problem = document.getElementById("problem");
  problem.textContent = why;
  problem.hidden = false;
}
