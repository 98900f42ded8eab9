export { HttpProblem, httpSession, HttpTransport, session, type HttpOptions } from "./http.js";
export { APPROVAL_PENDING, NO_VERDICT, NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
export { localSession, type LocalOptions } from "./local.js";
export type { Redaction } from "./describe.js";
export type { Allowed, CallOptions, Denied, SessionOptions, Turn } from "./options.js";
export { redact, redactText } from "./redaction/secrets.js";
export { Session } from "./session.js";
export { argumentsOf, withHints } from "./texts.js";
export * from "./transport.js";
