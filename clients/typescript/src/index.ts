export { httpSession, localSession, type LocalOptions } from "./local.js";
export * from "./options.js";
export { APPROVAL_PENDING, NO_VERDICT, NOT_CHANGED, NOT_CHECKED, Refused } from "./refused.js";
export { HttpService, ServiceProblem, type Service, type ServiceOptions } from "./service.js";
export { Session } from "./session.js";
export { argumentsOf, withHints } from "./texts.js";
