"""Secrets by the place in which they stand: in addresses, in documents of any notation, in code and in forms of pages.

All are made up, and put together from parts, so that no scanner takes them for real.
"""

import json
from typing import Any

import pytest

from haltline.interventions.agent.redaction.secrets import redact, redact_text
from tests.interventions.agent.redaction.test_kinds import HEX, MIXED, UUID, cut

PASS = "hunter2Xq9"
TOKEN = cut(MIXED, 32)
BASE64 = cut(MIXED + "-_", 86)
SIGNED = HEX + HEX
PEM = [cut(BASE64[n:] + BASE64, 64) for n in range(3)]
PRIVATE = cut(MIXED[::-1] + "-_", 86)
JWK = {
    "kty": "RSA",
    "n": BASE64,
    "e": "AQAB",
    "d": PRIVATE,
    "p": PRIVATE[2:50],
    "q": PRIVATE[3:51],
    "dp": PRIVATE[4:52],
}

ADDRESSES = {
    "a telegram bot": ("https://api.telegram.org/bot1234567890:{}/sendMessage", "AAH" + cut(MIXED, 32)),
    "a telegram bot, escaped": ("https://api.telegram.org/bot1234567890%3A{}/getMe", "AAH" + cut(MIXED, 32)),
    "S3's signature": ("https://b.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Signature={}", SIGNED),
    "S3's session": (
        "https://b.s3.amazonaws.com/k?X-Amz-Security-Token={}&X-Amz-Date=20260101T000000Z",
        "FwoGZ" + TOKEN + "%2F" + TOKEN,
    ),
    "S3's older signature": (
        "https://b.s3.amazonaws.com/k?AWSAccessKeyId=a&Expires=1&Signature={}",
        "vjbyPxybdZaNmGa%2ByT272YEAiv4%3D",
    ),
    "Google Cloud's signature": ("https://storage.googleapis.com/b/o?X-Goog-Expires=9&X-Goog-Signature={}", SIGNED * 4),
    "CloudFront's cookie": ("curl -b 'CloudFront-Signature={}' https://d1.cloudfront.net/a", cut(MIXED, 80) + "__"),
    "Azure's signature": ("https://a.blob.core.windows.net/c/b?sv=2022-11-02&sr=b&sig={}", cut(MIXED, 43) + "%3D"),
    "Azure's Logic Apps": (
        "https://prod-1.westeurope.logic.azure.com/workflows/x/triggers/manual/paths/invoke?sig={}",
        cut(MIXED, 43),
    ),
    "a Slack webhook": ("https://hooks.slack.com/services/T01234567/B01234567/{}", cut(MIXED, 24)),
    "a Slack workflow": ("https://hooks.slack.com/workflows/T01234567/A01234567/123456789/{}", cut(MIXED, 24)),
    "a Discord webhook": ("https://discord.com/api/webhooks/123456789012345678/{}", cut(MIXED, 68)),
    "a Teams webhook": (
        "https://x.webhook.office.com/webhookb2/" + UUID + "@" + UUID + "/IncomingWebhook/{}/" + UUID,
        HEX,
    ),
    "an older Teams webhook": (
        "https://outlook.office.com/webhook/" + UUID + "@" + UUID + "/IncomingWebhook/{}/" + UUID,
        HEX,
    ),
    "a Google Chat webhook": ("https://chat.googleapis.com/v1/spaces/AAA/messages?key=k&token={}", cut(MIXED, 43)),
    "a Zapier webhook": ("https://hooks.zapier.com/hooks/catch/1234567/{}/", "b8k2x9q"),
    "a Make webhook": ("https://hook.eu1.make.com/{}", LOWER_32 := "a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6"),
    "an Integromat webhook": ("https://hook.integromat.com/{}", LOWER_32),
    "an IFTTT webhook": ("https://maker.ifttt.com/trigger/door/with/key/{}", cut(MIXED, 22)),
    "a Pipedream webhook": ("https://{}.m.pipedream.net", "eo3kx92lq7zpm4r"),
    "an n8n webhook": ("https://acme.app.n8n.cloud/webhook/{}", UUID),
    "a Mattermost webhook": ("https://chat.acme.io/hooks/{}", "xq7k2m9p4r8t3v6w1y5z0a2b4c"),
    "a Rocket.Chat webhook": ("https://rocket.acme.io/hooks/64f0aB3dE5fG7hJ9kL1m/{}", cut(MIXED, 43)),
    "a PagerDuty integration": ("https://events.pagerduty.com/integration/{}/enqueue", HEX),
    "a Feishu webhook": ("https://open.feishu.cn/open-apis/bot/v2/hook/{}", UUID),
    "a DingTalk robot": ("https://oapi.dingtalk.com/robot/send?access_token={}", SIGNED),
    "a WeCom robot": ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={}", UUID),
    "a Datadog intake": ("https://http-intake.logs.datadoghq.com/v1/input/{}", HEX),
    "a healthcheck": ("https://hc-ping.com/{}", UUID),
    "Infura": ("https://mainnet.infura.io/v3/{}", HEX),
    "Infura's socket": ("wss://sepolia.infura.io/ws/v3/{}", HEX),
    "Alchemy": ("https://eth-mainnet.g.alchemy.com/v2/{}", cut(MIXED, 32)),
    "Alchemy's older address": ("https://eth-mainnet.alchemyapi.io/v2/{}", cut(MIXED, 32)),
    "Alchemy's tokens": ("https://eth-mainnet.g.alchemy.com/nft/v3/{}/getNFTs", cut(MIXED, 32)),
    "QuickNode": ("https://old-silent-moon.quiknode.pro/{}/", HEX + "01234567"),
    "Ankr": ("https://rpc.ankr.com/eth/{}", SIGNED),
    "Chainstack": ("https://ethereum-mainnet.core.chainstack.com/{}", HEX),
    "a key in a query": ("https://maps.example.org/api?center=1&key={}", "AB" + cut(MIXED, 30)),
    "a session in a query": ("https://example.org/?access_token={}", TOKEN),
}

