# SPDX-License-Identifier: Apache-2.0
"""What kills may take, and what they took, in words. Who is stopped or cut off is replaced after its lease; that is not judged."""


def rounds_seen(managers):
    """Of how many rounds the times of managers are."""
    seen, rounds = managers["gaps_seen"], managers["rounds"]
    if seen < rounds:
        return f"{seen} of {rounds} rounds (in the other{'s' if rounds - seen > 1 else ''} the training ended before)"
    return f"{rounds} round{'s' if rounds > 1 else ''}"


def exceeded(flags, report):
    """What took longer than it may, a line each."""
    lines = []
    if kills := report.get("kill"):
        limits = (("median", "median_ms", "--median-ms", flags.median_ms), ("maximum", "max_ms", "--max-ms", flags.max_ms))
        over = f"{kills['rounds']} kill{'s' if kills['rounds'] > 1 else ''}{f' of {flags.replicas} servers at once' if flags.replicas > 1 else ''}"
        lines += [f"the {name} from a kill to the first push that was acknowledged is {kills[key]:.3f} ms, over {over}; "
                  f"the limit is {limit:.12g} ms ({flag})" for name, key, flag, limit in limits if limit is not None and kills[key] > limit]
    managers = report.get("managers")
    if managers and flags.lead_ms is not None and managers["gaps_seen"] > 0 and managers["gap_ms_max"] > flags.lead_ms:
        lines.append(f"the longest time from the kill of a leading manager until another one led, and answered, is {managers['gap_ms_max']:.3f} ms, "
                     f"over {rounds_seen(managers)}; the limit is {flags.lead_ms:.12g} ms (--lead-ms)")
    return lines


def not_judged(flags, report):
    """Limits for which no time was seen, a line each."""
    managers = report.get("managers")
    if not managers or flags.lead_ms is None or managers["gaps_seen"] > 0:
        return []
    return [f"no time from the kill of a leading manager until another one led was seen: {rounds_seen(managers)}; "
            f"the limit is {flags.lead_ms:.12g} ms (--lead-ms)"]


def summary(report):
    """The last line, if nothing was lost."""
    text = "nothing was lost, and nothing was done twice"
    if not (managers := report.get("managers")):
        return text
    if managers["gaps_seen"] == 0:
        return f"{text}; no time until another manager led was seen: {rounds_seen(managers)}"
    return f"{text}; another manager led, and answered, after {managers['gap_ms_max']:.0f} ms at most, over {rounds_seen(managers)}"
