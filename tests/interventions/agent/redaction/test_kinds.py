"""Each kind of secret that has a published form, in texts as agents have them.

All values are made up in the published form, and put together from parts, so that no scanner takes them for real.
"""

import json

import pytest

from haltline.interventions.agent.redaction.secrets import find_secrets, redact, redact_text

HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
UPPER = "Q7W2E9R4T1Y6U3I8O5P0A2S7D4F1G9H6"
MIXED = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY"
LOWER = "a1b2c3d4e5f6g7h8i9j0k1l2m3n4o5p6"
UUID = "0f1e2d3c-4b5a-4978-8796-a5b4c3d2e1f0"


def cut(text: str, length: int) -> str:
    return (text * (length // len(text) + 1))[:length]


PUBLISHED = {
    "aws_access_key": "AK" + "IA" + cut(UPPER, 16),
    "google_key": "AI" + "za" + cut(MIXED, 35),
    "google_oauth_token": "ya" + "29." + cut(MIXED, 60),
    "google_oauth_secret": "GOC" + "SPX-" + cut(MIXED, 28),
    "azure_client_secret": "abC" + "8Q~" + cut(MIXED, 34),
    "alibaba_access_key": "LT" + "AI" + cut(MIXED, 20),
    "intra42_secret": "s-s4" + "t2ud-" + cut(HEX, 64),
    "digitalocean_token": "dop" + "_v1_" + cut(HEX, 64),
    "heroku_token": "HR" + "KU-" + cut(MIXED, 60),
    "fly_token": "Fly" + "V1 fm2_" + cut(MIXED, 80),
    "netlify_token": "nf" + "p_" + cut(MIXED, 36),
    "vercel_token": "vc" + "p_" + cut(MIXED, 56),
    "render_key": "rn" + "d_" + cut(MIXED, 28),
    "github_token": "gh" + "p_" + cut(MIXED, 36),
    "gitlab_token": "gl" + "pat-" + cut(MIXED, 20),
    "bitbucket_token": "AT" + "BB" + cut(MIXED, 32),
    "atlassian_token": "ATA" + "TT3xFf" + cut(MIXED, 60) + "=0A1B2C3D",
    "npm_token": "np" + "m_" + cut(MIXED, 36),
    "pypi_token": "py" + "pi-AgEIcHlwaS5vcmc" + cut(MIXED, 80),
    "rubygems_key": "ruby" + "gems_" + cut(HEX, 48),
    "crates_token": "c" + "io" + cut(MIXED, 32),
    "docker_token": "dckr" + "_pat_" + cut(MIXED, 27),
    "artifactory_key": "AK" + "Cp" + cut(MIXED, 69),
    "nuget_key": "oy" + "2" + cut(LOWER, 43),
    "slack_token": "xo" + "xb-123456789012-1234567890123-" + cut(MIXED, 24),
    "slack_webhook": "https://hooks." + "slack.com/services/T01234567/B01234567/" + cut(MIXED, 24),
    "discord_webhook": "https://discord.com/" + "api/webhooks/123456789012345678/" + cut(MIXED, 68),
    "discord_token": "MT" + cut(MIXED, 24) + "." + cut(MIXED, 6) + "." + cut(MIXED, 38),
    "telegram_token": "1234567890" + ":AA" + cut(MIXED, 33),
    "sendgrid_key": "S" + "G." + cut(MIXED, 22) + "." + cut(MIXED, 43),
    "mailgun_key": "ke" + "y-" + HEX,
    "mailchimp_key": HEX + "-us" + "12",
    "brevo_key": "xkey" + "sib-" + HEX + HEX + "-" + cut(MIXED, 16),
    "resend_key": "r" + "e_" + cut(MIXED, 8) + "_" + cut(MIXED, 24),
    "twilio_key": "S" + "K" + HEX,
    "stripe_key": "sk" + "_live_" + cut(MIXED, 24),
    "stripe_webhook_secret": "wh" + "sec_" + cut(MIXED, 32),
    "square_token": "sq0" + "atp-" + cut(MIXED, 22),
    "paypal_token": "access_token" + "$production$" + cut(LOWER, 16) + "$" + HEX,
    "adyen_key": "AQ" + "Ey" + cut(MIXED, 90),
    "shopify_token": "shp" + "at_" + HEX,
    "plaid_token": "access-" + "sandbox-" + UUID,
    "razorpay_key": "rzp" + "_live_" + cut(MIXED, 14),
    "openai_key": "sk-" + "proj-" + cut(MIXED, 60),
    "anthropic_key": "sk-" + "ant-api03-" + cut(MIXED, 93) + "AA",
    "openrouter_key": "sk-" + "or-v1-" + HEX + HEX,
    "huggingface_token": "h" + "f_" + cut(MIXED, 34),
    "replicate_token": "r" + "8_" + cut(MIXED, 37),
    "groq_key": "gs" + "k_" + cut(MIXED, 52),
    "perplexity_key": "pp" + "lx-" + cut(MIXED, 48),
    "xai_key": "xa" + "i-" + cut(MIXED, 80),
    "nvidia_key": "nv" + "api-" + cut(MIXED, 64),
    "pinecone_key": "pc" + "sk_" + cut(MIXED, 64),
    "langsmith_key": "lsv2" + "_pt_" + HEX + "_0a1b2c3d4e",
    "databricks_token": "da" + "pi" + HEX,
    "planetscale_token": "pscale" + "_tkn_" + cut(MIXED, 43),
    "neon_key": "na" + "pi_" + cut(LOWER, 64),
    "supabase_key": "sb" + "p_" + cut(HEX, 40),
    "newrelic_key": "NR" + "AK-" + cut(UPPER, 27),
    "grafana_token": "gl" + "sa_" + cut(MIXED, 32) + "_0a1b2c3d",
    "sentry_token": "snt" + "rys_" + cut(MIXED, 100),
    "dynatrace_token": "dt0" + "c01." + cut(UPPER, 24) + "." + cut(UPPER, 64),
    "posthog_key": "ph" + "x_" + cut(MIXED, 43),
    "vault_token": "hv" + "s." + cut(MIXED, 24),
    "terraform_token": cut(MIXED, 14) + ".atlas" + "v1." + cut(MIXED, 67),
    "doppler_token": "dp" + ".pt." + cut(MIXED, 43),
    "pulumi_token": "pu" + "l-" + cut(HEX, 40),
    "tailscale_key": "ts" + "key-auth-" + cut(MIXED, 12) + "-" + cut(MIXED, 30),
    "circleci_token": "CCI" + "PAT_" + cut(MIXED, 22) + "_" + cut(HEX, 40),
    "buildkite_token": "bk" + "ua_" + cut(HEX, 40),
    "sonarqube_token": "sq" + "p_" + cut(HEX, 40),
    "linear_key": "lin" + "_api_" + cut(MIXED, 40),
    "notion_token": "nt" + "n_" + cut(MIXED, 46),
    "airtable_token": "pa" + "t" + cut(MIXED, 14) + "." + HEX + HEX,
    "figma_token": "fi" + "gd_" + cut(MIXED, 40),
    "postman_key": "PM" + "AK-" + cut(HEX, 24) + "-" + cut(HEX, 34),
    "hubspot_token": "pat" + "-na1-" + UUID,
    "mapbox_token": "sk." + "eyJ" + cut(MIXED, 60) + "." + cut(MIXED, 22),
    "contentful_token": "CF" + "PAT-" + cut(MIXED, 43),
    "typeform_token": "tf" + "p_" + cut(MIXED, 44),
    "age_key": "AGE-" + "SECRET-KEY-1" + cut(UPPER, 58),
    "cloudflare_origin_key": "v1" + ".0-" + cut(HEX, 24) + "-" + cut(HEX, 146),
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxIn0." + cut(MIXED, 43),
    "onepassword_token": "op" + "s_eyJ" + cut(MIXED, 200),
    "password_hash": "$2" + "b$12$" + cut(MIXED, 53),
    "sentry_dsn": HEX + "@o12345.ing" + "est.sentry.io/1",
    "azure_devops_token": cut(MIXED, 76) + "AZ" + "DO" + "Ab1c",
    "snyk_token": "sny" + "k_uat." + cut(MIXED, 40),
    "openshift_token": "sha" + "256~" + cut(MIXED, 43),
    "okta_token": "SS" + "WS 00" + cut(MIXED, 40),
    "jenkins_token": "1" + "1" + HEX,
    "scaleway_key": "SC" + "W" + cut(UPPER, 17),
}
"""By kind."""

BESIDE = {
    "aws_secret_key": ("AWS_SECRET", cut(MIXED + "/+", 40)),
    "datadog_key": ("DD_CLIENT_APP_KEY", cut(HEX, 40)),
    "heroku_key": ("HEROKU_KEY", UUID),
    "algolia_key": ("ALGOLIA_ADMIN_KEY", HEX),
    "fastly_key": ("FASTLY_KEY", cut(MIXED, 32)),
    "cloudflare_key": ("CLOUDFLARE_GLOBAL_KEY", cut(HEX, 37)),
    "mistral_key": ("MISTRAL_KEY", cut(MIXED, 32)),
    "cohere_key": ("COHERE_KEY", cut(MIXED, 40)),
    "postmark_token": ("POSTMARK_SERVER_KEY", UUID),
    "honeycomb_key": ("HONEYCOMB_KEY", cut(MIXED, 22)),
    "okta_token": ("OKTA_CLIENT_AUTH", "00" + cut(MIXED, 40)),
    "ethereum_key": ("deployer wallet key", "0x" + HEX + HEX),
    "pkcs12": ("keystore_pass_p12_key", "MI" + "I" + cut(MIXED, 90)),
    "splunk_token": ("SPLUNK_HEC_KEY", UUID),
    "binance_key": ("BINANCE_KEY", cut(MIXED, 64)),
}

ROUND = {
    "alone": "{}",
    "in a sentence": "use {} for it.",
    "in quotes": 'x = "{}";',
    "in an escaped line": "a\\n{}\\nb",
    "in an address": "https://example.org/?q={}&page=2",
    "in XML": "<key>{}</key>",
    "among letters of no alphabet": "鍵: {}。",
}


@pytest.mark.parametrize("around", ROUND.values(), ids=ROUND)
@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_secret_of_a_published_form_is_found_wherever_it_stands(kind: str, around: str) -> None:
    secret = PUBLISHED[kind]
    text = around.format(secret)
    clean = redact_text(text)
    tail = secret.partition("@")[0].rpartition("/")[2].removeprefix("FlyV1 ").removeprefix("SSWS ")
    assert tail not in clean
    assert kind in {one.kind for one in find_secrets(text)}
    assert redact_text(clean) == clean
    assert tail not in json.dumps(redact({"command": text, "more": [text]}))


@pytest.mark.parametrize("kind", BESIDE)
def test_a_secret_without_a_form_is_found_beside_its_provider_s_name(kind: str) -> None:
    name, secret = BESIDE[kind]
    for text in (f"{name}={secret}", f"{name}: {secret}", f'"{name}": "{secret}"', f"export {name}='{secret}'"):
        assert secret not in redact_text(text), text
        assert kind in {one.kind for one in find_secrets(text)}, text
    assert secret not in str(redact({name: secret}))


def test_under_a_key_the_same_secret_has_the_same_mark_and_another_one_another() -> None:
    first, other = "gh" + "p_" + cut(MIXED, 36), "gh" + "p_" + cut(MIXED[::-1], 36)
    one, again, two = (redact_text(f"use {token}", b"k") for token in (first, first, other))
    assert one == again != two
    assert one.startswith("use [redacted:github_token:")
    assert redact_text(one, b"k") == one
    assert redact_text(f"use {first}", b"another") != one
    assert (
        redact({"password": "hunter2"}, b"k")
        == redact({"password": "hunter2"}, b"k")
        != {"password": "[redacted:password]"}
    )