DOCUMENTS = {
    "an XML element": ("<password>{}</password>", PASS),
    "an XML element with attributes": ('<wsse:Password Type="http://x#PasswordText">{}</wsse:Password>', PASS),
    "an XML element on its own line": ("<apiKey>\n    {}\n  </apiKey>", TOKEN),
    "CDATA of an XML element": ("<password><![CDATA[{}]]></password>", PASS),
    "an XML attribute": ('<add name="a" password="{}"/>', PASS),
    "a setting of .NET": ('<add key="ApiSecret" value="{}" />', PASS),
    "a setting of .NET the other way round": ('<add value="{}" key="ApiSecret" />', PASS),
    "a property of Hadoop": ("<name>fs.s3a.secret.key</name>\n  <value>{}</value>", TOKEN),
    "an entry of Android": ('<string name="google_maps_api_key">{}</string>', TOKEN),
    "a private part of a JWK": ('{"kty":"EC","crv":"P-256","x":"' + BASE64[:43] + '","d":"{}"}', cut(MIXED, 43)),
    "a symmetric JWK": ('{"kty": "oct", "k": "{}", "alg": "HS256"}', cut(MIXED, 43)),
    "a symmetric JWK, the key first": ('{"k": "{}", "kty": "oct"}', cut(MIXED, 43)),
    "a pair of AWS": ('[{"Key": "DB_PASSWORD", "Value": "{}"}]', PASS),
    "a pair of Kubernetes": ('{"name": "DB_PASSWORD", "value": "{}"}', PASS),
    "a pair the other way round": ('{"value": "{}", "name": "DB_PASSWORD"}', PASS),
    "a pair of CloudFormation": ('{"ParameterKey": "MasterPassword", "ParameterValue": "{}"}', PASS),
    "a YAML block behind an empty line": ("password: |\n\n  {}\n", PASS),
    "a pair in YAML": ("- name: DB_PASSWORD\n  value: {}\n", PASS),
    "a header in HAR": ('{"name": "Authorization", "value": "Basic {}"}', "Ym9iOmh1bnRlcjJYcQ=="),
    "a YAML block": ("password: |\n  {}\nuser: bob\n", PASS),
    "YAML on the next line": ("db:\n  password:\n    {}\n  user: bob\n", PASS),
    "YAML on the next line, quoted": ("- API_TOKEN:\r\n    '{}'\r\n", PASS),
    "a JWK in YAML": (f"kty: RSA\nn: {BASE64}\nd: {{}}\ne: AQAB\n", PRIVATE),
    "a JWK in YAML, in a list": ("keys:\n  - kty: oct\n    k: '{}'\n", PRIVATE),
    "pairs": ('[["USER", "bob"], ["DB_PASSWORD", "{}"]]', PASS),
    "YAML with a tag": ("password: !!str {}\n", PASS),
    "a YAML block with a sign of indentation": ("api_key: |2-\n    {}\n", TOKEN),
    "JSON inside JSON": ('{"body": "{\\"password\\": \\"{}\\"}"}', PASS),
    "JSON in JSON of four levels": (json.dumps(json.dumps(json.dumps(json.dumps({"token": "{}"})))), PASS),
    "TOML": ('[db]\npassword = "{}"', PASS),
    "TOML of several lines": ('secret = """\n{}"""', PASS),
    "an INI file": ("[x]\naws_session_token = {}", "IQoJb3JpZ2luX2Vj" + cut(MIXED, 120)),
    "a form's body": ("grant_type=password&username=bob&password={}", PASS),
    "a form of many parts": ('name="password"\r\n\r\n{}\r\n--x', PASS),
    "an input of a page": ('<input type="password" name="p" value="{}">', PASS),
    "an input the other way round": ('<input value="{}" name="api_key">', TOKEN),
    "Docker's configuration": ('{"auths": {"r.io": {"auth": "{}"}}}', "Ym9iOmh1bnRlcjJYcQ=="),
}

