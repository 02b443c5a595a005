"""What a score is of: the token ids that were scored."""

import hashlib
from collections.abc import Sequence


def hash_of(ids: Sequence[int]) -> str:
    """sha256 of token ids, written as decimal numbers with spaces between.

    >>> hash_of([1, 2]) == hashlib.sha256(b"1 2").hexdigest()
    True
    """
    return hashlib.sha256(" ".join(map(str, ids)).encode()).hexdigest()
