"""The digests are of canonical JSON, as the chain's description says: what a release wrote, each later one proves."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haltline.streams.audit.chain import LOST, Head, canonical, chained, record_digest

plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
rows = st.fixed_dictionaries(
    {
        "sink": plain, "topic": plain, "partition": st.integers(0, 99), "offset": st.integers(0, 2**63 - 1),
        "timestamp_ms": st.none() | st.integers(-(2**63), 2**63 - 1), "key": st.none() | plain,
        "key_bytes": st.none() | st.binary(max_size=4), "headers": st.none() | plain,
        "raw": st.none() | st.binary(max_size=9), "kind": st.sampled_from(["decision", LOST]), "summary": plain,
    }
)  # fmt: skip


@given(rows)
def test_a_record_s_digest_is_of_its_canonical_json(row: dict[str, object]) -> None:
    key, raw = row["key_bytes"], row["raw"]
    if key is None and row["key"] is not None:
        key = str(row["key"]).encode()
    result = {name: row[name] for name in ("sink", "topic", "partition", "offset", "timestamp_ms", "headers")}
    result["key"] = key.hex() if isinstance(key, bytes) else None
    result["value"] = sha256(raw).hexdigest() if isinstance(raw, bytes) else None
    if row["kind"] == LOST:
        result["lost"] = row["summary"]
    assert record_digest(row) == sha256(canonical(result)).hexdigest()


OF_FIRST_RELEASE = [
    (
        {"raw": b"{}", "key": "42", "headers": '[["a","b"]]', "kind": "decision"},
        "35e649c5786abf5480fbf751bc22350b3c48a25f07f209473e99dfbf94664d47",
        "268626a129ff2da214b870d6fca4e238175a47f07e9d06c2e72ff9b3428611b6",
    ),
    (
        {"kind": LOST, "summary": "lost: offsets 3 to 5"},
        "c2bdf31a218c8403df41f8bb77da83bc4775ad87b25591c42029887577ae6213",
        "7d275c98fe2c283ecb57c84d320acaa2999de6f1d6c7fd8caef8472f4aa21b71",
    ),
]


@pytest.mark.parametrize(("more", "digest", "hashed"), OF_FIRST_RELEASE, ids=["a record", "lost ones"])
def test_the_digests_are_those_of_the_first_release(more: dict[str, object], digest: str, hashed: str) -> None:
    row = {"sink": "audit", "topic": "haltline.actions", "partition": 2, "offset": 3, "timestamp_ms": 17, **more}
    head = chained(row, Head(2, "ab" * 32), until=5)
    assert (row["record_digest"], row["chain_hash"], head) == (digest, hashed, Head(5, hashed))
