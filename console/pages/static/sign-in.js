const query = new URLSearchParams(location.search);
const WHY = {
  key: "This key is not known. Check that it was copied completely, or ask the administrator of this console.",
  role: "This is the key of an agent, which cannot sign in. Use the key of a viewer, an operator or an admin.",
  provider: "The identity provider did not answer as expected. Try again, or sign in with a key.",
  person: "You have no role in this console. Ask its administrator for one.",
  over: "Your session has ended. Sign in again.",
  link: "This link was already used, or is older than ten minutes. Sign in with a key, or start the console again.",
};
document.getElementById("next").value = query.get("next") ?? "";
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token) {
  history.replaceState(null, "", location.pathname + location.search); // the browser's history does not keep the token
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
