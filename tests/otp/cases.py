"""The mapping from OTP's supervisor suite to this one, as data, and the page of the reference made from it.

`python -m tests.otp.cases` writes the page; a test asserts that it is up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

VERDICTS: Final = ("same", "different", "meaningless")
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "otp-conformance.md"


@attrs.frozen
class Case:
    """One case: what OTP does, what happens here, and the test that shows it."""

    number: str
    """As counted here: the suite's own cases have no numbers; those with an E are not in the suite."""
    name: str
    """The case of OTP's suite."""
    verdict: str
    otp: str
    here: str
    """What is different and why; empty if nothing is."""
    test: str
    """The name of the test; empty if the case has no meaning here."""


def parse(text: str) -> list[Case]:
    """One case a line, its fields separated by bars."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return [Case(*[field.strip() for field in line.split("|")]) for line in lines]


THEMES: Final = {
    "Start": """
1   | sup_start_normal | same | a supervisor without children starts and stops | | test_sup_start_normal
2   | sup_start_ignore_init | different | the configuration callback may answer ignore | a tree is a value, there is no callback; `enabled=False` says it | test_sup_start_ignore_init
3   | sup_start_ignore_child | same | a child may decline to start, its spec is kept | declining is to return before being ready | test_sup_start_ignore_child
4   | sup_start_ignore_temporary_child | different | a temporary child that declines is dropped from the list | what is declared stays visible, as stopped; `pool.remove` frees the name | test_sup_start_ignore_temporary_child
5   | sup_start_ignore_temporary_child_start_child | same | one that was added later is not kept | | test_sup_start_ignore_temporary_child_start_child
6   | sup_start_ignore_temporary_child_start_child_simple | same | nor is one of a dynamic supervisor | | test_sup_start_ignore_temporary_child_start_child_simple
7   | sup_start_ignore_permanent_child_start_child_simple | different | nothing is stored of a permanent dynamic child that declines | a permanent child's return asks for a restart; one that is not to run yet has `enabled=False` and is kept | test_sup_start_ignore_permanent_child_start_child_simple
8   | sup_start_error_return | same | garbage instead of a configuration is an error | `SpecError` | test_sup_start_error_return
9   | sup_start_fail | same | a first start that fails is an error with its cause | with `start="strict"`; without, it is a failed run like any other | test_sup_start_fail
10  | sup_start_restart_child_returns_error | same | a start by hand that fails is the caller's error, the spec stays | | test_sup_start_restart_child_returns_error
11  | sup_start_child_returns_error | same | adding a child that cannot start is the caller's error, nothing is kept | | test_sup_start_child_returns_error
12  | sup_start_child_returns_error_simple | same | also on a dynamic supervisor | | test_sup_start_child_returns_error
13  | sup_start_map | different | defaults: permanent, 5 s to stop, supervisors without limit | transient, 15 s; a supervisor needs no time of its own, the tree has one | test_sup_start_map
14  | sup_start_map_simple | different | the template can be read back through any dynamic child | there is no template: every child has its own spec and is found by path | test_sup_start_map_simple
15  | sup_start_map_faulty_specs | different | each fault has its own error; unknown keys are ignored | an unknown option is an error too, which names the nearest one | test_sup_start_map_faulty_specs
49  | faulty_application_shutdown | same | a leaf that fails as the application starts surfaces with its error and stack | | test_faulty_application_shutdown
""",
    "Stop": """
16  | sup_stop_infinity | same | an unlimited time to stop is legal | | test_sup_stop_infinity
17  | sup_stop_timeout | different | a child that ignores the stop is killed | nothing can be killed: it is cancelled, reported with its stack, and waited for | test_sup_stop_timeout
18  | sup_stop_timeout_dynamic | different | the same with dynamic children | as above | test_sup_stop_timeout
19  | sup_stop_brutal_kill | different | a brutal kill gives no grace | `shutdown=0` cancels work in hand at once; clean-up that is shielded still runs | test_sup_stop_brutal_kill
20  | sup_stop_brutal_kill_dynamic | different | the same with ten dynamic children | as above | test_sup_stop_brutal_kill_dynamic
21  | sup_stop_race | same | children that end by themselves during a stop keep their reasons and stay down | | test_sup_stop_race
22  | sup_stop_non_shutdown_exit_dynamic | same | odd ends during a stop do not disturb it | | test_sup_stop_non_shutdown_exit_dynamic
69  | child_unlink | different | a child that detached itself cannot hang its supervisor | it cannot detach: its nursery owns it; one that swallows its cancellation is waited for and reported | test_child_unlink
""",
    "Administration": """
