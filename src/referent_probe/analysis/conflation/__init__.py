"""Does contextuality reflect referent conflation: the behavioural verdict, and the bridge from heads to dC."""
