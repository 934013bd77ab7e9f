"""Which reductions can be folded along with a maximum in one pass."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.schedule import steps
from compiler.schedule.online import NoOnlineForm, OnlineForm, is_shifted_alike, online_form
from compiler.schedule.refusals.registry import Refusal, Site, step_rule


@step_rule(steps.Online)
def online_sums_are_tensors_of_the_fusion(site: Site, step: steps.Online) -> Iterator[Refusal]:
    """Sums are named once each, and there is one at least."""
    names = ", ".join(site.sf.by_name)
    for i, name in enumerate(step.sums):
        if name not in site.sf.by_name or name in step.sums[:i]:
            yield Refusal(site.name, name, "a tensor, named once", f"The tensors are {names}.", f"{name} as a sum")
    if not step.sums:
        yield Refusal(site.name, "no sum", "a sum", "Name the sums to fold along.", "there is no sum to fold along")


@step_rule(steps.Online)
def online_sums_fold_exponentials_of_the_distance_to_the_maximum(site: Site, step: steps.Online) -> Iterator[Refusal]:
    """A sum is scaled to another maximum only where each term is exp(a (x - m)) times what does not depend on m: exp(a
    (x - c)) exp(a (c - m)) is that for any c (Milakov and Gimelshein, "Online normalizer calculation for softmax")."""
    for name in step.sums:
        found = online_form(site.sf, site.name, name)
        if isinstance(found, NoOnlineForm):
            yield Refusal(
                found.tensor,
                found.found,
                found.expected,
                f"Fold {name} in a pass of its own, after {site.name}.",
                f"{found.tensor} is {found.found}, expected {found.expected}",
            )


@step_rule(steps.Online)
def online_sums_share_one_running_maximum(site: Site, step: steps.Online) -> Iterator[Refusal]:
    """All subtract it in one type, and all keep it finite or none does."""
    found = (online_form(site.sf, site.name, name) for name in step.sums)
    forms = [form for form in found if isinstance(form, OnlineForm)]
    for form in forms[1:]:
        if not is_shifted_alike(site.sf, form, forms[0]):
            yield Refusal(
                form.shift,
                f"{site.sf.tensor(form.shift).dtype}, {form.running}",
                f"{site.sf.tensor(forms[0].shift).dtype}, {forms[0].running}",
                f"Fold {form.total} in a pass of its own.",
                f"{form.total} subtracts {site.name} in another way than {forms[0].total}",
            )


@step_rule(steps.Online)
def online_folds_are_not_scheduled_yet(site: Site, step: steps.Online) -> Iterator[Refusal]:
    """The sums get new tensors to read, which have no loops yet; so the step comes before the first loop is made."""
    forms = (online_form(site.sf, site.name, name) for name in step.sums)
    terms = [op.output for form in forms if isinstance(form, OnlineForm) for op in form.terms]
    for name in dict.fromkeys((site.name, *step.sums, *terms)):
        t = site.sf.tensor(name)
        if t.exprs or t.compute_at:
            yield Refusal(
                name, "scheduled", "not scheduled", "Begin the schedule with it.", f"{name} has loops already"
            )
    if f"{site.name}_running" in site.sf.by_name:
        fix = "Name all sums of a maximum in one step."
        yield Refusal(
            site.name, "folded online", "not folded online", fix, f"{site.name} has a running maximum already"
        )