23  | extra_return | different | a start may return more than the process | adding gives the address; what a child has to say, it says when asked | test_extra_return
24  | child_adm | same | adding a running child: already started | `AlreadyPresent`, with its address | test_child_adm_already_started
25  | child_adm | different | verbs on unknown children and on a dead supervisor are errors | looking, and stopping what has stopped, go on after the end | test_child_adm_not_found, test_child_adm_dead_supervisor
26  | child_adm | same | terminate ends the run, keeps the spec, and may be repeated | `pool.stop` | test_child_adm_terminate
27  | child_adm | same | adding a stopped child: already present | | test_child_adm_already_present
28  | child_adm | same | restart_child only starts what is stopped | `pool.start` | test_child_adm_restart
29  | child_adm | same | delete only forgets what is stopped, and frees the name | `pool.remove` | test_child_adm_delete
30  | child_adm | meaningless | a static supervisor refuses to terminate by process | a child has one handle, its path |
31  | child_adm_simple | different | a dynamic supervisor starts empty with a spec count of one | of zero: there is no template to count | test_child_adm_simple_start_empty
32  | child_adm_simple | different | terminate by process forgets the child; a dead one is fine, a foreign one not found | by path; one that is forgotten is not found any more | test_child_adm_simple_terminate
33  | child_adm_simple | different | restart and delete are invalid on a dynamic supervisor | they follow the state, as everywhere: running is an error, gone is not found | test_child_adm_simple_restart_delete
34  | child_specs | same | each wrong field has its own error, wherever the spec is seen | where it is written | test_child_specs
35  | child_specs | same | a check accepts every legal combination, in a list | declaring is the check | test_child_specs_check
36  | child_specs | same | duplicate ids are refused | | test_child_specs_duplicate
37  | child_specs | different | a dynamic supervisor needs exactly one template | any spec may be added, each is checked | test_child_specs_simple
38  | child_specs_map | different | significant is refused where it means nothing; unknown keys are ignored | unknown options are errors | test_child_specs_map
39  | sup_flags | different | each wrong flag has its own error; unknown flags are ignored | unknown options are errors | test_sup_flags
""",
    "Restart types": """
40  | permanent_normal | same | restarted | | test_permanent_normal
41  | permanent_shutdown | different | restarted after a shutdown of its own | `ctx.stop()` is respected: it stays stopped until it is started by hand | test_permanent_shutdown
42  | permanent_abnormal | same | restarted | | test_permanent_abnormal
43  | transient_normal | same | not restarted, spec kept | | test_transient_normal
44  | transient_shutdown | same | not restarted, can be started by hand | | test_transient_shutdown
45  | transient_abnormal | same | restarted | | test_transient_abnormal
46  | temporary_normal | same | gone, may be added again | if it was added; one of the declaration stays listed (4) | test_temporary_normal
47  | temporary_shutdown | same | gone, may be added again | as above | test_temporary_shutdown
48  | temporary_abnormal | same | gone, may be added again | as above | test_temporary_abnormal
50  | temporary_bystander | same | stopped by a sibling's restart, it is not started again | | test_temporary_bystander
51  | multiple_restarts | same | crashes further apart than the period never exhaust it | | test_multiple_restarts
""",
    "Strategies and budgets": """
