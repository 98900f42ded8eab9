"""What is chosen for the programs that follow is read as if their command lines named it."""

import pytest

from haltline.detectors.commands.rows import examples_of
from haltline.detectors.commands.shell import choices
from haltline.detectors.commands.shell.interpreter import exports, invocations


@pytest.mark.parametrize(("row", "is_read", "line"), examples_of("choices"))
def test_each_row_is_read_in_its_example_and_not_in_the_other(row: str, is_read: bool, line: str) -> None:
    option = row.split("|")[2].split(maxsplit=1)[0]
    last = invocations(line)[-1]
    assert any(word.startswith(f"{option}=") for word in last.argv) is is_read


@pytest.mark.parametrize("line", [line for _, is_read, line in examples_of("choices") if is_read])
def test_a_choice_of_an_earlier_call_is_read_before_the_next_one(line: str) -> None:
    first, _, last = line.rpartition(" && ")
    chosen = choices.kept({}, exports(first))
    read = invocations(f"{choices.as_line(chosen)}{last}")[-1].argv
    if first.startswith("export "):
        assert any(word.endswith("=unknown") for word in read), "most tools run the next call in a new process"
    else:
        assert read == invocations(line)[-1].argv


def test_an_export_counts_for_later_calls_where_it_says_production() -> None:
    assert choices.kept({}, exports("export AWS_PROFILE=acme-prod")) == {"AWS_PROFILE": "acme-prod"}
    assert choices.kept({}, exports("export AWS_PROFILE=dev")) == {"AWS_PROFILE": "unknown"}


def test_a_variable_that_is_unset_chooses_nothing_any_more() -> None:
    chosen = choices.kept({}, exports("export AWS_ENDPOINT_URL=http://localhost:4566"))
    assert choices.kept(chosen, exports("unset AWS_ENDPOINT_URL")) == {}


def test_users_in_addresses_are_not_kept() -> None:
    assert choices.kept({}, exports("export DATABASE_URL=postgres://u:secret@db.acme.com/prod")) == {
        "DATABASE_URL": "postgres://db.acme.com/prod"
    }


def test_variables_that_choose_nothing_are_not_kept() -> None:
    assert choices.kept({}, exports("export GREETING=hello")) == {}


@pytest.mark.parametrize(
    "line",
    [
        "kubectl config use-context acme || kubectl config use-context kind-dev",
        "if test -n $CI; then kubectl config use-context kind-dev; fi",
        '[ -n "$CI" ] && kubectl config use-context kind-dev',
        "dev() { kubectl config use-context kind-dev; }",
        "aws eks update-kubeconfig --region eu-west-1",
        "kind delete cluster --name dev",
    ],
)
def test_what_may_not_be_chosen_or_is_unknown_chooses_nothing_and_ends_the_choice_before(line: str) -> None:
    chosen = choices.kept({}, exports("kubectl config use-context minikube"))
    assert chosen == {"KUBE_CONTEXT": "minikube"}
    assert choices.kept(chosen, exports(line)) == {}


def test_production_counts_also_if_it_may_not_be_chosen() -> None:
    assert choices.kept({}, exports("kubectl config use-context prod || true")) == {"KUBE_CONTEXT": "prod"}


def test_a_choice_with_an_exit_if_it_fails_is_made() -> None:
    assert choices.kept({}, exports("kubectl config use-context dev || exit 1")) == {"KUBE_CONTEXT": "dev"}


def test_the_choices_of_another_tool_are_not_kept() -> None:
    assert choices.kept({"BY": "bash ", "KUBE_CONTEXT": "kind"}, ("BY=ssh web",)) == {"BY": "ssh web"}


def test_a_choice_in_the_current_folder_ends_when_the_session_goes_to_another() -> None:
    chosen = choices.kept({}, exports("terraform workspace select dev"))
    assert choices.kept(chosen, (f"{choices.MOVED}=",)) == {}
