# The worker: tunes on the GPU that its container is given, and what a CI job runs. From the root of the tree:
#
#   docker build -f docker/worker.Dockerfile -t fusetune-worker .
#   docker run --gpus 1 -e FUSETUNE_DATABASE_URL=… -e FUSETUNE_JOBS_URL=… fusetune-worker
#   docker run --rm --gpus 1 --user "$(id -u):$(id -g)" -v "$PWD:/repo" fusetune-worker \
#     python -m service ci --fusions /repo/fusions --lock /repo/fusetune.lock --junit /repo/fusetune.xml
#
# docs/containers.md has the exit codes of `ci` and jobs for GitHub and GitLab.
#
# CUDA's libraries and NVRTC come as Python packages; libcuda.so.1 comes from the host's driver, by the NVIDIA container
# toolkit. No CUDA base image is needed, and without --gpus the image compiles, emulates and predicts: no driver.
#
# Where torch comes from, by build argument:
#   (none)                      the CUDA build of the package index
#   UV_TORCH_BACKEND=cpu        the CPU build of torch's own index: 4 GB less, for machines without a GPU
#   UV_FIND_LINKS=DIR-OR-URL    wheels of one's own come first; a folder must be mounted into the build
# PIP_INDEX_URL and UV_DEFAULT_INDEX name another package index. To pin the base's bytes, see docker/api.Dockerfile.

FROM python:3.11-slim-bookworm AS packages
ARG PIP_INDEX_URL
ARG UV_DEFAULT_INDEX
ARG UV_TORCH_BACKEND
ARG UV_FIND_LINKS
# System certificates: a base of one's own may trust more than Mozilla does.
ENV UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_NO_PROGRESS=1 UV_SYSTEM_CERTS=1
WORKDIR /build
# Only what decides the packages: a change of the code does not install them anew.
COPY pyproject.toml constraints.txt ./
RUN python -m venv /opt/venv && python -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt uv
RUN --mount=type=cache,target=/var/cache/uv \
    /opt/uv/bin/uv pip install --python /opt/venv/bin/python -c constraints.txt -r pyproject.toml --group server

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 fusetune \
    && useradd --no-log-init --uid 10001 --gid 10001 --home-dir /data --create-home --shell /usr/sbin/nologin fusetune
COPY --from=packages /opt/venv /opt/venv
# The two NVIDIA variables are the container toolkit's: all GPUs that the container may see, CUDA and NVML of the driver.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONPATH=/app:/app/sdk \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    FUSETUNE_DATA_DIR=/data \
    FUSETUNE_LOG_FORMAT=json \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /app
# Readable for the user below, whatever umask the tree was checked out under.
COPY --chmod=755 compiler compiler
COPY --chmod=755 search search
COPY --chmod=755 sdk sdk
COPY --chmod=755 service service
COPY --chmod=755 migrations migrations
COPY --chmod=755 docker/worker_health.py docker/worker_health.py
USER 10001:10001
VOLUME /data
# Asks the database for the heartbeat of this worker; in a container that runs `ci` it says nothing of use.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "docker/worker_health.py"]
# No ENTRYPOINT: CI systems start a shell in the image, and commands are written out as in the docs.
CMD ["python", "-m", "service", "worker"]
