"""The pre-production checklist: what is legal in a tree, and usually a mistake.

Floor: above specs and the armour. `examine` looks, `accept` says in the code that something is meant so. Nothing is started.
"""

from supervision.checklist.accepting import accept
from supervision.checklist.examining import Examination, examine
from supervision.checklist.finding import Finding, Rule, Severity
from supervision.checklist.rules import RULES

__all__ = ["RULES", "Examination", "Finding", "Rule", "Severity", "accept", "examine"]
