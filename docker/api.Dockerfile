# The API and its dashboard: no CUDA, no NVRTC, no torch. From the root of the tree:
#
#   docker build -f docker/api.Dockerfile -t fusetune-api .
#   docker run --rm -v fusetune:/data fusetune-api python -m service db upgrade
#   docker run -d -v fusetune:/data -e FUSETUNE_API_KEY=… -p 127.0.0.1:8765:8765 fusetune-api
#
# It listens on all interfaces of its container, so it demands a key. docker/compose.yaml runs it on PostgreSQL with a
# worker. Build arguments, all optional: PIP_INDEX_URL and UV_DEFAULT_INDEX name another package index.
#
# The base is pinned by tag, so that a rebuild takes security fixes. To pin the bytes as well, take the digest that
# `docker buildx imagetools inspect python:3.11-slim-bookworm` prints and write FROM python:3.11-slim-bookworm@sha256:…
# in both stages.

FROM python:3.11-slim-bookworm AS packages
ARG PIP_INDEX_URL
ARG UV_DEFAULT_INDEX
# System certificates: a base of one's own may trust more than Mozilla does.
ENV UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_NO_PROGRESS=1 UV_SYSTEM_CERTS=1
WORKDIR /build
# Only what decides the packages: a change of the code does not install them anew.
COPY pyproject.toml constraints.txt ./
RUN python -m venv /opt/venv && python -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt uv
RUN --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/uv pip install --python /opt/venv/bin/python -c constraints.txt -r pyproject.toml --group api

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 fusetune \
    && useradd --no-log-init --uid 10001 --gid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin fusetune
COPY --from=packages /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app:/app/sdk \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FUSETUNE_DATA_DIR=/data \
    FUSETUNE_HOST=0.0.0.0 \
    FUSETUNE_PORT=8765 \
    FUSETUNE_LOG_FORMAT=json
WORKDIR /app
# Readable for the user below, whatever umask the tree was checked out under.
COPY --chmod=755 compiler compiler
COPY --chmod=755 search search
COPY --chmod=755 sdk sdk
COPY --chmod=755 service service
COPY --chmod=755 migrations migrations
USER 10001:10001
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen('http://127.0.0.1:' + os.environ['FUSETUNE_PORT'] + '/healthz', timeout=4)"]
# No ENTRYPOINT: CI systems start a shell in the image, and commands are written out as in the docs.
CMD ["python", "-m", "service", "serve"]
