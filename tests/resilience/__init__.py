"""The armour for calls: state machines against models, reports of others, and the units."""
