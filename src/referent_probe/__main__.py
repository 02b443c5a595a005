"""`python -m referent_probe` is `referent-probe`."""

from referent_probe.cli import main

main()
