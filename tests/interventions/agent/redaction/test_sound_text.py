"""Text without a secret is unchanged, even if it resembles one."""

import pytest

from haltline.interventions.agent.redaction.secrets import redact, redact_text

HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 2
UUID = "0f1e2d3c-4b5a-4978-8796-a5b4c3d2e1f0"

SOUND = (
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    f"id: {UUID}",
    "sha256:" + HEX + HEX,
    "docker run -p 8080:80 -u 1000:1000 nginx",
    "ssh -p 2222 bob@host",
    "mysql -u root -p shop",
    "mysql -uroot --port=3306",
    "docker login -u bob --password-stdin < f",
    "curl -o out.json https://x:8443/a",
    "zip -r a.zip b",
    "7z a a.7z b",
    "grep -a pattern f",
    "openssl passwd -6",
    "redis-cli -h host -p 6379 ping",
    "ldapsearch -x -b dc=x",
    "sudo -S ls",
    "echo done | tee log",
    "vault login -method=oidc",
    "keytool -list -keystore k.jks",
    "terraform plan -var-file=x.tfvars",
    "cache_key: " + HEX,
    'etag: "' + HEX + '"',
    "primary_key=id",
    "10.0.0.1:5432",
    "psql -h db -p 5432 -U bob",
    "the password is required",
    "password = self.cleaned_data['x']",
    "def login(user: str, password: str) -> None:",
    "token: str",
    "password=password",
    "tests pass: 10",
    "bypass=1",
    "Bearer authentication is used",
    "key: value",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + MIXED + " bob@host",
    "mysql -u root -p$MYSQL_PASSWORD",
    'curl -u "$USER:$TOKEN" https://x',
    "docker login -p ${PASS}",
    "vault kv get secret/db",
    "sk-learn",
    "the task-list",
    "npm_config_cache=/x",
    "s.method_of_a_name_without_digits()",
    "/usr/lib/python3.11/site-packages/x.py:12: error",
    "-----BEGIN PUBLIC KEY-----",
    "AKIA",
    "hf_hub_download",
    "https://hooks.slack.com/docs",
    "SG.x",
    "v1.0-beta",
    "key-value store",
    "live_reload",
    "uv pip install x",
    "http://localhost:8080/@scope/pkg",
    "sha512-" + MIXED + "==",
    "token count: 5", "tokens: 123", "token: 5", "input_tokens: 1200", "max_tokens=4096", "password reset page",
    "tokens = 12", "the author: bob", "auth: failed", "cd /src && PWD=/srv/x make", "OLDPWD=/home/x",
    "docker run --user 1000:1000 x", "docker push org/token:latest", "rm -rf /srv/secret/x",
    "arn:aws:secretsmanager:eu-west-1:1:secret:prod/db", "kubectl delete secret db --namespace prod",
    "psql --no-password prod", "docker login --password-stdin registry", "login --password $DB_PASSWORD",
    "TOKEN_FILE=/run/x", "aws secretsmanager delete-secret --secret-id prod", "password: null", "hf_hub download",
    "npm_config_registry=x", "git commit --author 'a: b'", "curl https://x:8080/a -o /tmp/u:v",
    "password = ${PASSWORD}", "--token-count 5", "monkey: banana", "primary key = id", "drop access key",
    "Secret::Manager", "src/auth/token.py:12: error",
)  # fmt: skip


@pytest.mark.parametrize("text", SOUND)
def test_sound_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text
    assert redact({"command": text}) == {"command": text}


def test_a_megabyte_of_output_stays_as_it_is() -> None:
    text = "".join(
        f"-rw-r--r-- 1 bob bob {n} Nov 24 13:55 src/module_{n}.py: def test_{n}(key): ...\n" for n in range(13_000)
    )
    assert len(text) > 1_000_000
    assert redact_text(text) == text
