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
    "mysql -u root -p shop",
    "docker login -u bob --password-stdin < f",
    "openssl passwd -6",
    "sudo -S ls",
    "vault login -method=oidc",
    "terraform plan -var-file=x.tfvars",
    "cache_key: " + HEX,
    'etag: "' + HEX + '"',
    "10.0.0.1:5432",
    "the password is required",
    "password = self.cleaned_data['x']",
    "def login(user: str, password: str) -> None:",
    'os.environ.get("MAX_NEW_TOKENS", "4096")',
    "password:\n  type: string",
    "Enter your password:\n  then press enter 2 times\n",
    "secret:\n  - name1\n",
    "if token:\n    token1\n",
    "token:\n  v2:\n    x: 1\n",
    '[["password", "username"], ["a1", "b2"]]',
    '[["token", "count"], ["the", "x3"]]',
    "find -name a -d: kty; grep d: " + HEX,
    "Bearer authentication is used",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + MIXED + " bob@host",
    "mysql -u root -p$MYSQL_PASSWORD",
    'curl -u "$USER:$TOKEN" https://x',
    "vault kv get secret/db",
    "sk-learn",
    "s.method_of_a_name_without_digits()",
    "/usr/lib/python3.11/site-packages/x.py:12: error",
    "-----BEGIN PUBLIC KEY-----",
    "https://hooks.slack.com/docs",
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
REFERENCES = (
    "API_KEY=$API_KEY", "export TOKEN=$TOKEN", 'PASSWORD="$DB_PASSWORD"', "docker run -e API_KEY=$API_KEY x",
    "password=$password", "token=${TOKEN}", "DB_PASSWORD=${DB_PASSWORD:?unset}", "SECRET=$(cat f)",
    "set TOKEN=%TOKEN%", "$env:TOKEN = $env:OTHER_TOKEN", "postgres://${USER}:${PASSWORD}@db/x",
    "https://$USER:$TOKEN@example.org/x", "mongodb://{user}:{password}@{host}/x", "redis://:%s@host",
    "https://<user>:<password>@host/x", "https://user:{{ password }}@host", "postgres://{{user}}:{{password}}@db",
    "https://x-access-token:${{ secrets.GITHUB_TOKEN }}@github.com/a/b", "amqp://user:password@host",
    "https://USERNAME:PASSWORD@host", "password = var.db_password", "password = module.db.password",
    "token = local.github_token", "secret = data.vault_x.y.data", "password = aws_db_instance.main.password",
    "tokenizer.pad_token = tokenizer.eos_token", "tokenizer.pad_token = '<pad>'", "tok.pad_token='[PAD]'",
    'eos_token="<|endoftext|>"', 'bos_token = "<s>"', "model.config.pad_token_id = tokenizer.eos_token_id",
    "unk_token='<unk>', sep_token='</s>'", "max_tokens=max_new_tokens", "max_tokens=4096, pad_token=None",
    "num_tokens = len(tokens)", 'mask_token="[MASK]"', "stop_token = '###'", "csrf_token_name = 'csrftoken'",
    "token_type = 'bearer'", 'token_url="https://x/token"', "client.login(password=user_password)",
    "login(token=access_token)", "Api(api_key=openai_api_key)", "{password: userPassword}",
    "const token = accessToken;", "apiKey: config.apiKey,", "token: secrets.token_hex(16)",
    "password = getpass.getpass()", "password = fields.CharField(max_length=128)", "token = models.TextField()",
    "secret: process.env.SECRET", "password: os.getenv('X')", "os.environ['TOKEN'] = token", "os.environ['API_KEY']",
    "os.environ.get('API_KEY')", "os.environ['PASSWORD'] == password", "os.getenv('TOKEN', '')", "process.env.API_KEY",
    "ENV['SECRET']", "config['password'] = get_password()", "auth=(user, password)",
    "auth=(os.environ['U'], os.environ['P'])", "HTTPBasicAuth(user, token)", "password: !Ref DbPassword",
    "password: !vault |", "api_key: !secret openai_key", "password: !GetAtt Db.Password", "password=:password",
    "WHERE password = ?", "password = %s", "password=%(password)s", "password: {{ db_password }}",
    "password: <%= password %>", "token: ${{ secrets.TOKEN }}", "API_KEY={{ api_key }}", "--password $PASSWORD",
    "set -x PATH /usr/bin $PATH", "setenv EDITOR vim", "set -e; TOKEN=$1", "set -gx TOKEN $OTHER_TOKEN",
)  # fmt: skip
PLACEHOLDERS = (
    "password: <your-password>", "PASSWORD=<your-password>", "API_KEY=<API_KEY>", "token=<token>",
    "API_KEY=YOUR_API_KEY_HERE", "api_key = 'YOUR_API_KEY'", 'api_key="your-api-key"', "TOKEN=your_token_here",
    "export OPENAI_API_KEY=sk-xxxx", "key is sk-...", "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "sk-your-openai-api-key-here", "sk-ant-...",
    "ANTHROPIC_API_KEY=sk-ant-xxxxxxxxxxxxxxxxxxxx", "GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "hf_xxxxxxxxxxxxxxxxxxxxxxxx", "xoxb-your-token-here", "AKIAXXXXXXXXXXXXXXXX", "Authorization: Bearer YOUR_TOKEN",
    "Authorization: Bearer <token>", "Authorization: Bearer $TOKEN", "Authorization: Bearer ${API_TOKEN}",
    "curl -H 'Authorization: Bearer YOUR_ACCESS_TOKEN' https://x", "password: CHANGE_ME", "password=********",
    "token: [token]", "SECRET_KEY=replace-me", "password = '...'", "secret: xxxxxxxx",
    "password: 'insert-password-here'", "api_key: my-api-key", "api_key=ENTER_YOUR_KEY", "token = 'placeholder'",
    "<password>${db.password}</password>", "<password>YOUR_PASSWORD</password>", '<add key="ApiSecret" value="" />',
    '<add key="ApiSecret" value="#{Secret}#" />', "api.telegram.org/bot<token>/getMe",
    "https://api.telegram.org/bot$TOKEN/getMe", "https://mainnet.infura.io/v3/YOUR-PROJECT-ID",
    "https://eth-mainnet.g.alchemy.com/v2/your-api-key", "hooks.zapier.com/hooks/catch/...",
    "https://b.s3.amazonaws.com/k?X-Amz-Signature=...", "Signature=<signature>",
)  # fmt: skip
DESCRIPTIONS = (
    "password: string", "token: Optional[str] = None", "password: str = ''",
    "def f(token: str, password: str | None = None):", "password (string): the password of the user",
    "--token TOKEN  the token to use", "  --password PASSWORD", "--api-key KEY", "--token string   a token",
    "--password=PASSWORD", "password VARCHAR(255) NOT NULL", "| password | string | yes |",
    '"password": {"type": "string", "minLength": 8}', '{"name": "password", "type": "string", "required": true}',
    '{"name": "token", "in": "header"}', "fields = ['username', 'password', 'email']",
    '["password", "token", "secret"]', "<label for='password'>Password</label>",
    '<a href="/reset-password">Reset your password</a>', "<h1>Password</h1>",
    '<input type="password" name="password" placeholder="Password">', '<span class="token">foo</span>',
    "<token> is required", "<xs:element name='password' type='xs:string'/>", "usage: login <user> <password>",
    "The token expires in 3600 seconds.", "Enter your password:", "invalid password for user bob", "secret management",
    "token-based authentication", "password reset email", "the key is in the vault", "getToken()", "tokenize(text)",
    "class PasswordField(Field):", "PasswordInput", "test_password_is_hashed", "assert response.token == expected",
    "if token is None:", "token || null", "page.fill('#user', 'bob')", "page.click('#password')",
    "page.get_by_label('Password').click()", "printf '%s' done | npm run x", "echo hello | kubectl apply -f -",
    "npm login", "kubectl create secret generic db --from-file=./pw.txt", "signature=inspect.signature(f)",
    "Signature: 0f1e", "def f(signature=None):", '{"d": "short", "k": 5, "q": "search words"}',
    '{"kty": "RSA", "n": "' + MIXED + '", "e": "AQAB", "kid": "a"}', "AQ.1", "bot123: hello",
    "f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4 refs/heads/main", 'integrity="sha384-' + MIXED + '"', "md5: " + HEX,
    f"request_id={UUID}", "password: |", "key: |\n  a text of words",
    "description: >-\n  how to set a password\n  for bob", "tokens: |",
)  # fmt: skip


@pytest.mark.parametrize("text", [*SOUND, *REFERENCES, *PLACEHOLDERS, *DESCRIPTIONS])
def test_sound_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text
    assert redact({"command": text}) == {"command": text}


def test_a_megabyte_of_output_stays_as_it_is() -> None:
    text = "".join(
        f"-rw-r--r-- 1 bob bob {n} Nov 24 13:55 src/module_{n}.py: def test_{n}(key): ...\n" for n in range(13_000)
    )
    assert len(text) > 1_000_000
    assert redact_text(text) == text
