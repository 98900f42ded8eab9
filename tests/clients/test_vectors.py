from tests.clients.vectors import FILE, written


def test_the_cases_of_other_languages_are_current() -> None:
    assert FILE.read_text(encoding="ascii") == written(), "python -m tests.clients.vectors"
