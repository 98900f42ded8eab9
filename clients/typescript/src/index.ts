export { HttpProblem, httpSession, HttpTransport, session, type HttpOptions } from "./http.js";
export { NO_VERDICT, NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
export {
  argumentsOf,
  Session,
  withHints,
  type Allowed,
  type CallOptions,
  type Denied,
  type SessionOptions,
  type Turn,
} from "./session.js";
export * from "./transport.js";