CODE = {
    "Python's environment": ("os.environ['API_SECRET'] = '{}'", PASS),
    "Python's environment with a type": ('os.environ["API_SECRET"]: str = "{}"', PASS),
    "Python's default of an environment": ("os.environ.get('DB_PASSWORD', '{}')", PASS),
    "Python's getenv": ('os.getenv("API_TOKEN", "{}")', PASS),
    "a mapping's key": ("config['password'] = '{}'", PASS),
    "a mail server": ("smtp.login('ci@example.org', '{}')", PASS),
    "Capybara": ("fill_in 'Password', with: '{}'", PASS),
    "jQuery": ("$('#password').val('{}')", PASS),
    "Puppeteer by type": ("page.type('input[type=\"password\"]', '{}')", PASS),
    "a line of a program for browsers": ("agent-browser fill '#password' '{}'", PASS),
    "Node's default": ("const p = process.env.DB_PASSWORD || '{}'", PASS),
    "Ruby's default": ("ENV.fetch('DB_PASSWORD', '{}')", PASS),
    "Ruby's default with or": ('ENV["API_TOKEN"] ||= "{}"', PASS),
    "PHP's putenv": ("putenv('DB_PASSWORD={}');", PASS),
    "PHP's array": ("'password' => '{}',", PASS),
    "Java's map": ('props.put("sasl.password", "{}");', PASS),
    "a pair of credentials": ('requests.get(url, auth=("ci", "{}"))', PASS),
    "a class of credentials": ('auth=HTTPBasicAuth("bob", "{}")', PASS),
    "credentials of httpx": ("httpx.BasicAuth(username='bob', password='{}')", PASS),
    "a list of credentials": ('auth = ["bob", "{}"]', PASS),
    "credentials of axios": ("auth: {username: 'bob', password: '{}'}", PASS),
    "a header that is set": ('req.Header.Set("X-Api-Key", "{}")', PASS),
    "a type and a value": ('password: str = "{}"', PASS),
    "a constant of Rust": ('const API_KEY: &str = "{}";', TOKEN),
    "a session token of AWS": ('aws_session_token="{}"', "IQoJb3JpZ2luX2Vj" + cut(MIXED, 200)),
}

