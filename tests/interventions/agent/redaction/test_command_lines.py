"""Programs that are given a password in their command line, in a list of arguments, by a pipe or a document."""

import json

import pytest

from haltline.interventions.agent.redaction.secrets import redact, redact_text

LINES = (
    "mysql -u root -p{} shop",
    "redis-cli -h cache -a {} ping",
    "redis-cli AUTH {}",
    "sshpass -p {} ssh root@host",
    "curl -u bob:{} https://example.org",
    "curl -sSu 'bob:{}' https://x",
    "curl -b session={} https://x",
    "docker login -u bob -p {} registry.example.org",
    "echo {} | docker login -u bob --password-stdin",
    "helm registry login -u bob -p {} r",
    "skopeo copy --dest-creds bob:{} a b",
    "echo {} | gh auth login --with-token",
    "gh secret set NAME --body {}",
    "psql postgresql://bob:{}@db/x",
    "psql 'host=db password={}'",
    "openssl enc -aes-256-cbc -pass pass:{} -in a",
    "smbclient //host/share -U bob%{}",
    "mount -t cifs //h/s /mnt -o username=bob,password={}",
    "sqlcmd -S db -U sa -P {} -Q 'select 1'",
    "sqlplus bob/{}@db",
    "rabbitmqctl add_user bob {}",
    "htpasswd -bc .htpasswd bob {}",
    "htpasswd -nb bob {}",
    "echo 'bob:{}' | chpasswd",
    "echo {} | sudo -S apt-get update",
    "echo {} | passwd --stdin bob",
    "chpasswd <<EOF\nbob:{}\nEOF",
    "net user bob {} /add",
    "7z x -p{} a.7z",
    "ansible-playbook s.yml -e 'db_password={}'",
    "aws configure set aws_secret_access_key {}",
    "heroku config:set DATABASE_X={}",
    "vault login {}",
    "vault kv put secret/db pw={}",
    "kubectl create secret generic db --from-literal=pw={}",
    "terraform apply -var 'db_password={}'",
    "npm config set //registry.npmjs.org/:_authToken {}",
    "git clone https://bob:{}@github.com/a/b",
    "git -c http.extraheader='Authorization: Basic {}' fetch",
    "lftp -u bob,{} ftp.example.org",
    "ftp -n host <<EOF\nuser bob {}\nput a\nEOF",
    "cargo login {}",
    "ngrok config add-authtoken {}",
    "ssh-keygen -t ed25519 -N {} -f k",
    "nmcli dev wifi connect home password {}",
    "xfreerdp /u:bob /p:{} /v:host",
    "java -Djavax.net.ssl.keyStorePassword={} -jar a.jar",
    "printf '%s' {} | kinit bob",
    'bash -c "mysql -uroot -p{} shop"',
    "ssh host 'mysql -uroot -p{} shop'",
    "docker exec db mysql -uroot -p{} -e 'select 1'",
    "sudo mysql \\\n  -uroot \\\n  -p{}",
    'expect -c \'expect "assword:"; send "{}\\r"\'',
    "cat > ~/.netrc <<EOF\nmachine example.org\n login bob\n password {}\nEOF",
    "echo 'db:5432:shop:bob:{}' > ~/.pgpass",
    "echo 'jdbc:oracle:thin:bob/{}@db:1521/x'",
    "dsn='bob:{}@tcp(db:3306)/shop'",
    "Server=db;User Id=sa;Pwd={};",
    "the password is {}",
    "CREATE USER bob IDENTIFIED BY '{}'",
    "psql -c \"ALTER ROLE bob WITH PASSWORD '{}'\"",
    "git push https://{}@github.com/a/b",
    "curl -K - <<< 'user = \"bob:{}\"'",
    "setx API_TOKEN {}",
    "rclone config create remote sftp pass {}",
    "impacket-psexec bob:{}@host",
    "mkpasswd {}",
    "nc host 25 <<< 'AUTH PLAIN {}'",
    "net use Z: \\\\host\\share {} /user:bob",
)


@pytest.mark.parametrize("line", LINES)
def test_a_password_in_a_command_line_is_found(line: str) -> None:
    secret = "hunter2Xq"
    text = line.replace("{}", secret)
    clean = redact_text(text)
    assert secret not in clean
    assert clean.count("[redacted:") == 1, clean
    assert redact_text(clean) == clean
    assert secret not in json.dumps(redact({"command": text}))
    assert secret not in redact_text(json.dumps({"command": text})), "the text of JSON"


@pytest.mark.parametrize(
    "items",
    [
        ["mysql", "-uroot", "-phunter2"],
        ["redis-cli", "-a", "hunter2"],
        ["curl", "-u", "bob:hunter2", "https://x"],
        ["sudo", "mysql", "-phunter2"],
        ["/usr/bin/sshpass", "-p", "hunter2", "ssh", "x"],
        ["htpasswd", "-b", "f", "bob", "hunter2"],
        ["bash", "-c", "mysql -phunter2"],
    ],
    ids=" ".join,
)
def test_a_password_in_a_list_of_arguments_is_found(items: list[str]) -> None:
    clean = redact(items)
    assert len(clean) == len(items)
    assert "hunter2" not in str(clean)
    assert sum("[redacted:password]" in item for item in clean) == 1
