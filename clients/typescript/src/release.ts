/** The release of this package, compared with that of the service. */

import { createRequire } from "node:module";

/** The version in package.json; `0.0.0` of a build from source. */
export const VERSION: string = (createRequire(import.meta.url)("haltline/package.json") as { version: string }).version;

/** The version of the messages; a service refuses another. */
export const PROTOCOL = 1;

/** Returns a problem with what to run, where it is that the service is of a release with other messages. */
export function withWhatToRun(status: number, problem: string): string {
  const theirs = /^protocol: expected (\d+)/.exec(problem)?.[1];
  const isOlder = (status === 404 && problem.includes("/v2/")) || (theirs !== undefined && Number(theirs) < PROTOCOL);
  if (isOlder) return `${problem}: it is older than this package; run: pip install --upgrade 'haltline[intake]'`;
  return theirs === undefined ? problem : `${problem}: it is newer than this package; run: npm install haltline@latest`;
}

/** Returns what to run if the service is of another release (its first two numbers); undefined: both fit, or one is not known. */
export function unlikeRelease(own: string, service: string): string | undefined {
  const [ours, theirs] = [own, service].map((one) => /^(\d+)\.(\d+)/.exec(one)?.slice(1).map(Number));
  if (ours === undefined || theirs === undefined || own === "0.0.0") return undefined;
  const [major = 0, minor = 0] = ours.map((one, at) => one - (theirs[at] ?? 0));
  const newer = major || minor;
  if (newer === 0) return undefined;
  const run = newer > 0 ? `pip install 'haltline[intake]==${ours.join(".")}.*'` : `npm install haltline@${theirs.join(".")}`;
  return `the service is of release ${service}, this package of ${own}; run: ${run}`;
}
