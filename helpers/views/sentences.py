"""The story in words: the timeline's alternative text and its title.

The text holds no times and no numbers of the machine, so that two runs of one experiment read the same.
"""

from collections import Counter
from itertools import groupby

import pandas as pd

from helpers.views.reading import read_story
from helpers.views.story import Fact, Story, is_worker
from helpers.views.words import LABELS, POINTS, REASONS, SENTENCES, TITLES

MANY_FACTS = 30  # beyond this a story is no longer read: counts say more
OPENINGS = ("claimed", "claimed_too", "taken_over", "taken_over_early", "restarted")  # begin a new sentence
LONGEST_NAME = 20  # as long as a worker's may be; some database tools give themselves far longer ones
ENDINGS = ("was_processing", "stayed_pending", "pending_again", "still_working", "nobody_works")


def describe(ledger: pd.DataFrame, tasks: list[int] | None = None, until: float | None = None) -> str:
    """What the ledger tells, in the order of its rows: all tasks or `tasks`, up to `until` seconds."""
    return story_text(read_story(ledger, tasks, until), tasks)


def story_text(story: Story, tasks: list[int] | None = None) -> str:
    if not story.lanes and not story.facts:
        if tasks is None:
            return SENTENCES["empty"]
        return SENTENCES["empty_for_tasks"].format(tasks=names(tasks))
    if len([fact for fact in story.facts if fact.kind not in ENDINGS]) > MANY_FACTS:
        return summary(story)
    sentences: list[str] = []
    group: list[list[Fact]] = []  # the sentence that is being built: facts that share a predicate lie together
    before: Fact | None = None
    for _, same in groupby(story.facts, key=lambda f: (f.kind, f.actor, f.attempt, f.stale, f.detail)):
        facts = unique(list(same))
        fact = facts[0]
        alone = fact.kind == "lease_ended" or fact.kind in ENDINGS
        if group and (
            alone or fact.actor != group[0][0].actor or fact.kind in OPENINGS or fact.stale != group[0][0].stale
        ):
            sentences.append(sentence(group))
            group = []
        if alone:
            sentences.append(about_tasks(facts, before))
        else:
            group.append(facts)
        before = facts[-1]
    if group:
        sentences.append(sentence(group))
    return SENTENCES["space"].join(sentences)


def unique(facts: list[Fact]) -> list[Fact]:
    return list(dict.fromkeys(facts))


def about_tasks(facts: list[Fact], before: Fact | None) -> str:
    """A sentence whose subject is a task or a lease."""
    fact = facts[0]
    tasks = names([f.task for f in facts])
    kind = fact.kind
    if kind == "lease_ended":
        if before and len(facts) == 1 and (before.actor, before.task) == (fact.actor, fact.task):
            kind = "lease_ended.its"
        elif fact.attempt is None:
            kind = "lease_ended.no_attempt"
    elif f"{kind}.one" in SENTENCES:
        kind += ".one" if len(facts) == 1 else ".many"
    return SENTENCES[kind].format(tasks=tasks, attempt=fact.attempt)


def sentence(group: list[list[Fact]]) -> str:
    """One sentence about one actor: "Worker B took #42 over as attempt 2, finished the work and completed it."."""
    first = group[0][0]
    who = who_is(first.actor)
    if first.stale and first.attempt is not None:
        who = SENTENCES["still_on_attempt"].format(who=who, attempt=first.attempt)
    predicates: list[str] = []
    tail = ""
    mentioned: list[int | None] = []
    for facts in group:
        tasks = [fact.task for fact in facts]
        fact = facts[0]
        is_it = tasks == mentioned or (fact.kind == "effect" and fact.stale and not mentioned)
        if is_it and f"{fact.kind}.tail" in SENTENCES and predicates:
            tail += filled(f"{fact.kind}.tail", fact, tasks)
            continue
        variant = ".it" if is_it and f"{fact.kind}.it" in SENTENCES else ""
        if fact.attempt is None and f"{fact.kind}.no_attempt" in SENTENCES:
            variant = ".no_attempt"
        predicates.append(filled(fact.kind + variant, fact, tasks))
        mentioned = tasks if fact.task is not None else mentioned
    return SENTENCES["sentence"].format(who=who, predicates=joined(predicates) + tail)


