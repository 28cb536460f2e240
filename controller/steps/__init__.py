"""One file per step of the pass: gather, decide, apply; each returns what it did."""
