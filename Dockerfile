# syntax=docker/dockerfile:1
# One image for every role: `worker`, `gateway`, `serve`, `topics create`, `demo`. `curator`, and a
# `serve` that answers questions, also need DuckDB and OpenDP: `docker build --target curator`.

FROM python:3.13.9-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/accountant
ENV PATH=/opt/accountant/bin:$PATH
WORKDIR /src
COPY requirements/runtime.txt requirements/build.txt requirements/
# Install locked packages only; this resolves no versions.
RUN pip install --require-hashes -r requirements/runtime.txt
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY accountant accountant
COPY streams streams
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && pip install --no-deps /wheels/*.whl \
 && pip uninstall --yes pip

FROM build AS build-curator
COPY requirements/curator.txt requirements/
RUN /opt/build/bin/pip --python /opt/accountant/bin/python install --require-hashes \
      -r requirements/curator.txt

FROM python:3.13.9-slim-trixie AS base
RUN groupadd --gid 10001 accountant \
 && useradd --system --uid 10001 --gid accountant --create-home --home-dir /var/lib/accountant accountant
# A new volume gets the owner and mode of the directory that it is mounted on: docker-compose.yml.
RUN for each in broker worker gateway curator operator people prometheus tokens; do \
      install --directory --owner accountant --group accountant --mode 0750 "/etc/accountant/$each"; \
    done
ENV PATH=/opt/accountant/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /var/lib/accountant
EXPOSE 8000 8001 8080
# SIGTERM stops every role, within 27 s at the latest; docker-compose.yml waits for it.
STOPSIGNAL SIGTERM
ENTRYPOINT ["accountant"]
CMD ["--help"]

FROM base AS curator
COPY --from=build-curator /opt/accountant /opt/accountant

# The last stage is what `docker build` makes without a target.
FROM base
COPY --from=build /opt/accountant /opt/accountant
