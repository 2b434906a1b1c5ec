# The operator's image: the operator and what it needs, as the locks have it, on a base with Python 3.11 or newer.
#
#   make image                                      by docker, podman or buildah, whichever works here
#   make image BASE=localhost/tf-operator-base      on a base of Debian's packages (hack/base-image), without a registry
#
# A base's Python should be built with profile-guided optimization, as the official image's and Debian's are: it takes a
# twelfth less CPU.
#
# Two builds of one commit on one base give the same digest: hack/image sets all times to that of the commit.
#
# checkov:skip=CKV_DOCKER_7:The base has a tag; it is in an argument, where checkov does not look.
# checkov:skip=CKV_DOCKER_2:The kubelet asks /healthz and /readyz; an OCI image has no HEALTHCHECK.
ARG BASE=docker.io/library/python:3.13-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
COPY hack/requirements/ci.txt hack/requirements/image.txt ./
# The build backend is pinned like everything else: its lines of the larger lock.
# Where packages come by way of a proxy with a certificate of its own, hack/image passes that as the secret "ca".
RUN --mount=type=secret,id=ca \
    if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
    && awk '/^setuptools==/ { found = 1 } found { print } found && !/\\$/ { exit }' ci.txt > backend.txt \
    && python3 -m venv /build \
    && python3 -m venv --without-pip /opt/tf-operator \
    && pip="/build/bin/python -m pip --disable-pip-version-check --no-cache-dir" \
    && $pip install --quiet --require-hashes -r backend.txt \
    && $pip --python /opt/tf-operator/bin/python install --quiet --no-compile --require-hashes --only-binary :all: -r image.txt
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY tf_operator tf_operator
# Compiled now, because the root file system is read-only later; by content, because times differ from build to build.
RUN /build/bin/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheel . \
    && /build/bin/python -m pip --disable-pip-version-check --python /opt/tf-operator/bin/python \
        install --quiet --no-compile --no-deps --no-index /wheel/*.whl \
    && find /opt/tf-operator -depth \( -name direct_url.json -o -name __pycache__ \) -exec rm -rf {} + \
    && PYTHONHASHSEED=0 /opt/tf-operator/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/tf-operator/lib

FROM ${BASE}
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="tf-operator" \
      org.opencontainers.image.description="Runs TensorFlow training jobs (TFJob, kubeflow.org/v1) on Kubernetes." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=build /opt/tf-operator /opt/tf-operator
# Nothing is written anywhere; and tracebacks and logs come at once.
ENV PATH=/opt/tf-operator/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 8080 8081
ENTRYPOINT ["tf-operator"]
CMD ["run"]
