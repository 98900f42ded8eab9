/** What a tool does, as far as its name tells: only for what is done when nobody can be asked. */

import { EFFECTS, type Effect } from "./transport.js";

/** The effect of a tool by its name, raised by the hint; a name that tells nothing counts as `exec`. */
export function knownEffect(action: string, hint?: Effect): Effect {
  const known = /delete|drop|truncate|destroy|purge|wipe|erase/i.test(action) ? "destructive" : undefined;
  if (known === undefined) return hint ?? "exec";
  return hint !== undefined && EFFECTS.indexOf(hint) > EFFECTS.indexOf(known) ? hint : known;
}