SHELLS = {
    "fish": ("set -x API_KEY {}", PASS),
    "csh": ("setenv DB_PASSWORD {}", PASS),
    "PowerShell": ("$env:DB_PASSWORD = '{}'", PASS),
    "PowerShell's item": ("Set-Item -Path Env:DB_PASSWORD -Value '{}'", PASS),
    "PowerShell's conversion": ("ConvertTo-SecureString '{}' -AsPlainText -Force", PASS),
    "cmd": ("set DB_PASSWORD={}", PASS),
    "bash's declare": ("declare -x DB_PASSWORD={}", PASS),
    "a default of a parameter": ("PGPASSWORD=${PGPASSWORD:-{}}", PASS),
    "printf of several to npm": ("printf 'bob\\n{}\\nbob@x.org\\n' | npm login", PASS),
    "echo to npm": ("echo -e 'bob\\n{}\\nb@x.org' | npm adduser", PASS),
    "a here-document to kubectl": ("kubectl create secret generic db --from-file=pw=/dev/stdin <<< '{}'", PASS),
    "echo to docker's secret": ("echo {} | docker secret create db -", PASS),
    "echo to gcloud's version": ("echo -n {} | gcloud secrets versions add db --data-file=-", PASS),
    "echo to vercel": ("echo {} | vercel env add DB_PASSWORD production", PASS),
    "echo to fly": ("echo DB_PASSWORD={} | fly secrets import", PASS),
    "echo to vault": ("echo -n {} | vault kv put secret/db pw=-", PASS),
    "echo to pass": ("echo {} | pass insert -e db", PASS),
    "echo to gpg": ("echo {} | gpg --batch --passphrase-fd 0 -d x", PASS),
    "echo to openssl": ("echo {} | openssl enc -aes-256-cbc -pass stdin", PASS),
    "echo to ssh-add": ("echo {} | ssh-add -", PASS),
    "echo to cryptsetup": ("echo -n {} | cryptsetup open /dev/sda1 x -", PASS),
    "curl with a user, joined": ("curl -uci:{} https://example.org", PASS),
    "base64 of a known one": (
        "echo {} | base64 -d",
        __import__("base64").b64encode(("sk-" + "ant-api03-" + cut(MIXED, 93)).encode()).decode(),
    ),
    "base64 of a key of AWS": (
        "x = {}",
        __import__("base64").b64encode(("AK" + "IA" + "Q7W2E9R4T1Y6U3I8").encode()).decode(),
    ),
    "Gemini": ("use {} for it", "AQ." + "Ab8RN6" + cut(MIXED, 44)),
    "a session of AWS": ("it is {} here", "IQoJb3JpZ2luX2Vj" + cut(MIXED, 300)),
    "an older session of AWS": ("it is {} here", "FwoGZXIvYXdzE" + cut(MIXED, 300)),
}

