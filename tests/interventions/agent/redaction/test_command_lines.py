"""Programs that are given a password in their command line, in a list of arguments, by a pipe or a document."""

import json

import pytest

from haltline.interventions.agent.redaction.secrets import redact, redact_text

LINES = (
    "mysql -u root -p{} shop",
    "mysqldump --password={} shop > x.sql",
    "redis-cli -h cache -a {} ping",
    "redis-cli AUTH {}",
    "sshpass -p {} ssh root@host",
    "sshpass -p '{}' scp a b:",
    "curl -u bob:{} https://example.org",
    "curl -sSu 'bob:{}' https://x",
    "curl -H 'Authorization: Basic {}' https://x",
    "curl -b session={} https://x",
    "curl --data 'token={}' https://x",
    "wget --password={} ftp://x/y",
    "docker login -u bob -p {} registry.example.org",
    "echo {} | docker login -u bob --password-stdin",
    "docker login --password-stdin <<< {}",
    "helm registry login -u bob -p {} r",
    "podman login --password {} r",
    "skopeo copy --dest-creds bob:{} a b",
    "echo {} | gh auth login --with-token",
    "glab auth login --token {}",
    "gh secret set NAME --body {}",
    "PGPASSWORD={} psql -h db",
    "psql postgresql://bob:{}@db/x",
    "psql 'host=db password={}'",
    "openssl enc -aes-256-cbc -pass pass:{} -in a",
    "openssl rsa -in k -passin pass:{}",
    "smbclient //host/share -U bob%{}",
    "mount -t cifs //h/s /mnt -o username=bob,password={}",
    "ldapsearch -D cn=admin -w {} -b dc=x",
    "sqlcmd -S db -U sa -P {} -Q 'select 1'",
    "bcp t out f -S db -U sa -P {}",
    "sqlplus bob/{}@db",
    "mongosh -u bob -p {} shop",
    "mongodump --password={} --db x",
    "rabbitmqctl add_user bob {}",
    "rabbitmqctl change_password bob {}",
    "htpasswd -bc .htpasswd bob {}",
    "htpasswd -nb bob {}",
    "useradd -m -p {} bob",
    "echo 'bob:{}' | chpasswd",
    "echo {} | sudo -S apt-get update",
    "sudo -S ls <<< {}",
    "echo {} | passwd --stdin bob",
    "chpasswd <<EOF\nbob:{}\nEOF",
    "net user bob {} /add",
    "keytool -list -keystore k.jks -storepass {}",
    "7z x -p{} a.7z",
    "zip -P {} a.zip b",
    "unzip -P {} a.zip",
    "gpg --batch --passphrase {} -d a.gpg",
    "ansible-playbook s.yml -e 'db_password={}'",
    "aws configure set aws_secret_access_key {}",
    "az login --service-principal -u app -p {} --tenant t",
    "gcloud sql users set-password bob --password={}",
    "heroku config:set TOKEN_OF_X={}",
    "heroku config:set DATABASE_X={}",
    "vault login {}",
    "vault kv put secret/db pw={}",
    "kubectl create secret generic db --from-literal=pw={}",
    "kubectl create secret docker-registry r --docker-password={}",
    "terraform apply -var db_password={}",
    "terraform apply -var 'db_password={}'",
    "npm config set //registry.npmjs.org/:_authToken {}",
    "npm set //registry.npmjs.org/:_authToken={}",
    "pip install --index-url https://bob:{}@pypi.example.org/simple x",
    "git clone https://bob:{}@github.com/a/b",
    "git -c http.extraheader='Authorization: Basic {}' fetch",
    "lftp -u bob,{} ftp.example.org",
    "ftp -n host <<EOF\nuser bob {}\nput a\nEOF",
    "svn checkout --username bob --password {} https://x",
    "hg --config auth.x.password={} pull",
    "restic -r x backup --password {}",
    "RESTIC_PASSWORD={} restic backup",
    "influx write --token {} -b x",
    "cqlsh -u bob -p {} host",
    "clickhouse-client --password {} -q 'select 1'",
    "SNOWSQL_PWD={} snowsql -a x",
    "twine upload -u __token__ -p {} dist/*",
    "cargo login {}",
    "doppler secrets set DB_PASS={}",
    "fly secrets set DB={}",
    "ngrok config add-authtoken {}",
    "tailscale up --authkey {}",
    "ssh-keygen -t ed25519 -N {} -f k",
    "nmcli dev wifi connect home password {}",
    "mosquitto_pub -u bob -P {} -t a -m b",
    "snmpwalk -v2c -c {} host",
    "ipmitool -H h -U root -P {} power status",
    "xfreerdp /u:bob /p:{} /v:host",
    "java -Djavax.net.ssl.keyStorePassword={} -jar a.jar",
    "printf '%s' {} | kinit bob",
    'bash -c "mysql -uroot -p{} shop"',
    "ssh host 'mysql -uroot -p{} shop'",
    "/usr/bin/mysql -uroot -p{}",
    "docker exec db mysql -uroot -p{} -e 'select 1'",
    "sudo mysql \\\n  -uroot \\\n  -p{}",
    'expect -c \'expect "assword:"; send "{}\\r"\'',
    "cat > ~/.netrc <<EOF\nmachine example.org\n login bob\n password {}\nEOF",
    "echo 'db:5432:shop:bob:{}' > ~/.pgpass",
    "export DB_PASS={}",
    "echo 'jdbc:oracle:thin:bob/{}@db:1521/x'",
    "dsn='bob:{}@tcp(db:3306)/shop'",
    "Server=db;User Id=sa;Pwd={};",
    "the password is {}",
    "CREATE USER bob IDENTIFIED BY '{}'",
    "psql -c \"ALTER ROLE bob WITH PASSWORD '{}'\"",
    "git push https://{}@github.com/a/b",
    "curl -K - <<< 'user = \"bob:{}\"'",
    "lftp -e 'open -u bob,{} host'",
    "setx API_TOKEN {}",
    "rclone config create remote sftp pass {}",
    "rclone config create remote s3 secret_access_key {}",
    "restic -r x --password-command 'echo {}' backup",
    "impacket-psexec bob:{}@host",
    "mkpasswd {}",
    "mysqladmin -u root password {}",
    "nc host 25 <<< 'AUTH PLAIN {}'",
    "signtool sign /f c.pfx /p {} x.exe",
    "certutil -p {} -importpfx c.pfx",
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