def filled(template: str, fact: Fact, tasks: list[int | None]) -> str:
    reason, _, number = fact.detail.partition(" ")
    return SENTENCES[template].format(
        tasks=names(tasks),
        attempt=fact.attempt,
        status=fact.detail,
        point=point(fact.detail),
        reason=REASONS.get(reason, REASONS["unknown"]).format(task=fact.task, attempt=number),
    )


def point(detail: str) -> str:
    """ " after the claim", for a crash point named after-claim or after_claim."""
    name = detail.strip().replace("_", "-").replace(" ", "-")
    return POINTS.get(name, POINTS["other"]).format(point=detail) if name else POINTS["none"]


def summary(story: Story) -> str:
    lanes = [lane for lane in story.lanes if lane.actor]
    workers = sorted({lane.actor for lane in lanes if lane.actor})
    marks = Counter(mark.kind for lane in lanes for mark in lane.marks)
    troubles = [
        SENTENCES["summary.mark"].format(mark=LABELS[kind], count=marks[kind])
        for kind in TITLES
        if marks[kind] and kind in LABELS and "{" not in LABELS[kind]
    ]
    text = SENTENCES["summary"].format(
        tasks=len({lane.task for lane in story.lanes}),
        statuses=counts(story),
        attempts=len(lanes),
        workers=joined([in_sentence(who_is(worker)) for worker in workers]),
    )
    if troubles:
        text += SENTENCES["space"] + SENTENCES["summary.marks"].format(marks=SENTENCES["comma"].join(troubles))
    return text


def title(story: Story) -> str:
    """What is seen, in one line: the turning points of a single task, counts for several."""
    acted_on = sorted({lane.task for lane in story.lanes if lane.actor})
    told = [fact for fact in story.facts if fact.kind in TITLES and fact.task is not None]
    turns = [fact for fact in told if fact.kind not in ("claimed", "lease_ended")]
    if not [fact for fact in turns if fact.kind not in ("crashed", "killed", "ended", "frozen")]:
        turns = [fact for fact in told if fact.kind != "claimed"] or told  # no takeover yet: the lease is the news
    attempts = len([lane for lane in story.lanes if lane.actor])
    if len(acted_on) == 1 and len(turns) > 4 and acted_on[0] in story.statuses:
        return TITLES["one"].format(task=acted_on[0], status=story.statuses[acted_on[0]], attempts=attempts)
    if len(acted_on) != 1 or not 1 <= len(turns) <= 4:
        return TITLES["counts"].format(
            tasks=len({lane.task for lane in story.lanes}),
            statuses=counts(story),
            attempts=attempts,
        )
    parts = []
    for (impersonal, actor), same in groupby(turns, key=lambda fact: (fact.kind == "lease_ended", fact.actor)):
        predicates = joined([TITLES[fact.kind] for fact in same])
        who = in_sentence(who_is(actor))
        parts.append(predicates if impersonal else TITLES["part"].format(who=who, predicates=predicates))
    return TITLES["story"].format(task=acted_on[0], parts=SENTENCES["comma"].join(parts))


def counts(story: Story) -> str:
    found = Counter(story.statuses.values())
    return SENTENCES["comma"].join(
        SENTENCES["summary.count"].format(status=status, count=count) for status, count in sorted(found.items())
    )


def who_is(actor: str) -> str:
    kind = "worker" if is_worker(actor) else "somebody" if actor else "somebody.unnamed"
    return SENTENCES[kind].format(name=short_name(actor))


def in_sentence(who: str) -> str:
    return who[:1].lower() + who[1:]


def short_name(actor: str) -> str:
    """ "A" for the worker with the application name "worker:A"; other names as they are, the longest ones cut."""
    name = actor.removeprefix("worker:") or LABELS["unnamed"]
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + LABELS["cut"]


def names(tasks: list[int | None] | list[int]) -> str:
    return joined([f"#{task}" for task in tasks])


def joined(parts: list[str]) -> str:
    """ "a, b and c"."""
    if len(parts) < 2:
        return "".join(parts)
    return SENTENCES["comma"].join(parts[:-1]) + SENTENCES["and"] + parts[-1]
