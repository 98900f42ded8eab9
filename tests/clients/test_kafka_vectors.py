from tests.clients.kafka_vectors import FILE, as_text


def test_the_cases_of_the_typescript_client_over_kafka_are_current() -> None:
    expected = as_text()
    assert FILE.read_text(encoding="utf-8") == expected, "run python -m tests.clients.kafka_vectors"