52  | one_for_one | same | only the crashed child is new | | test_one_for_one
53  | one_for_one | same | one crash too many ends the supervisor | and the error carries the last failures | test_one_for_one_budget
54  | one_for_one_escalation | same | failing restarts are retried until the budget is spent | with backoff in between, if the policy has one | test_one_for_one_escalation
55  | one_for_all | same | all are stopped, all are new | | test_one_for_all
56  | one_for_all | same | the restart of a group costs one | | test_one_for_all_budget
57  | one_for_all_escalation | same | a sibling that cannot start uses the budget up | | test_one_for_all_escalation
58  | one_for_all_other_child_fails_restart | same | if a later one fails to start, all are tried again | | test_one_for_all_other_child_fails_restart
59  | simple_one_for_one | same | only the crashed child is new | | test_simple_one_for_one
60  | simple_one_for_one | same | its budget | | test_simple_one_for_one_budget
61  | simple_one_for_one_extra | same | start arguments are there again at a restart | | test_simple_one_for_one_extra
62  | simple_one_for_one_escalation | same | a child that cannot start uses the budget up | | test_simple_one_for_one_escalation
63  | simple_one_for_one_shutdown | same | dynamic children stop together | | test_simple_one_for_one_shutdown
64  | simple_one_for_one_corruption | same | start arguments of temporary children are not retained | | test_simple_one_for_one_corruption
65  | rest_for_one | same | earlier ones are left alone, later ones are new | | test_rest_for_one
66  | rest_for_one | same | crashes of different children share the budget | | test_rest_for_one_budget
67  | rest_for_one_escalation | same | a later one that cannot start uses the budget up | | test_rest_for_one_escalation
68  | rest_for_one_other_child_fails_restart | same | the retry begins at the one that failed | | test_rest_for_one_other_child_fails_restart
""",
    "Trees and counts": """
70  | tree | same | counts by level | | test_tree
71  | tree | same | a leaf's crash changes that leaf alone | | test_tree_leaf
72  | tree | same | failures go up, and the parent restarts all below it | | test_tree_escalation
73  | tree | same | children added at run time are not restored | their addresses say that they are stopped | test_tree_added_children
74  | tree | different | a sibling that was stopped by hand is started by a restart of the group | it stays down until it is started by hand | test_tree_stopped_sibling
75  | count_children | same | dynamic workers are counted | | test_count_children
76  | count_children_supervisor | same | dynamic supervisors are counted | | test_count_children_supervisor
77  | count_restarting_children | same | one that waits for a retry is a worker and not active | | test_count_restarting_children
78  | get_callback_module | meaningless | the configuration module of a supervisor can be found | there is none |
79  | do_not_save_start_parameters_for_temporary_children | same | nothing is retained of temporary children | | test_do_not_save_start_parameters_for_temporary_children
80  | do_not_save_child_specs_for_temporary_children | same | a temporary child can be added again, others are present | if it was added; one of the declaration stays listed (4) | test_do_not_save_child_specs_for_temporary_children
81  | simple_one_for_one_scale_many_temporary_children | same | stopping ten times as many is not much dearer each | counted in work, not in seconds | test_simple_one_for_one_scale_many_temporary_children
82  | simple_global_supervisor | same | a name leads to the new run, whatever restarted it | names are of the tree, not of a cluster | test_simple_global_supervisor
""",
    "Retry loop": """
83  | hanging_restart_loop | same | a retrying child is present and restarting; stopping it ends the loop | | test_hanging_restart_loop
84  | hanging_restart_loop | same | the supervisor can be stopped meanwhile | | test_hanging_restart_loop_stop_supervisor
85  | hanging_restart_loop_rest_for_one | different | stopping the retrying child leaves the later ones stopped | they come back without it, as they go on without one that is stopped while it runs | test_hanging_restart_loop_rest_for_one
86  | hanging_restart_loop_simple | same | the loop of a dynamic child | | test_hanging_restart_loop_simple
""",
    "Live reconfiguration": """
87  | code_change | different | flags and specs can change; a faulty change is refused; new specs are not started | specs are frozen; replicas can be scaled, children added, disabled and enabled, and a faulty change is refused | test_code_change
88  | code_change_map | meaningless | the same with maps | no code is changed in a running tree |
89  | code_change_simple | meaningless | a template can change | there is no template |
90  | code_change_simple_map | meaningless | the same with maps | there is no template |
""",
    "Order, scale, reports": """
91  | order_of_children | same | start in list order, stop in reverse | replicas of one worker start and stop together | test_order_of_children
92  | scale_start_stop_many_children | same | start and stop are linear in the number of children | counted in work, not in seconds | test_scale_start_stop_many_children
93  | format_log_1 | same | reports carry supervisor, context, reason and offender | | test_format_log_1
94  | format_log_2 | different | depth and length limits, a single-line form, groups as counts | every report is one line, and plain values for JSON; stopped children are listed by name | test_format_log_2
""",
    "Significant children": """