VALUES: dict[str, tuple[Any, str]] = {
    "pairs of a list": ([["USER", "bob"], ["DB_PASSWORD", PASS]], PASS),
    "a pair": ({"Key": "DB_PASSWORD", "Value": PASS}, PASS),
    "a pair of ECS": ({"environment": [{"Name": "DB_PASSWORD", "Value": PASS}]}, PASS),
    "a pair of CloudFormation": ([{"ParameterKey": "MasterPassword", "ParameterValue": PASS}], PASS),
    "a pair of key and val": ({"key": "password", "val": PASS}, PASS),
    "a header": ({"headers": [{"name": "X-Api-Key", "value": TOKEN}]}, TOKEN),
    "an option": ({"option": "--password", "value": PASS}, PASS),
    "a default": ({"name": "DB_PASSWORD", "default": PASS}, PASS),
    "a field and its content": ({"field": "password", "content": PASS}, PASS),
    "a key of a mapping that is a token": ({"gh" + "p_" + cut(MIXED, 36): "ci"}, cut(MIXED, 36)),
    "a key of a mapping that is an address": ({f"https://bob:{PASS}@example.org": 1}, PASS),
    "a key of a mapping that is a command": ({"steps": {f"mysql -p{PASS} shop": "ok"}}, PASS),
    "lines of a PEM": (["-----BEGIN RSA PRIVATE" + " KEY-----", *PEM, "-----END RSA PRIVATE" + " KEY-----"], PEM[1]),
    "lines of a PEM with breaks": (["-----BEGIN EC PRIVATE" + " KEY-----\n", *(f"{p}\n" for p in PEM)], PEM[0]),
    "a JWK": (JWK, JWK["d"]),
    "a JWK's prime": ({"keys": [JWK]}, JWK["p"]),
    "a symmetric JWK": ({"kty": "oct", "k": cut(MIXED, 43)}, cut(MIXED, 43)),
    "JSON inside JSON": ({"body": json.dumps({"password": PASS})}, PASS),
    "JWK in a text": ({"body": json.dumps(JWK)}, JWK["d"]),
    "a pair in a text": ({"body": json.dumps([{"Key": "DB_PASSWORD", "Value": PASS}])}, PASS),
    "a pair of credentials": ({"auth": ["ci", PASS]}, PASS),
    "a field of a browser by its selector": ({"selector": "#password", "value": PASS}, PASS),
    "a field of a browser by its type": ({"selector": 'input[type="password"]', "text": PASS}, PASS),
    "a field of a browser by its description": ({"element": "Password field", "ref": "e12", "text": PASS}, PASS),
    "a field of a browser by its label": ({"label": "Passwort", "ref": "e1", "text": PASS}, PASS),
    "a code of one time": ({"element": "OTP input", "ref": "e3", "text": "492817"}, "492817"),
    "a code of a card": ({"selector": "#cvv", "value": "737"}, "737"),
    "a number of a card": ({"element": "Card number textbox", "ref": "e4", "text": "4012 8888 8888 1881"}, "8888"),
    "a field of a form": ({"fields": [{"name": "Password", "type": "textbox", "ref": "e1", "value": PASS}]}, PASS),
    "a pin": ({"element": "PIN", "ref": "e9", "text": "4711"}, "4711"),
    "a passage of Playwright": ({"code": f"await page.fill('#password', '{PASS}')"}, PASS),
    "a passage of Playwright by label": ({"code": f"page.get_by_label('Password').fill('{PASS}')"}, PASS),
    "a passage of Playwright by placeholder": (
        {"code": f'page.get_by_placeholder("Your password").type("{PASS}")'},
        PASS,
    ),
    "a passage of Selenium": ({"code": f"driver.find_element(By.ID, 'password').send_keys('{PASS}')"}, PASS),
    "a passage of Puppeteer": ({"code": f"await page.type('#password', '{PASS}')"}, PASS),
    "a value that a script sets": ({"code": f"document.querySelector('#password').value = '{PASS}'"}, PASS),
}
"""What is handed to a call, and the secret in it."""

TEXTS = {
    f"{kind}: {shows}": (around.replace("{}", secret), secret)
    for kind, rows in {"address": ADDRESSES, "document": DOCUMENTS, "code": CODE, "shell": SHELLS}.items()
    for shows, (around, secret) in rows.items()
}


@pytest.mark.parametrize(("text", "secret"), TEXTS.values(), ids=TEXTS)
def test_a_secret_is_found_by_its_place(text: str, secret: str) -> None:
    clean = redact_text(text)
    assert secret not in clean
    assert redact_text(clean) == clean
    assert secret not in json.dumps(redact({"command": text}))


@pytest.mark.parametrize(("value", "secret"), VALUES.values(), ids=VALUES)
def test_a_secret_is_found_by_the_fields_beside_it(value: Any, secret: str) -> None:
    clean = redact(value)
    assert secret not in json.dumps(clean)
    assert redact(clean) == clean
