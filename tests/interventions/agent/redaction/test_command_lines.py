"""Programs that are given a password in their command line, in a list of arguments, by a pipe or a document."""

import json

import pytest

from haltline.interventions.agent.redaction.command_lines import PROGRAMS
from haltline.interventions.agent.redaction.secrets import redact, redact_text

LINES = (
    "mysql -u root -p{} shop",
    "curl -sSu 'bob:{}' https://x",
    "curl -H 'Authorization: Basic {}' https://x",
    "echo {} | docker login -u bob --password-stdin",
    "docker login --password-stdin <<< {}",
    "PGPASSWORD={} psql -h db",
    "psql postgresql://bob:{}@db/x",
    "psql 'host=db password={}'",
    "mount -t cifs //h/s /mnt -o username=bob,password={}",
    "echo 'bob:{}' | chpasswd",
    "echo {} | sudo -S apt-get update",
    "sudo -S ls <<< {}",
    "echo {} | passwd --stdin bob",
    "chpasswd <<EOF\nbob:{}\nEOF",
    "ansible-playbook s.yml -e 'db_password={}'",
    "vault kv put secret/db pw={}",
    "terraform apply -var db_password={}",
    "npm set //registry.npmjs.org/:_authToken={}",
    "git push https://{}@github.com/a/b",
    "git -c http.extraheader='Authorization: Basic {}' fetch",
    "ftp -n host <<EOF\nuser bob {}\nput a\nEOF",
    "hg --config auth.x.password={} pull",
    "printf '%s' {} | kinit bob",
    'bash -c "mysql -uroot -p{} shop"',
    "ssh host 'mysql -uroot -p{} shop'",
    "sudo mysql \\\n  -uroot \\\n  -p{}",
    'expect -c \'expect "assword:"; send "{}\\r"\'',
    "cat > ~/.netrc <<EOF\nmachine example.org\n login bob\n password {}\nEOF",
    "echo 'db:5432:shop:bob:{}' > ~/.pgpass",
    "echo 'jdbc:oracle:thin:bob/{}@db:1521/x'",
    "dsn='bob:{}@tcp(db:3306)/shop'",
    "Server=db;User Id=sa;Pwd={};",
    "the password is {}",
    "CREATE USER bob IDENTIFIED BY '{}'",
    "curl -K - <<< 'user = \"bob:{}\"'",
    "lftp -e 'open -u bob,{} host'",
    "restic -r x --password-command 'echo {}' backup",
    "nc host 25 <<< 'AUTH PLAIN {}'",
    "net use Z: \\\\host\\share {} /user:bob",
)
SECRET = "hunter2Xq"


@pytest.mark.parametrize("line", LINES)
def test_a_password_in_a_command_line_is_found(line: str) -> None:
    text = line.replace("{}", SECRET)
    clean = redact_text(text)
    assert SECRET not in clean
    assert clean.count("[redacted:") == 1, clean
    assert redact_text(clean) == clean
    assert SECRET not in json.dumps(redact({"command": text}))
    assert SECRET not in redact_text(json.dumps({"command": text})), "the text of JSON"


def argument(value: str) -> str:
    """The secret where a value of the table of programs says that one stands."""
    option, _, separator = value.partition(" ")
    secret = SECRET if not separator else f"{separator}{SECRET}" if len(separator) > 1 else f"bob{separator}{SECRET}"
    if option.startswith("#*"):
        return f"NAME{option[2:]}{SECRET}"
    if option.startswith("#"):
        return "word " * (int(option.strip("#?")) - 1) + secret
    if option.endswith("*"):
        joint = "=" if len(option) > 3 and option[-2] != ":" else ""
        return f"{option[:-1]}{joint}{secret}"
    return f"{option} {secret}"


OF_THE_TABLE = [
    f"{program} {row.get('after', [''])[0].replace('*', 'x')} {argument(value)}"
    for row in PROGRAMS
    for program in row["programs"]
    for value in row["values"]
]


def test_of_every_program_of_the_table_every_value_is_found() -> None:
    assert [line for line in OF_THE_TABLE if SECRET in redact_text(line)] == []


@pytest.mark.parametrize(
    "items",
    [
        ["mysql", "-uroot", "-phunter2"],
        ["curl", "-u", "bob:hunter2", "https://x"],
        ["sudo", "mysql", "-phunter2"],
        ["/usr/bin/sshpass", "-p", "hunter2", "ssh", "x"],
        ["bash", "-c", "mysql -phunter2"],
    ],
    ids=" ".join,
)
def test_a_password_in_a_list_of_arguments_is_found(items: list[str]) -> None:
    clean = redact(items)
    assert len(clean) == len(items)
    assert "hunter2" not in str(clean)
    assert sum("[redacted:password]" in item for item in clean) == 1