95  | nonsignificant_temporary | same | never shuts the supervisor down | a kill is an end by the watchdog | test_nonsignificant_temporary
96  | nonsignificant_transient | same | never shuts the supervisor down, failures restart it | | test_nonsignificant_transient
97  | significant_temporary | same | a stop by hand does not count | | test_significant_temporary_any_by_hand
98  | significant_temporary | same | a kill counts | an end by the watchdog | test_significant_temporary_any_kill
99  | significant_temporary | same | a crash counts | | test_significant_temporary_any_abnormal
100 | significant_temporary | same | a normal end counts | | test_significant_temporary_any_normal
101 | significant_temporary | same | all: the last one counts | | test_significant_temporary_all
102 | significant_transient | same | any: only a normal end counts | | test_significant_transient_any
103 | significant_transient | same | all: the last one counts | | test_significant_transient_all
104 | significant_simple | same | any and all on a dynamic supervisor | | test_significant_simple
105 | significant_bystander | same | being stopped for a sibling's sake does not count | but see E14 | test_significant_bystander
106 | significant_escalation | same | significance goes up level by level | | test_significant_escalation
107 | significant_upgrade_any and five more | meaningless | a live change of the mode applies to running children | specs are frozen |
108 | significant_upgrade_child | different | a live change of significance is refused where it means nothing | specs are frozen; adding such a child is refused | test_significant_upgrade_child
""",
    "Not in the suite": """
E1  | a restart that declines, dynamic | different | a phantom is stored and counted, and the supervisor crashes as it stops | the child vanishes, the stop is clean | test_e1_restart_that_ends_before_it_is_ready
E4  | finished or stopped siblings | different | a restart of the group revives them | they stay down: what ended well or was stopped by hand was meant | test_e4_siblings_that_are_down_stay_down
E5  | simultaneous crashes | same | one restart under one_for_all, two under one_for_one | by design, not by the order of messages | test_e5_simultaneous_crashes
E7  | the edge of the window | different | whole seconds: the window is up to a second longer | seconds with fractions; a restart exactly one period ago still counts | test_e7_window_edge
E14 | the last significant child swept away | different | all_significant never fires | it fires when the restart of the group is complete | test_e14_last_significant_child_swept_away
E17 | a transient supervisor over its budget | different | looks like a normal end and is not restarted | is a failure with its evidence, and is restarted | test_e17_transient_supervisor_over_budget
E22 | requests while a child starts or stops | different | wait until it has | are answered at once | test_e22_responsive_while_a_child_stops, test_e22_responsive_while_a_child_starts
""",
}

CASES: Final = [case for text in THEMES.values() for case in parse(text)]


def shown_by(case: Case) -> list[str]:
    """The names of the tests of a case."""
    return [name.strip() for name in case.test.split(",") if name.strip()]


def counts() -> dict[str, int]:
    """How many cases of OTP's own suite have which verdict."""
    own = [case for case in CASES if case.number.isdigit()]
    return {verdict: sum(case.verdict == verdict for case in own) for verdict in VERDICTS}


HEAD: Final = """\
# Conformance with OTP

Erlang's supervisors have been in use for decades, and their test suite says exactly what they do. This page goes through it,
case by case: what OTP 25 does, what happens here, and which test in `tests/otp` shows it.

Of the {total} cases, {same} behave the same here, {different} differ on purpose, and {meaningless} have no meaning in this
library. Below them are {extra} cases that the suite lacks.

The differences that matter most:

* a restart of a group leaves children down that had finished or were stopped by hand;
* giving up carries its evidence, the last failures with their paths and runs;
* a supervisor stays responsive while one of its children starts or stops;
* a failing first start is a failed run like any other, unless `start="strict"`;
* nothing is ever killed: what does not stop is cancelled, reported with its stack, and waited for.

A *kill* in the table is the end of a run by its watchdog, the nearest that Trio has. *By hand* is a verb of the pool.
"""


def render() -> str:
    """The page."""
    total = sum(counts().values())
    lines = [HEAD.format(total=total, extra=len(CASES) - total, **counts())]
    for theme, text in THEMES.items():
        lines += [f"## {theme}", "", "| # | case | OTP | here | test |", "|---|---|---|---|---|"]
        for case in parse(text):
            here = f"{case.verdict}: {case.here}" if case.here else case.verdict
            shown = ", ".join(f"`{name}`" for name in shown_by(case)) or "-"
            name = f"`{case.name}`" if case.number.isdigit() else case.name
            lines.append(f"| {case.number} | {name} | {case.otp} | {here} | {shown} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")
