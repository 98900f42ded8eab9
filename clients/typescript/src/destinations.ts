/** Destinations of calls that send data: the hosts that they name, as in the Python package. */

import { namesOf } from "./effects.js";
import {
  AT_HOST, BARE_HOST, KEEPING_TOOL, LOCAL_HOST, NO_DOMAINS, OWN_HOSTS, PUBLISHING, SENDING_COMMAND, SENDING_TOOL, URL_HOST,
  VIA_HOST, WORD_HOST,
} from "./redaction/tables.js";

const MOST_HOSTS = 32;
const ADDRESSES = [URL_HOST, AT_HOST].map((form) => new RegExp(form, "g"));
const VIA = new RegExp(VIA_HOST, "gi");
const PUBLISHES = new RegExp(PUBLISHING, "i");
const BEGINS_WITH_URL = new RegExp(`^(?:${URL_HOST})`);
const BARE = new RegExp(BARE_HOST, "g");
const WORD = new RegExp(WORD_HOST, "g");
const LOCAL = new RegExp(`^(?:${LOCAL_HOST})$`);
const SENDS = new RegExp(SENDING_TOOL);
const KEEPS = new RegExp(KEEPING_TOOL);
const SENDS_IN_COMMAND = new RegExp(SENDING_COMMAND, "i");
const FILES = new Set(NO_DOMAINS);
/** Default destinations of programs and tools that name no host. */
const OWN = Object.entries(OWN_HOSTS).map(
  ([program, host]) => [new RegExp(`(?<![a-z0-9])${program}(?![a-z0-9])`), host] as const,
);

/** Returns a call's destinations in lower case, empty if it names none; undefined: it sends nothing. */
export function destinationOf(action: string, args: Record<string, unknown>, text: string): Set<string> | undefined {
  const names = namesOf(action);
  const isTool = names.some((name) => SENDS.test(name));
  if (!isTool && names.some((name) => KEEPS.test(name))) return undefined;
  const isUrl = (value: unknown): boolean => typeof value === "string" && BEGINS_WITH_URL.test(value);
  if (!isTool && !SENDS_IN_COMMAND.test(text) && !Object.values(args).some(isUrl)) return undefined;
  const hosts = hostsIn(text);
  for (const found of [...text.matchAll(VIA)].slice(0, MOST_HOSTS)) hosts.add(found[1]!.toLowerCase());
  if (hosts.size === 0) addHosts(hosts, text.matchAll(BARE));
  else if (!isTool) addHosts(hosts, text.matchAll(WORD), MOST_HOSTS);
  return hosts.size ? hosts : new Set(ownHosts([text.toLowerCase(), ...names]));
}

/** Returns whether others can read it there, as in a gist: then it is no secret's own host. */
export function isPublished(action: string, text: string): boolean {
  return PUBLISHES.test(text) || namesOf(action).some((name) => PUBLISHES.test(name));
}

/** Returns the hosts of the addresses in a text. */
export function hostsIn(text: string): Set<string> {
  const hosts = new Set<string>();
  for (const form of ADDRESSES) {
    for (const found of text.matchAll(form)) {
      hosts.add(found[1]!.toLowerCase());
      if (hosts.size >= MOST_HOSTS) return hosts;
    }
  }
  return hosts;
}

/** Returns whether the host is this machine. */
export function isLocal(host: string): boolean {
  return LOCAL.test(host);
}

/** Returns whether a host is one of these domains, or a subdomain. */
export function isOf(host: string, domains: ReadonlySet<string>): boolean {
  for (const domain of domains) if (host === domain || host.endsWith(`.${domain}`)) return true;
  return false;
}

function addHosts(hosts: Set<string>, found: Iterable<RegExpExecArray>, most = Number.POSITIVE_INFINITY): void {
  let looked = 0;
  for (const [, host] of found) {
    if (looked++ >= most) return;
    if (!FILES.has(host!.slice(host!.lastIndexOf(".") + 1).toLowerCase())) hosts.add(host!.toLowerCase());
  }
}

function ownHosts(words: readonly string[]): string[] {
  return OWN.filter(([program]) => words.some((word) => program.test(word))).map(([, host]) => host);
}
