# One image for every service: the libraries of requirements-image.txt, the JARs of jars.lock, and the project.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*

# The user owns the state folder in the image, so that a new named volume belongs to it too.
RUN useradd --create-home --uid 10001 stateward \
    && mkdir -p /opt/stateward /var/lib/stateward \
    && chown stateward:stateward /opt/stateward /var/lib/stateward
USER stateward
WORKDIR /opt/stateward

ENV VIRTUAL_ENV=/opt/stateward/.venv \
    PATH=/opt/stateward/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONPATH=/opt/stateward \
    PYSPARK_PYTHON=/opt/stateward/.venv/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/stateward/.venv/bin/python \
    STATEWARD_PROJECT=/opt/stateward \
    STATEWARD_HOME=/var/lib/stateward \
    AIRFLOW_HOME=/var/lib/stateward/airflow

# Slow to build and seldom changed, so before the project's own files.
COPY --chown=stateward requirements-image.txt ./
RUN python -m venv .venv && pip install --no-cache-dir --no-deps --require-hashes -r requirements-image.txt \
    && find .venv -type d -name example_dags -prune -exec rm -r {} +
COPY --chown=stateward pyproject.toml README.md jars.toml jars.lock ./
COPY --chown=stateward stateward ./stateward
COPY --chown=stateward include ./include
RUN mkdir -p spark_jobs && pip install --no-cache-dir --no-deps --no-build-isolation -e . && stateward jars

COPY --chown=stateward dags ./dags
COPY --chown=stateward spark_jobs ./spark_jobs
COPY --chown=stateward data ./data
