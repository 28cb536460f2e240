"""The escapes of names are exact: whatever goes in comes out, and no two names become one."""

from hypothesis import given
from hypothesis import strategies as st

from samjobs.store.types import escape_exact, unescape_exact

# Also what files can be called and databases refuse: NUL (in addresses), lone surrogates (bytes that are no UTF-8).
ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from("\x00\\xu0dcf\ud800\udcff\udfff")))


@given(ANY_TEXT)
def test_every_name_comes_back(text: str) -> None:
    stored = escape_exact(text)
    assert unescape_exact(stored) == text
    assert "\x00" not in stored
    assert stored.encode("utf-8").decode("utf-8") == stored


@given(ANY_TEXT, ANY_TEXT)
def test_no_two_names_become_one(one: str, other: str) -> None:
    assert (escape_exact(one) == escape_exact(other)) == (one == other)
