"""Name the environment variables of a box that are not the operator's to set."""

from pidispatch.domain.forges.table import FORGES

MINTED_NAMES = frozenset(name for forge in FORGES.values() for name in forge.token_names)

# Of the worker's own environment: these never leave it.
WORKER_SECRETS = frozenset(
    {"DATABASE_URL", "REDIS_URL", "VALKEY_URL", "VALKEY_PASSWORD", "PGPASSWORD", "PGPASSFILE"}
    | {"WEBHOOK_SECRET", *(name for forge in FORGES.values() for name in forge.secret_names)}
)

BOX_NAMES = frozenset(
    [
        "HOME",
        "PI_PROVIDER",
        "PI_MODEL",
        "PI_MAX_TURNS",
        "PI_MAX_TOKENS",
        "PI_JOB_ID",
        "PI_OFFLINE",
        "PI_TELEMETRY",
        "PI_SKIP_VERSION_CHECK",
        "PI_FLOW",
        "PI_COMMAND",
        "PI_EXCLUDE_TOOLS",
        "PI_CODING_AGENT_DIR",
        "PI_SESSION_FILE",
        "PI_PACKAGES",
        "PI_ALLOWED_MODELS",
        "PI_MAX_COST_MICROS",
        "PI_EXIT_AUTH",
        "PI_GLOBAL_ALLOW_EXTENSIONS",
    ]
)
BOX_PREFIX = "PI_DISPATCH_"

_IMAGE_FACTS = frozenset({"PLAYWRIGHT_BROWSERS_PATH", "PLAYWRIGHT_MCP_BROWSER", "PLAYWRIGHT_MCP_SANDBOX"})
EGRESS_NAMES = frozenset(
    [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "NODE_USE_ENV_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
    ]
)
# What pi and its providers' libraries read to learn where a call goes and what signs it. Keys of providers are not
# here: a job may well hold the key of another provider for its own work.
_STEERING = frozenset(
    [
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_LOG",
        "AWS_ACCESS_KEY_ID",
        "AWS_BEARER_TOKEN_BEDROCK",
        "AWS_BEDROCK_FORCE_CACHE",
        "AWS_BEDROCK_FORCE_HTTP1",
        "AWS_BEDROCK_SKIP_AUTH",
        "AWS_CONFIG_FILE",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
        "AWS_PROFILE",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AZURE_OPENAI_API_VERSION",
        "AZURE_OPENAI_BASE_URL",
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP",
        "AZURE_OPENAI_ENDPOINT",
        "AZURE_OPENAI_RESOURCE_NAME",
        "GCLOUD_PROJECT",
        "GEMINI_NEXT_GEN_API_BASE_URL",
        "GEMINI_NEXT_GEN_API_LOG",
        "GOOGLE_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_CLOUD_LOCATION",
        "GOOGLE_CLOUD_PROJECT",
        "GOOGLE_GEMINI_BASE_URL",
        "GOOGLE_GENAI_USE_ENTERPRISE",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_VERTEX_BASE_URL",
        "OPENAI_API_VERSION",
        "OPENAI_BASE_URL",
        "OPENAI_LOG",
        "OPENAI_ORG_ID",
        "OPENAI_PROJECT_ID",
        "OPENAI_WEBHOOK_SECRET",
        "PI_CACHE_RETENTION",
        "PI_GATEWAY",
        "PI_OAUTH_CALLBACK_HOST",
    ]
)
# A trigger's secret comes from the operator's vault and not from the worker's environment, so a DATABASE_URL of the
# program under test is fine there.
RESERVED_FOR_SECRETS = (
    MINTED_NAMES
    | BOX_NAMES
    | _IMAGE_FACTS
    | EGRESS_NAMES
    | _STEERING
    | {"GITHUB_APP_PRIVATE_KEY", "VALKEY_PASSWORD"}
)


def is_reserved_for_secrets(name: str) -> bool:
    """Whether a trigger's `run.secrets` may not set this variable."""
    return name in RESERVED_FOR_SECRETS or name.startswith(BOX_PREFIX)
