#!/usr/bin/env bash
# The Runner runs commands; it never calls a model. Fails when a manifest or lock file anywhere in the repository, or a
# source under crates/ or scripts/, names a client library of a model or a model's endpoint.
#
#   scripts/check-no-model-deps.sh [ROOT]     ROOT defaults to this repository
set -euo pipefail

root="$(cd "${1:-"$(dirname "${BASH_SOURCE[0]}")/.."}" && pwd)"

# Client libraries. `*` stands for any further letters, digits, `-` and `_`; `-` also matches `_`. Compared as whole
# words in lower case, so that a variable such as OPENAI_API_KEY in a test of the environment rules is no client.
libraries='
    async-openai*  openai*  anthropic*  claude-agent-sdk*  ollama*  genai  rig-core  llm*  litellm*  langchain*
    langgraph*  llama-index*  llamaindex*  llama-cpp*  llama-cpp  mistralrs*  mistralai*  groq*  cohere-*
    google-generativeai  generativeai  vertexai*  aws-sdk-bedrock*  ai-sdk*  swiftide*  kalosm*  candle-core
    candle-transformers  tiktoken*  transformers  huggingface*  hf-hub
'
# Endpoints, compared as they stand, in any case.
endpoints='
    api.openai.com  openai.azure.com  api.anthropic.com  generativelanguage.googleapis.com  aiplatform.googleapis.com
    api.mistral.ai  api.cohere.com  api.cohere.ai  api.groq.com  api.deepseek.com  api.together.xyz  api.x.ai
    openrouter.ai  api.perplexity.ai  api-inference.huggingface.co  router.huggingface.co  bedrock-runtime.
    localhost:11434  127.0.0.1:11434  /v1/chat/completions  /v1/embeddings
'

# Turns a list into the alternatives of an extended regular expression.
alternatives() {
    tr -s '[:space:]' '\n' <<<"$1" | sed -e '/^$/d' -e 's/[.]/\\./g' -e 's/-/[-_]/g' -e 's/[*]/[a-z0-9_-]*/g' | paste -sd '|'
}
library_pattern="(^|[^a-zA-Z0-9])($(alternatives "$libraries"))(\$|[^a-zA-Z0-9_-])"
endpoint_pattern="$(alternatives "$endpoints")"

# This file and its test name all of them.
cd "$root"
mapfile -d '' files < <(
    find . \( -name .git -o -name target -o -name 'target-*' -o -name node_modules -o -name __pycache__ \) -prune -o -type f \
        ! -path ./scripts/check-no-model-deps.sh ! -path ./scripts/tests/test_check_no_model_deps.py \
        \( -path './crates/*' -o -path './scripts/*' -o -name Cargo.toml -o -name Cargo.lock -o -name 'package*.json' \
        -o -name pnpm-lock.yaml -o -name yarn.lock -o -name pyproject.toml -o -name 'requirements*.txt' -o -name uv.lock \
        -o -name poetry.lock -o -name Pipfile -o -name go.mod -o -name go.sum -o -name Gemfile \) -print0
)
if ((${#files[@]} == 0)); then
    echo "check-no-model-deps: $root has no manifest and no source to look at" >&2
    exit 1
fi

# grep answers 1 for "nothing found"; everything above that is a fault of its own and must not pass as a clean result.
scan() {
    local status=0
    grep -nIHE "$@" -- "${files[@]}" || status=$?
    if ((status > 1)); then
        echo "check-no-model-deps: the scan itself failed ($status)" >&2
        exit 2
    fi
}
found="$(scan -e "$library_pattern")"
found+="$(scan -i -e "$endpoint_pattern")"

if [[ -n "$found" ]]; then
    printf '%s\n' "$found" >&2
    echo "check-no-model-deps: the Runner never calls a model; take the lines above out" >&2
    exit 1
fi
echo "no-model-deps ok"
