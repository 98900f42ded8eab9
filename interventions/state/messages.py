"""Hints to the model: one for each finding's code, else for its rule, else for the level."""

from collections.abc import Mapping
from typing import Final

from haltline.schemas.decisions import Level

HINTS: Final[Mapping[str, str]] = {
    "respawned": (
        "Earlier sessions of this agent were stopped. Do not resume their work; report what you were asked to do."
    ),
    **dict.fromkeys(
        ("spawn_depth", "spawn_rate", "spawn_storm", "spawn_near_limit"),
        "The agents of this session start too many others. Start no more now: wait for those that run, use what they "
        "found, and do small parts yourself.",
    ),
    "spawn_restarts": (
        "You start agents again for what others were started for and did not finish. Find out why they end, and change "
        "that first, or report it."
    ),
    "spawn_deaths": (
        "A rate limit or a quota ends your agents. Start no more now: wait, run fewer at a time, or report it."
    ),
    "spawn_same_words": (
        "Your agents start agents for the tasks that they were given. Tell them to do the work themselves, and wait."
    ),
    "target_destruction": (
        "Other sessions are also trying to delete {target}. Leave it alone, and ask who is responsible for it."
    ),
    "opaque_execution": (
        "It cannot be determined what this runs. Make it visible first: download or decode it into a file, read the "
        "file, then run it."
    ),
    "loop_suspected": (
        "You have already done this to {target} and are about to do it again. Check the result of the earlier attempt"
        " first; if it did not work, repeating it will not help. Report it instead."
    ),
    "evasion": (
        "This was refused for {target}. Another way to the same result is refused too: report what you wanted to do "
        "and why, and wait for permission."
    ),
    "goes_on_after_refusal": (
        "This was refused, and you keep trying. It will be refused each time: continue with something else, or report"
        " what you need and wait."
    ),
    "environment_gone": (
        "Your working environment seems to be gone: every call fails for the same reason. Stop calling and report it."
    ),
    "repetitive_errors": (
        "You keep getting the same error. Stop repeating the call: read the error, check that what you refer to "
        "exists and that you have access to it, then try another approach or report it."
    ),
    "service_down": (
        "A service that you call is down, or refuses calls for now. Do not retry at once: wait, and longer each time; "
        "continue with what does not need it, or report that it is not available."
    ),
    "unread_turns": (
        "Your output cannot be parsed as a call, so nothing is executed. Answer with exactly one call, in the "
        "required format, and nothing else that looks like a call."
    ),
    "monologue": (
        "You keep talking without acting. Take the next step with a tool, or finish with your result. If you cannot "
        "continue, say what is missing."
    ),
    "idle_talk": (
        "You keep talking without acting. If you wait for something that will come by itself, or if the work is done, "
        "report it once and end your turn."
    ),
    "empty_turns": "Your last turns had neither text nor a call. Take the next step, or say what is missing.",
    "chanting": "You repeat the same words within one message. Stop, and say in one sentence what you do next.",
    "scope_creep": (
        "You are working on files that are not part of your task. Return to what you were asked to do, or explain why"
        " these files are needed."
    ),
    "critical_path": (
        "{target} contains secrets or settings that others rely on. Leave it unchanged, unless the task asks for it."
    ),
    "budget_warning": "Your budget is nearly used up. Finish what matters most, and report what is left.",
    "spend_velocity": "You are spending faster than allowed. Make fewer and smaller calls.",
    "identical_calls": (
        "You have made the same call repeatedly, and its result was the same each time. It will be the same next "
        "time. Use what you know, change something first, or say what is missing."
    ),
    "repeated_calls": (
        "You have made the same call repeatedly, and its result was the same each time. Use what you know, change "
        "something first, or say what is missing."
    ),
    "same_act": (
        "You have done the same thing for others to see repeatedly. Each answer may look new, but what you do is done "
        "again each time. Check what exists already, and report it instead of doing it once more."
    ),
    "reworded_act": (
        "You write to the same recipient about the same thing again, in other words, and learned nothing new in "
        "between. Your earlier message was sent. Mark what is done as done, and go on with something else, or report "
        "it."
    ),
    "ordered_again": (
        "You have already clicked this button, which orders or pays, and are about to do it again. It probably worked. "
        "Look at the list of orders first, or ask your user."
    ),
    "started_again": (
        "You start the same machines or services again under the next number, and those of before still run and cost. "
        "List what runs, take down what is not needed, and ask your user before you start more."
    ),
    "idle_commands": (
        "Your command lines do nothing: they begin with `:` or `>`, so that no program is run. Write the command "
        "alone, with nothing before it."
    ),
    "nothing_works": (
        "Your last steps all failed. Stop trying one thing after another: read the errors, list what exists and works, "
        "and try the simplest step first, or report what is missing."
    ),
    "varying_answers": (
        "You have made the same call repeatedly, and only random parts of its result differ. Another call will tell "
        "you nothing more. Use what you know, or change what you ask."
    ),
    "same_edit": (
        "You have made the same edit repeatedly with different numbers. Stop trying values one by one: calculate the "
        "right one, try them all in one program, or report what is missing."
    ),
    "replay": (
        "You are repeating earlier steps one by one, with the same results. Use what you know, or say what is missing."
    ),
    "no_visible_effect": (
        "You have made the same call repeatedly, without any visible effect. Check whether it has an effect at all, "
        "and try another approach."
    ),
    "calls_in_turn": (
        "You repeat the same two calls in turn, and their results were the same each time. They will be the same next "
        "time. Use what you know, change something first, or say what is missing."
    ),
    "cycle": (
        "You are going round in circles: the same calls in turn, with the same results. Use what you know, "
        "or say what is missing."
    ),
    "polling": (
        "What you are waiting for does not change. Wait with one call, such as a longer sleep or a command that "
        "returns when it is done, continue with something else, or report it. Quick polls are delayed."
    ),
    "runaway_execution": (
        "Each step uses more resources and has less to do with the task. Stop, and report what is left to do."
    ),
    "confused_state": (
        "You refer to things that do not exist, and work on files that are not part of your task. Read the task "
        "again, and list what exists before the next step."
    ),
    "review_warn": "Is this step needed for the task, and can it be undone? If not, choose a smaller one.",
    "review_modify": (
        "Do this in another way: within the task's files, with no more permissions than needed, and so that it can be"
        " undone. First check the results of your last steps."
    ),
    "stagnation": (
        "Your last steps produced nothing new: they repeat earlier ones, or fail as before. Stop and say what you "
        "know, what you expected and why it did not happen; then try something else, or report what is missing."
    ),
    "goal_drift": "Your actions have less and less to do with the task. Read the task again and return to it.",
    "fruitless_search": (
        "You have searched for the same thing in many ways and found nothing. List what exists instead of guessing, "
        "or say that it is not there."
    ),
    "nothing_new": (
        "Your last lookups had nothing in them that you had not seen. Asking in other words, or for other parts, will "
        "not change that. Use what you know, open what you found, or say what is missing."
    ),
    "blind_guessing": (
        "You have tried one thing after another, and the answer was the same rejection each time. Stop guessing: find"
        " out what determines the right answer, or say that you do not know it."
    ),
    "refused_submissions": (
        "Your submission was rejected more than once. Do not submit another guess: work out the answer, check it "
        "yourself first, or say that you do not know it."
    ),
    "uniform_answers": (
        "You have asked in many different ways, and the answer was the same each time. It will be the same next time."
        " Find out what the answer depends on, or say what is missing."
    ),
    "hallucination": (
        "You refer to things that do not exist. List what exists before you use it, and do not guess names."
    ),
    "placeholder": (
        "The content of {target} is a placeholder that you wrote, not the data. Nothing can be learned from it: get "
        "the real data, or report that you do not have it."
    ),
    "analysed_own_text": (
        "You wrote {target} yourself, as text: analysing it shows only what you wrote. Get the real file, or report "
        "that you do not have it."
    ),
    "made_up_results": (
        "Nothing was measured for these results: they come from random numbers, or were written by hand, after what "
        "was to produce them failed. Do not report them as measured. Say what failed and what is missing."
    ),
    "only_sleeps": (
        "You sleep again and again, and never look at what you wait for. It may be done, or have ended. Look at it "
        "now; if you cannot, go on without it, or report it."
    ),
    "silent_shell": (
        "Your commands print nothing, though they must: the shell no longer answers. Do not rely on what they should "
        "have done. Start another shell, or report it."
    ),
    "fruitless_waits": (
        "You have waited several times for minutes for calls that returned nothing new. First find out why, with a "
        "quick call, or report it."
    ),
    "volume_rejected": (
        "A person has refused to let this session go on with acts that destroy. Do not try another one; report what is "
        "left to do."
    ),
    "resource_growth": (
        "Each step uses more than the one before. Work in smaller pieces, and leave out what you do not need."
    ),
}

BY_LEVEL: Final[Mapping[Level, str]] = {
    Level.NUDGE: "Stop for a moment: is what you are about to do still what you were asked for?",
    Level.REINFORCE: "Return to the task as it was given, within its limits.",
    Level.THROTTLE: "Your limits have been lowered. Work in smaller pieces.",
    Level.ROLLBACK: "The work goes back to an earlier state.",
}
