from tests.clients import kafka_vectors, redaction_tables, vectors


def test_cases_and_tables_of_clients_in_other_languages_are_current() -> None:
    assert vectors.FILE.read_text(encoding="ascii") == vectors.written(), "python -m tests.clients.vectors"
    current = kafka_vectors.as_text()
    assert kafka_vectors.FILE.read_text(encoding="utf-8") == current, "run python -m tests.clients.kafka_vectors"
    assert redaction_tables.FILE.read_text(encoding="ascii") == redaction_tables.as_text(), (
        "python -m tests.clients.redaction_tables"
    )
    assert redaction_tables.VERBS.read_text(encoding="ascii") == redaction_tables.verbs_as_text()
